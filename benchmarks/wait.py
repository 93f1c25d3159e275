"""How often a job starts within its estimated wait; ``make bench-wait``.

Jobs arrive at random on a cluster in memory under the live policy ``colocate``, cards unshared.
Runtimes are lognormal around the median of their kind; what is predicted is that median with the
true 5 % and 95 % quantiles, as a perfectly calibrated model would say. So what is measured is the
estimate of the wait alone: jobs that come later, and turns that change, are what it cannot know.
Each job is asked about once, in the cycle after which it first waits.

``--trace PATH --from DATE`` takes the GPU jobs of a real log from a day on instead, with what a
runtime model that is refitted daily said of each at its submission (see ``wait_trace``).
"""

import argparse
import json
import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median

from benchmarks.wait_trace import Arrival, Site, from_log
from data.domain import Estimate, JobRequest, Source
from scheduler_client.clusters import Launch
from scheduler_client.explaining.wait import WaitEstimate, wait_estimate
from scheduler_client.memory_cluster import InMemoryCluster
from scheduler_client.policy.decide import PolicyRules, decide
from scheduler_client.policy.decisions import Admission, Level, Waiting
from scheduler_client.policy.predictions import JobForecast
from scheduler_client.policy.view import (
    CardState,
    ClusterView,
    PendingJob,
    Queue,
    Reservation,
    RunningJob,
)

CARDS, JOBS, USERS = 16, 1_200, 6
SIGMA, Z95 = 0.6, 1.645
LOADS = (0.7, 0.9, 1.1)
RULES = PolicyRules(max_jobs_per_card=1)
SITE = Site(CARDS, tuple(Queue(f"user{n}", CARDS / USERS, "all") for n in range(USERS)))


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
    parser.add_argument("--jobs", type=int, default=JOBS, help="at random")
    parser.add_argument("--trace", type=Path, help="a log of jobs that the importers read")
    parser.add_argument("--from", dest="first_day", help="with --trace: a day, as 2017-12-01")
    asked = parser.parse_args()
    lived = _of_trace(asked.trace, asked.first_day) if asked.trace else _at_random(asked.jobs)
    rows = []
    print(
        "load  jobs that waited  within [lower, upper]  above upper  below lower  within 2x"
        "  median wait (s)  median upper end (s)"
    )
    for load in LOADS:
        row = row_of(load, lived(load))
        rows.append(row)
        print(
            f"{load:4.1f}  {row['waited']:16.0f}  {row['within']:21.3f}  {row['above']:11.3f}"
            f"  {row['below']:11.3f}  {row['within_2x']:9.3f}  {row['median_wait_s']:15.0f}"
            f"  {row['median_upper_s']:20.0f}"
        )
    asked.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


def row_of(load: float, found: Sequence[Asked]) -> dict[str, float]:
    """Return the shares of one load."""
    done = [one for one in found if one.waited_s is not None]
    above = sum(one.waited_s > one.estimate.upper_s + 1e-6 for one in done)
    below = sum(one.waited_s < one.estimate.lower_s - 1e-6 for one in done)
    close = sum(one.waited_s / 2 <= one.estimate.value_s <= one.waited_s * 2 for one in done)
    return {
        "load": load,
        "waited": len(done),
        "within": 1 - (above + below) / len(done),
        "above": above / len(done),
        "below": below / len(done),
        "within_2x": close / len(done),
        "median_wait_s": median(one.waited_s for one in done),
        "median_upper_s": median(one.estimate.upper_s for one in done),
    }


class Simulation:
    """A cluster in memory under the live policy, and what it said to those who had to wait.

    Parameters
    ----------
    arriving : list of Arrival
        In the order of their submission.
    site : Site

    Attributes
    ----------
    asked : dict of str to Asked
        By job id.
    """

    def __init__(self, arriving: list[Arrival], site: Site) -> None:
        work_s = {job.job_id: seconds for job, seconds, _ in arriving}
        cards = [CardState(f"gpu{n:03d}", "A100", 40_960, 40_960) for n in range(site.cards)]
        self._queues = site.queues
        self._cluster = InMemoryCluster(
            cards, lambda launch: work_s[launch.job_id], lambda _key, _others: 1.0
        )
        self._known = {
            job.job_id: JobForecast(runtime, level=Level.MODEL) for job, _, runtime in arriving
        }
        self._arriving = deque(job for job, _, _ in arriving)
        self._pending: dict[str, PendingJob] = {}
        self._running: dict[str, RunningJob] = {}
        self._kept: tuple[Reservation, ...] = ()
        self.asked: dict[str, Asked] = {}

    def run(self) -> None:
        """Decide whenever a job comes or ends, until all have ended."""
        while self._arriving or self._pending or self._running:
            view = self._view()
            decision = decide(view, self._known, RULES)
            self._kept = decision.reservations
            for admission in decision.admissions:
                self._start(admission)
            self._ask(decision.waiting, view)
            self._advance()

    def _view(self) -> ClusterView:
        waiting, running = tuple(self._pending.values()), tuple(self._running.values())
        cards, now = self._cluster.cards(), self._cluster.now
        return ClusterView(now, cards, waiting, running, self._queues, reservations=self._kept)

    def _start(self, admission: Admission) -> None:
        job, now, cards = (
            self._pending.pop(admission.job_id).job,
            self._cluster.now,
            admission.card_ids,
        )
        runtime = self._known[job.job_id].runtime
        self._running[job.job_id] = RunningJob(
            job.job_id, job.user, job.queue, job.job_key, cards, now, runtime=runtime
        )
        self._cluster.start(Launch(job.job_id, 1, job.job_key, (), cards, admission.mem_mib))
        if job.job_id in self.asked:
            found = self.asked[job.job_id]
            found.waited_s = now - found.asked_time

    def _ask(self, waiting: Sequence[Waiting], view: ClusterView) -> None:
        for one in waiting:
            if one.job_id not in self.asked:
                estimate = wait_estimate(waiting, one.job_id, view, self._known)
                if estimate is not None:
                    self.asked[one.job_id] = Asked(estimate, view.now)

    def _advance(self) -> None:
        """Go to the next moment at which a job comes or ends."""
        comes = self._arriving[0].submit_time if self._arriving else math.inf
        end = self._cluster.next_end()
        self._cluster.advance(comes if end is None else min(comes, end))
        while self._arriving and self._arriving[0].submit_time <= self._cluster.now:
            job = self._arriving.popleft()
            self._pending[job.job_id] = PendingJob(job)
        for run in self._cluster.poll():
            del self._running[run.job_id]


def simulated(arriving: list[Arrival], site: Site) -> list[Asked]:
    """Return what was estimated for every job that had to wait."""
    simulation = Simulation(arriving, site)
    simulation.run()
    return list(simulation.asked.values())


def _at_random(jobs: int) -> Callable[[float], list[Asked]]:
    return lambda load: simulated(_arrivals(load, jobs, random.Random(0)), SITE)


def _of_trace(path: Path, first_day: str | None) -> Callable[[float], list[Asked]]:
    if first_day is None:
        raise SystemExit("--trace wants --from DATE: the jobs before it are history")
    log = from_log(path, datetime.fromisoformat(f"{first_day}T00:00:00+00:00").timestamp())
    return lambda load: simulated(log.arriving, log.site(load))


def _arrivals(load: float, jobs: int, chance: random.Random) -> list[Arrival]:
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
