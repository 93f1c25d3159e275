"""How often a job starts within its estimated wait; ``make bench-wait``.

Jobs arrive at random on a cluster in memory under the live policy ``colocate``, cards unshared.
Runtimes are lognormal around the median of their kind; what is predicted is that median with the
true 5 % and 95 % quantiles, as a perfectly calibrated model would say. So what is measured is the
estimate of the wait alone: jobs that come later, and turns that change, are what it cannot know.
Each job is asked about once, in the cycle after which it first waits.
"""

import argparse
import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from data.domain import Estimate, JobRequest, Source
from scheduler_client.clusters import Launch
from scheduler_client.explaining.wait import WaitEstimate, wait_estimate
from scheduler_client.memory_cluster import InMemoryCluster
from scheduler_client.policy.decide import PolicyRules, decide
from scheduler_client.policy.decisions import Level
from scheduler_client.policy.predictions import JobForecast
from scheduler_client.policy.view import CardState, ClusterView, PendingJob, Queue, RunningJob

CARDS, JOBS, USERS = 16, 1_200, 6
SIGMA, Z95 = 0.6, 1.645
LOADS = (0.7, 0.9, 1.1)


@dataclass(slots=True)
class Asked:
    """An estimate, and what came of it (s from when it was asked)."""

    estimate: WaitEstimate
    asked_time: float
    waited_s: float | None = None


def main() -> None:
    """Print a row for each load, and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=JOBS)
    asked = parser.parse_args()
    rows = []
    print(
        "load  jobs that waited  within [lower, upper]  above upper  below lower  median wait (s)"
    )
    for load in LOADS:
        row = row_of(load, simulated(load, asked.jobs, seed=0))
        rows.append(row)
        print(
            f"{load:4.1f}  {row['waited']:16.0f}  {row['within']:21.3f}  {row['above']:11.3f}"
            f"  {row['below']:11.3f}  {row['median_wait_s']:15.0f}"
        )
    asked.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


def row_of(load: float, found: Sequence[Asked]) -> dict[str, float]:
    """Return the shares of one load."""
    done = [one for one in found if one.waited_s is not None]
    above = sum(one.waited_s > one.estimate.upper_s + 1e-6 for one in done)
    below = sum(one.waited_s < one.estimate.lower_s - 1e-6 for one in done)
    waits = sorted(one.waited_s for one in done)
    return {
        "load": load,
        "waited": len(done),
        "within": 1 - (above + below) / len(done),
        "above": above / len(done),
        "below": below / len(done),
        "median_wait_s": waits[len(waits) // 2],
    }


def simulated(load: float, jobs: int, seed: int) -> list[Asked]:
    """Return what was estimated for every job that had to wait."""
    chance = random.Random(seed)
    arriving = _arrivals(load, jobs, chance)
    work_s = {job.job_id: seconds for job, seconds, _ in arriving}
    known = {job.job_id: JobForecast(runtime, level=Level.MODEL) for job, _, runtime in arriving}
    cards = [CardState(f"gpu{n:02d}", "A100", 40_960, 40_960) for n in range(CARDS)]
    cluster = InMemoryCluster(
        cards, lambda launch: work_s[launch.job_id], lambda _key, _others: 1.0
    )
    rules = PolicyRules(max_jobs_per_card=1)
    queues = tuple(Queue(f"user{n}", CARDS / USERS, "all") for n in range(USERS))
    pending: dict[str, PendingJob] = {}
    running: dict[str, RunningJob] = {}
    asked: dict[str, Asked] = {}
    kept = ()
    while arriving or pending or running:
        view = ClusterView(
            cluster.now,
            cluster.cards(),
            tuple(pending.values()),
            tuple(running.values()),
            queues,
            reservations=kept,
        )
        decision = decide(view, known, rules)
        kept = decision.reservations
        for admission in decision.admissions:
            job = pending.pop(admission.job_id).job
            running[job.job_id] = RunningJob(
                job.job_id,
                job.user,
                job.queue,
                job.job_key,
                admission.card_ids,
                cluster.now,
                runtime=known[job.job_id].runtime,
            )
            cluster.start(
                Launch(job.job_id, 1, job.job_key, (), admission.card_ids, admission.mem_mib)
            )
            if job.job_id in asked:
                asked[job.job_id].waited_s = cluster.now - asked[job.job_id].asked_time
        for waiting in decision.waiting:
            if waiting.job_id not in asked:
                estimate = wait_estimate(decision.waiting, waiting.job_id, view, known)
                if estimate is not None:
                    asked[waiting.job_id] = Asked(estimate, cluster.now)
        moments = [arriving[0][0].submit_time] if arriving else []
        end = cluster.next_end()
        cluster.advance(min([*moments, *([] if end is None else [end])]))
        while arriving and arriving[0][0].submit_time <= cluster.now:
            job = arriving.pop(0)[0]
            pending[job.job_id] = PendingJob(job)
        for run in cluster.poll():
            del running[run.job_id]
    return list(asked.values())


def _arrivals(
    load: float, jobs: int, chance: random.Random
) -> list[tuple[JobRequest, float, Estimate]]:
    medians = [60.0 * 2**n for n in range(6)]
    mean_gpu_s = sum(medians) / len(medians) * math.exp(SIGMA**2 / 2) * (0.85 + 0.15 * 4)
    now, found = 0.0, []
    for number in range(jobs):
        now += chance.expovariate(load * CARDS / mean_gpu_s)
        median = chance.choice(medians)
        runtime = Estimate(
            median,
            median * math.exp(-Z95 * SIGMA),
            median * math.exp(Z95 * SIGMA),
            "true/1",
            Source.CLUSTER_MODEL,
        )
        user = f"user{chance.randrange(USERS)}"
        gpus = 4 if chance.random() < 0.15 else 1
        job = JobRequest(f"{number:06d}", user, user, f"kind{median:.0f}", now, gpus, 1000)
        found.append((job, median * math.exp(chance.gauss(0, SIGMA)), runtime))
    return found


if __name__ == "__main__":
    main()
