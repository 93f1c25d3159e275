"""Tiny replays: all jobs arrive at once, or nearly, on a pool of cards."""

import numpy as np

from pipelines.runtime.ordering import ALONE
from scheduler_client.replay.simulation import Simulation, Site
from scheduler_client.replay.trace import Trace


def trace(runtime_s, gpus=None):
    """Jobs that arrive within a millisecond, in their order."""
    n = len(runtime_s)
    return Trace(
        job_ids=tuple(str(job) for job in range(n)),
        arrival_s=np.arange(n) * 1e-3,
        runtime_s=np.array(runtime_s, np.float64),
        gpus=np.array(gpus or [1] * n, np.int64),
        queue=np.zeros(n, np.int64),
        workload=np.zeros(n, np.int64),
        queues=("q",),
    )


def replay(jobs, policy, cards=1):
    """When a policy started each job, and when it ended."""
    simulation = Simulation(jobs, Site(cards, (cards,)), ALONE)
    simulation.run(policy)
    return np.array(simulation.first_start_s), np.array(simulation.finish_s)


def order_of_starts(jobs, policy, cards=1):
    """The jobs in the order in which a policy started them."""
    return np.argsort(replay(jobs, policy, cards)[0], kind="stable").tolist()
