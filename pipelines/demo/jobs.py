"""The jobs that ``make run`` submits: three users, each with their own kind of work."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

USERS = ("ana", "bo", "chen")
JOBS = 40
SUBMIT_WITHIN_S = 20.0


@dataclass(frozen=True, slots=True)
class DemoJob:
    """One submission: who, which workload, and how long after the first one (s)."""

    user: str
    job_key: str
    offset_s: float


def demo_jobs(job_keys: Sequence[str], seed: int, jobs: int = JOBS) -> tuple[DemoJob, ...]:
    """Return `jobs` submissions of three users, in order of time.

    Parameters
    ----------
    job_keys : sequence of str, length n >= 1
        Every one is submitted about equally often, in a seeded order; each user prefers a third
        of them, as people do who rerun their own model.
    seed : int
    jobs : int

    Returns
    -------
    tuple of DemoJob
        Offsets rise from 0 to at most ``SUBMIT_WITHIN_S`` seconds.

    Examples
    --------
    >>> [job.user for job in demo_jobs(["sort", "zip", "json"], seed=1, jobs=3)]
    ['chen', 'ana', 'bo']
    """
    order = random.Random(seed)  # noqa: S311 - a reproducible draw, not a secret
    keys = [job_keys[number % len(job_keys)] for number in range(jobs)]
    order.shuffle(keys)
    owner = {key: USERS[number % len(USERS)] for number, key in enumerate(sorted(set(job_keys)))}
    offsets = sorted(order.uniform(0, SUBMIT_WITHIN_S) for _ in range(jobs))
    first = offsets[0]
    return tuple(
        DemoJob(owner[key] if order.random() < 0.8 else order.choice(USERS), key, offset - first)
        for key, offset in zip(keys, offsets, strict=True)
    )
