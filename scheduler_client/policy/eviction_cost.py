"""What evicting a running job costs: the work that is lost, and more with every past eviction."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from data.domain import JobRequest
from scheduler_client.policy.view import ClusterView, PastEviction, RunningJob

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class EvictionRules:
    """Who may be evicted, and what that counts.

    Attributes
    ----------
    growth : float
        By so much of itself the cost grows with each past eviction (>= 0).
    half_life_s : float
        In so long a past eviction counts half.
    most : int
        Evictions of one job; after that it stays where it starts, and starts only within its
        queue's nominal quota or while nobody waits who could take back what it borrows.
    window_s : float
        For so long a job that was evicted does not have the one evicted that it gave way to.
    least_run_s : float
        So long a job runs at least before one of higher priority takes its place.
    most_per_cycle : int
        Preemptors that are served in one cycle.
    """

    growth: float = 0.5
    half_life_s: float = 6 * HOUR_S
    most: int = 5
    window_s: float = 6 * HOUR_S
    least_run_s: float = 600.0
    most_per_cycle: int = 8


class EvictionHistory:
    """Who was evicted for whom, when and how often."""

    def __init__(self, evictions: Iterable[PastEviction], now: float, rules: EvictionRules) -> None:
        self._now, self._rules = now, rules
        self._by_job: dict[str, list[PastEviction]] = {}
        for eviction in evictions:
            self._by_job.setdefault(eviction.job_id, []).append(eviction)

    def knows(self, job_id: str) -> bool:
        """Return whether a job has ever been evicted."""
        return job_id in self._by_job

    def is_worn(self, job_id: str) -> bool:
        """Return whether a job has been evicted as often as a job may be."""
        return len(self._by_job.get(job_id, ())) >= self._rules.most

    def gave_way_to(self, job_id: str) -> set[str]:
        """Return the jobs that a job was evicted for a short while ago."""
        since = self._now - self._rules.window_s
        return {e.for_job_id for e in self._by_job.get(job_id, ()) if e.time > since}

    def waits_since(self, job: JobRequest) -> float:
        """Return since when a pending job waits: its submission, or its last eviction."""
        times = [eviction.time for eviction in self._by_job.get(job.job_id, ())]
        return max([job.submit_time, *times])

    def growth(self, job_id: str) -> float:
        """Return by how much the cost of evicting a job has grown (>= 1)."""
        ages_s = (self._now - eviction.time for eviction in self._by_job.get(job_id, ()))
        counted: float = sum(0.5 ** (max(0.0, age) / self._rules.half_life_s) for age in ages_s)
        return 1 + self._rules.growth * counted


def eviction_costs(view: ClusterView, history: EvictionHistory) -> Mapping[str, float]:
    """Return what evicting each running job costs (GPU seconds), by job id.

    Lost is what was done since its work was last saved. Of a job that never says so it is taken
    to be what is usual among those that do, so that silence does not pay; where nobody says
    anything, all that it has done.

    Notes
    -----
    DeepShare's history-weighted preemption cost; the usual loss for silent jobs answers Kueue's
    issue 477.
    """
    said = [view.now - job.saved_time for job in view.running if job.saved_time is not None]
    usual_s = median(said) if said else float("inf")
    return {
        job.job_id: _lost_s(job, view.now, usual_s) * len(job.card_ids) * history.growth(job.job_id)
        for job in view.running
    }


def _lost_s(job: RunningJob, now: float, usual_s: float) -> float:
    elapsed_s = max(0.0, now - job.start_time)
    if job.saved_time is None:
        return min(elapsed_s, usual_s)
    return min(elapsed_s, max(0.0, now - job.saved_time))
