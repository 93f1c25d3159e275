"""Why jobs waited over time, and how they were placed: kept while the scheduler runs."""

from collections import OrderedDict
from dataclasses import dataclass, replace

from scheduler_client.policy.decisions import Admission, Decision, Waiting

KEPT_JOBS = 20_000
KEPT_SPANS = 100
"""Of one job; the newest."""


@dataclass(frozen=True, slots=True)
class Span:
    """Cycles in a row in which a job waited for the same reason.

    Attributes
    ----------
    first_time, last_time : float
        Of the first and the newest of them (s since 1970, UTC).
    waiting : Waiting
        As of the newest.
    """

    first_time: float
    last_time: float
    cycles: int
    waiting: Waiting


@dataclass(frozen=True, slots=True)
class PlacedAt:
    """An admission, when it was decided (s since 1970, UTC)."""

    time: float
    admission: Admission


class History:
    """What every cycle decided about each job, the jobs of long ago forgotten."""

    def __init__(self) -> None:
        self._spans: OrderedDict[str, list[Span]] = OrderedDict()
        self._placed: OrderedDict[str, list[PlacedAt]] = OrderedDict()

    def observe(self, decision: Decision, time: float) -> None:
        """Take in a cycle's decision."""
        for waiting in decision.waiting:
            spans = self._spans.setdefault(waiting.job_id, [])
            self._spans.move_to_end(waiting.job_id)
            if spans and spans[-1].waiting.reason is waiting.reason:
                cycles = spans[-1].cycles + 1
                spans[-1] = replace(spans[-1], last_time=time, cycles=cycles, waiting=waiting)
            else:
                spans.append(Span(time, time, 1, waiting))
                del spans[:-KEPT_SPANS]
        for admission in decision.admissions:
            self._placed.setdefault(admission.job_id, []).append(PlacedAt(time, admission))
            self._placed.move_to_end(admission.job_id)
        for kept in (self._spans, self._placed):
            while len(kept) > KEPT_JOBS:
                kept.popitem(last=False)

    def spans(self, job_id: str) -> tuple[Span, ...]:
        """Return why a job waited, in the order of time."""
        return tuple(self._spans.get(job_id, ()))

    def placed(self, job_id: str) -> tuple[PlacedAt, ...]:
        """Return how the attempts of a job were placed."""
        return tuple(self._placed.get(job_id, ()))
