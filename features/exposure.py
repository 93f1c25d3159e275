"""How a job's run divides into time alone and time beside neighbours, from its segments."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from data.domain import FinishedJob
from data.placement import stretches

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
    together_s : mapping of tuple of str to float
        By everybody who was there at once, sorted; the empty tuple is time alone. Its sum
        counts every recorded second once.
    """

    runtime_s: float
    exclusive_s: float
    beside_s: Mapping[str, float]
    crowded_s: Mapping[str, float]
    gpu_model: str
    together_s: Mapping[tuple[str, ...], float] = field(default_factory=dict)

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
    together: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for stretch in stretches(job):
        together[stretch.neighbour_keys] += stretch.seconds
    for met, seconds in together.items():
        for neighbour in set(met):
            (beside if len(met) == 1 else crowded)[neighbour] += seconds
    models = sorted({segment.gpu_model for segment in job.segments})
    model = "+".join(models) or UNKNOWN_GPU_MODEL
    alone_s = together.get((), 0.0)
    return Exposure(job.runtime_s, alone_s, dict(beside), dict(crowded), model, dict(together))


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
