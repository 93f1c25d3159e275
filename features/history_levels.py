"""By which columns finished jobs count as alike, and how strongly alike jobs hang together."""

from dataclasses import dataclass

from features.kriging import Kernel

HOUR_S = 3600.0
REQUEST = ("kind", "queue", "gpus", "cpus", "mem_mib", "limit_s")
"""What is asked for; ``kind`` is the job key, empty where there is none."""

TOGETHER = Kernel((0.27, 0.8), (150 * HOUR_S, 0.25 * HOUR_S), noise=7.5, noise_jobs=8.0)
"""Searched for on the jobs of DRAC that were submitted before 24 May 2021."""

SAME_KEY = Kernel((16.0,), (1000 * HOUR_S,), noise=0.3, noise_jobs=2.0)
"""Jobs with one key do the same work; set by judgement, as no public log here has job keys."""


@dataclass(frozen=True, slots=True)
class Level:
    """Jobs that share `columns`; a missing ``job_key`` belongs to no level of its own."""

    name: str
    columns: tuple[str, ...]
    kernel: Kernel


CLUSTER_LEVELS = (
    Level("key", ("job_key",), SAME_KEY),
    Level("request", REQUEST, TOGETHER),
    Level("queue", ("queue",), TOGETHER),
)
"""Finest first. No user is told apart, but the same request often comes from the same user."""

USER_LEVELS = (
    Level("user_request", ("user", *REQUEST), TOGETHER),
    Level("user", ("user",), TOGETHER),
)
"""Finest first."""

LEVELS = (*CLUSTER_LEVELS, *USER_LEVELS)
