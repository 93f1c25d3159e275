"""A Prometheus in memory: series by hand, selected as the real one would."""

import re
from collections.abc import Sequence

import numpy as np

from data.dcgm import ALLOCATION_INFO
from data.prometheus.source import Series

MATCH = re.compile(r'(\w+)(=~|=)"((?:[^"\\]|\\.)*)"')


def series(name: str, times: Sequence[float], values: Sequence[float], **labels: str) -> Series:
    everything = {"__name__": name, **labels}
    return Series(everything, np.array(times, np.float64), np.array(values, np.float64))


def held(times, uuid="GPU-1", card="g0", job_id="1", attempt="1") -> Series:
    """The scheduler's own series: this job on this card at these moments."""
    labels = {"UUID": uuid, "card": card, "job_id": job_id, "attempt": attempt}
    return series(ALLOCATION_INFO, times, [1.0] * len(times), **labels)


class MemorySource:
    def __init__(self, *found: Series) -> None:
        self.found, self.asked = list(found), []

    def samples(self, selector, start_time, finish_time):
        self.asked.append(selector)
        return [_cut(one, start_time, finish_time) for one in self.found if _selects(selector, one)]

    def steps(self, query, start_time, finish_time, step_s):
        self.asked.append(query)
        return [
            _cut(one, start_time, finish_time)
            for one in self.found
            if one.labels["__name__"] == query
        ]


def _selects(selector: str, one: Series) -> bool:
    for label, operator, value in MATCH.findall(selector):
        text, wanted = one.labels.get(label, ""), value.replace("\\\\", "\\")
        matches = re.fullmatch(wanted, text) if operator == "=~" else text == wanted
        if not matches:
            return False
    return True


def _cut(one: Series, start: float, finish: float) -> Series:
    within = (one.times >= start) & (one.times <= finish)
    return Series(one.labels, one.times[within], one.values[within])
