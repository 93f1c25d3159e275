"""Which cards a job held, and who else was on them: the scheduler's own series."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from data.domain import FinishedJob
from data.prometheus.config import AllocationLabels
from data.prometheus.moments import Interval
from data.prometheus.source import Floats, SampleSource, Series, selector


@dataclass(frozen=True, slots=True)
class Allocation:
    """What the scheduler said of a job's cards.

    Attributes
    ----------
    uuids : mapping of card id to UUID
        Only cards of the job's segments; empty where a card has two, as when two schedulers
        name a job alike.
    strangers : tuple of arrays
        Of every other job on one of these cards, when it was seen there (s since 1970, UTC).
    """

    uuids: Mapping[str, str]
    strangers: tuple[Floats, ...] = ()


def allocation(
    job: FinishedJob, source: SampleSource, labels: AllocationLabels, slack_s: float
) -> Allocation:
    """Return which cards a job held by UUID, and who else was seen on them.

    Raises
    ------
    TelemetryError
        If the source cannot be asked now.
    """
    start, finish = job.start_time, job.finish_time + slack_s
    mine = {labels.job_id: job.job_id, labels.attempt: str(job.attempt)}
    own = source.samples(selector([labels.metric], {**labels.match, **mine}), start, finish)
    uuids = _uuids(own, labels, {segment.card_id for segment in job.segments})
    if not uuids:
        return Allocation({})
    there = selector([labels.metric], {labels.uuid: sorted(uuids.values())})
    everybody = source.samples(there, start, finish)
    strangers = tuple(one.times for one in everybody if not _is_mine(one, job, labels))
    return Allocation(uuids, strangers)


def unshared(
    intervals: Iterable[Interval], found: Allocation, slack_s: float
) -> tuple[list[Interval], list[Interval]]:
    """Return the intervals in which no stranger was seen on the cards, and the others.

    Parameters
    ----------
    slack_s : float
        At both ends of an interval a stranger is one who is just leaving, or just coming.

    Examples
    --------
    >>> found = Allocation({}, (np.array([11.0, 50.0]),))
    >>> unshared([(10.0, 20.0), (40.0, 60.0)], found, slack_s=5.0)
    ([(10.0, 20.0)], [(40.0, 60.0)])
    """
    alone: list[Interval] = []
    shared: list[Interval] = []
    for start, finish in intervals:
        seen = any(
            bool(np.any((times > start + slack_s) & (times < finish - slack_s)))
            for times in found.strangers
        )
        (shared if seen else alone).append((start, finish))
    return alone, shared


def _uuids(own: Sequence[Series], labels: AllocationLabels, cards: set[str]) -> dict[str, str]:
    named = {
        (card, uuid)
        for one in own
        if (card := one.labels.get(labels.card)) in cards and (uuid := one.labels.get(labels.uuid))
    }
    found = {card: uuid for card, uuid in named if card is not None}
    return found if len(found) == len(named) else {}


def _is_mine(one: Series, job: FinishedJob, labels: AllocationLabels) -> bool:
    named = (one.labels.get(labels.job_id), one.labels.get(labels.attempt))
    return named == (job.job_id, str(job.attempt))
