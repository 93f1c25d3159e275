"""How a job's run divides into time alone and time beside neighbours, from its segments."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from data.domain import FinishedJob

UNKNOWN_GPU_MODEL = "unknown"
WHOLE = 0.99  # share of a run that must be on record to say who was there
LEAST_SHARED_WORK = 0.5  # of a job's work; below it the baseline's noise more than doubles


@dataclass(frozen=True, slots=True)
class Exposure:
    """Seconds of one run by what was on its cards.

    Attributes
    ----------
    runtime_s : float
        Start to finish.
    exclusive_s : float
        With no neighbour on any of its cards.
    beside_s : mapping of job key to float
        With exactly one neighbour, by who it was.
    crowded_s : mapping of job key to float
        With two or more neighbours at once, by each of them: the sum counts such time twice.
    gpu_model : str
        Of its cards; several are joined by ``+``, none is ``unknown``.
    """

    runtime_s: float
    exclusive_s: float
    beside_s: Mapping[str, float]
    crowded_s: Mapping[str, float]
    gpu_model: str

    @property
    def neighbours(self) -> frozenset[str]:
        """Every job key that was met."""
        return frozenset(self.beside_s) | frozenset(self.crowded_s)

    @property
    def recorded_s(self) -> float:
        """Time that was recorded, where there was at most one neighbour at once."""
        return self.exclusive_s + sum(self.beside_s.values())


def exposure(job: FinishedJob) -> Exposure:
    """Return how the run of `job` divides; time outside every segment is in no part.

    Segments of a gang's cards may run in parallel: a moment counts as exclusive when all its
    cards were.

    Examples
    --------
    >>> from data.domain import Outcome, Segment
    >>> segments = (Segment(0, 4, "g0", "A100"), Segment(4, 10, "g0", "A100", ("bert",)))
    >>> job = FinishedJob("1", 1, "u", "q", "ncf", 1, 0, 0, 10, Outcome.OK, segments)
    >>> found = exposure(job)
    >>> found.exclusive_s, dict(found.beside_s), found.gpu_model
    (4.0, {'bert': 6.0}, 'A100')
    """
    beside: defaultdict[str, float] = defaultdict(float)
    crowded: defaultdict[str, float] = defaultdict(float)
    exclusive_s = 0.0
    for seconds, met in _moments(job):
        match met:
            case ():
                exclusive_s += seconds
            case (neighbour,):
                beside[neighbour] += seconds
            case _:
                for neighbour in set(met):
                    crowded[neighbour] += seconds
    models = sorted({segment.gpu_model for segment in job.segments})
    model = "+".join(models) or UNKNOWN_GPU_MODEL
    return Exposure(job.runtime_s, exclusive_s, dict(beside), dict(crowded), model)


def lone_neighbour(found: Exposure, baseline_s: float) -> tuple[str, float] | None:
    """Return the one neighbour of a run and how much the job slowed down beside it.

    Parameters
    ----------
    found : Exposure
    baseline_s : float
        Runtime of the same job alone on the same GPU model, in seconds (> 0).

    Returns
    -------
    neighbour, slowdown : str, float
        Shared time over the work that was left for it. None where there were several
        neighbours or none, time was not recorded, or the shared work is less than half of all.

    Examples
    --------
    >>> lone_neighbour(Exposure(16.0, 4.0, {"bert": 12.0}, {}, "A100"), baseline_s=10.0)
    ('bert', 2.0)
    """
    one = len(found.beside_s) == 1 and not found.crowded_s
    recorded = found.recorded_s >= WHOLE * found.runtime_s
    work_s = baseline_s - found.exclusive_s
    if not (one and recorded and work_s >= LEAST_SHARED_WORK * baseline_s):
        return None
    ((neighbour, shared_s),) = found.beside_s.items()
    return neighbour, shared_s / work_s


def _moments(job: FinishedJob) -> Iterable[tuple[float, tuple[str, ...]]]:
    """Yield each stretch between two changes on any card: its seconds and the neighbours."""
    clipped = [
        (max(s.start_time, job.start_time), min(s.finish_time, job.finish_time), s.neighbour_keys)
        for s in job.segments
    ]
    cuts = sorted({moment for start, finish, _ in clipped for moment in (start, finish)})
    cards: list[list[tuple[str, ...]]] = [[] for _ in cuts]
    for start, finish, neighbours in clipped:
        for at in range(bisect_left(cuts, start), bisect_left(cuts, finish)):
            cards[at].append(neighbours)
    for (left, right), met in zip(pairwise(cuts), cards, strict=False):
        if met:
            yield right - left, _together(met)


def _together(cards: list[tuple[str, ...]]) -> tuple[str, ...]:
    # The same key on two cards is taken for one gang; twice on one card, for two jobs.
    fullest = max(cards, key=len)
    return fullest if len(fullest) > 1 else tuple(sorted({key for card in cards for key in card}))
