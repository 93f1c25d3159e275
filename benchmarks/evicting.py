"""What a decision costs where queues have jobs evicted; ``make bench-evicting``.

Every card has a job, half of the queues hold twice their nominal quota, and 1,000 jobs wait that
share no card. One decision serves eight preemptors, the most of a cycle. Processor time of the
decision alone, the best of three, by the order, beside the same where nobody is evicted.
"""

import argparse
import json
import random
import time
from dataclasses import replace
from pathlib import Path

from data.domain import JobRequest, Resident
from scheduler_client.policy.decide import PolicyRules, decide
from scheduler_client.policy.service_levels import LevelRules
from scheduler_client.policy.view import (
    CardState,
    ClusterView,
    PendingJob,
    Queue,
    RunningJob,
    Whom,
)

SIZES = (1_000, 10_000)
JOBS, QUEUES, KEYS, USERS = 1_000, 20, 200, 200
NOW = 1e6
ORDERS = {"fair": PolicyRules(), "attained": PolicyRules(order=LevelRules())}


def main() -> None:
    """Measure each size and order, print a line each, write all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    given = parser.parse_args()
    rows = []
    for cards in SIZES:
        view = crowded(cards, random.Random(0))
        for order, rules in ORDERS.items():
            seconds, evictions = _decided(view, rules)
            without, _ = _decided(view, replace(rules, eviction=None))
            rows.append((cards, order, seconds, without, evictions))
            print(
                f"{cards:6,} cards, {order:9} {seconds:.2f} s of computing for {evictions} "
                f"evictions, {without:.2f} s without",
                flush=True,
            )
    names = ("cards", "order", "cpu_s", "without_cpu_s", "evictions")
    given.json.write_text(json.dumps([dict(zip(names, row, strict=True)) for row in rows]) + "\n")


def crowded(cards: int, rng: random.Random) -> ClusterView:
    """Return a full cluster in which half of the queues have borrowed from the other half."""
    nominal = [cards / QUEUES * (1.5 if number % 2 else 0.5) for number in range(QUEUES)]
    allows = {
        "reclaims": Whom.ANY,
        "preempts": Whom.LOWER_PRIORITY,
        "borrows": Whom.LOWER_PRIORITY,
    }
    queues = tuple(Queue(f"team{n:02d}", gpus, "all", **allows) for n, gpus in enumerate(nominal))
    states, running = [], []
    while len(states) < cards:
        first, size = len(states), rng.choice([1] * 29 + [4])
        ids = tuple(f"gpu{n:05d}" for n in range(first, min(first + size, cards)))
        job = RunningJob(
            job_id=f"run{first}",
            user=f"user{rng.randrange(USERS)}",
            queue=queues[rng.randrange(QUEUES)].name,
            job_key=f"key{rng.randrange(KEYS)}",
            card_ids=ids,
            start_time=NOW - rng.expovariate(1 / 20_000),
            mem_mib=(20_000,) * len(ids),
        )
        running.append(job)
        resident = Resident(job.job_id, job.job_key)
        states += [
            CardState(c, "A100", 40_960, 40_960).with_resident(resident, 20_000) for c in ids
        ]
    pending = tuple(
        PendingJob(
            JobRequest(
                job_id=f"job{number}",
                user=f"user{rng.randrange(USERS)}",
                queue=queues[rng.randrange(QUEUES)].name,
                job_key=f"key{rng.randrange(KEYS)}",
                submit_time=NOW - rng.uniform(0, 10_000),
                gpus=rng.choice([1] * 9 + [4]),
                gpu_mem_mib=30_000,
            )
        )
        for number in range(JOBS)
    )
    return ClusterView(NOW, tuple(states), pending, tuple(running), queues)


def _decided(view: ClusterView, rules: PolicyRules) -> tuple[float, int]:
    spent = []
    for _ in range(3):
        began = time.process_time()
        decision = decide(view, {}, rules)
        spent.append(time.process_time() - began)
    return min(spent), len(decision.evictions)


if __name__ == "__main__":
    main()
