"""Levels of attained service: who has had much GPU time goes behind who has had little."""

from bisect import bisect_right
from dataclasses import dataclass

from scheduler_client.policy.view import PendingJob, RunningJob

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class LevelRules:
    """What goes by the GPU time that a job has had.

    Attributes
    ----------
    levels_gpu_s : tuple of float
        GPU time had at which a job goes behind those with less, ascending.
    least_run_s : float
        A job runs at least so long before one of a lower level takes its place: nobody is
        evicted to and fro.
    grace_s : float
        A job that runs on what others lent does so at least so long before it is taken back,
        unless it started while the one whose nominal quota it is waited already: else who was
        evicted would have others evicted at once, and these again.
    reserve_after_s : float
        Cards are kept for a job that has waited so long, in place of `ReservationRules`: levels
        let others pass for a while, not for ever.
    fresh_slowdown : float
        Tolerated at least, whatever the pressure, for a job of the lowest level: it is soon
        done, or soon of a higher level (>= 1).
    guaranteed_slowdown : float
        Tolerated for a job whose queue its nominal quota alone would do for (>= 1).

    Notes
    -----
    Levels by attained GPU time, without knowing durations: Gu et al., "Tiresias", NSDI 2019.
    """

    levels_gpu_s: tuple[float, ...] = tuple(h * HOUR_S for h in (2, 8, 32, 128, 512))
    least_run_s: float = HOUR_S
    grace_s: float = 300.0
    reserve_after_s: float = 168 * HOUR_S
    fresh_slowdown: float = 1.7
    guaranteed_slowdown: float = 1.05

    def level(self, done_gpu_s: float) -> int:
        """Return how many of the levels a job has passed.

        Examples
        --------
        >>> LevelRules().level(0.0), LevelRules().level(30_000.0)
        (0, 2)
        """
        return bisect_right(self.levels_gpu_s, done_gpu_s)


def attained_gpu_s(job: RunningJob, now: float) -> float:
    """Return the GPU time that a running job has had, earlier attempts included.

    Examples
    --------
    >>> job = RunningJob("7", "ada", "research", "bert", ("gpu0", "gpu1"), 100.0, attained_gpu_s=5)
    >>> attained_gpu_s(job, 130.0)
    65.0
    """
    return job.attained_gpu_s + max(0.0, now - job.start_time) * len(job.card_ids)


def service_key(
    pending: PendingJob, predicted_gpu_s: float, rules: LevelRules
) -> tuple[int, float]:
    """Return where a job stands by its level, then by its GPU time; the lowest goes first.

    Parameters
    ----------
    predicted_gpu_s : float
        Of the whole job (GPU seconds); infinite where nobody knows.

    Examples
    --------
    >>> from data.domain import JobRequest
    >>> job = JobRequest("7", "ada", "research", "bert", 0.0)
    >>> service_key(PendingJob(job, attained_gpu_s=9000.0), 60.0, LevelRules())
    (1, 9000.0)
    """
    done = pending.attained_gpu_s
    return rules.level(done), max(done, predicted_gpu_s)
