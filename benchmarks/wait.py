"""How often a job starts within its estimated wait; ``make bench-wait``.

Jobs arrive at random on a cluster in memory under the live policy ``colocate``, cards unshared.
Runtimes are lognormal around the median of their kind; what is predicted is that median with the
true 5 % and 95 % quantiles, as a perfectly calibrated model would say. So what is measured is the
estimate of the wait alone: jobs that come later, and turns that change, are what it cannot know.
Each job is asked about in the cycle after which it first waits (``new``), and again after ten
minutes and each time it has waited twice as long (``old``): once as predicted runtimes say, once as
past waits correct that, as ``colocast why`` does, from what was known at that moment.

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
from scheduler_client.explaining.wait import WaitEstimate, wait_estimates
from scheduler_client.explaining.wait_book import AGAIN_S, WaitBook
from scheduler_client.memory_cluster import InMemoryCluster
from scheduler_client.policy.decide import PolicyRules, decide
from scheduler_client.policy.decisions import Admission, Decision, Level
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
    """An estimate, as it was and corrected, and what came of it (s from when it was asked)."""

    plain: WaitEstimate
    corrected: WaitEstimate
    asked_time: float
    is_new: bool
    waited_s: float = math.nan


def main() -> None:
    """Print rows for each load, and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=JOBS, help="at random")
    parser.add_argument("--seed", type=int, default=0, help="of the jobs at random")
    parser.add_argument("--loads", type=float, nargs="+", default=list(LOADS))
    parser.add_argument("--trace", type=Path, help="a log of jobs that the importers read")
    parser.add_argument("--from", dest="first_day", help="with --trace: a day, as 2017-12-01")
    asked = parser.parse_args()
    lived = (
        _of_trace(asked.trace, asked.first_day)
        if asked.trace
        else _at_random(asked.jobs, asked.seed)
    )
    rows = []
    print("load  jobs  interval   asked  within  above  below   lower (s)   wait (s)   upper (s)")
    for load in asked.loads:
        for row in rows_of(load, lived(load)):
            rows.append(row)
            print(
                f"{load:4.1f}  {row['jobs']:4s}  {row['interval']:9s} {row['asked']:6.0f}"
                f"  {row['within']:6.3f}  {row['above']:5.3f}  {row['below']:5.3f}"
                f"  {row['median_lower_s']:10.0f} {row['median_wait_s']:10.0f}"
                f"  {row['median_upper_s']:10.0f}",
                flush=True,
            )
    asked.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


def rows_of(load: float, found: Sequence[Asked]) -> list[dict[str, float | str]]:
    """Return the shares of one load, by age of the jobs and by interval."""
    rows = []
    for jobs in ("new", "old"):
        done = [one for one in found if one.is_new == (jobs == "new")]
        for interval in ("plain", "corrected") if done else ():
            told = [(getattr(one, interval), one.waited_s) for one in done]
            rows.append({"load": load, "jobs": jobs, "interval": interval, **shares(told)})
    return rows


def shares(told: Sequence[tuple[WaitEstimate, float]]) -> dict[str, float]:
    """Return how often waits (s) lie within their intervals, and how wide these are."""
    above = sum(waited_s > estimate.upper_s + 1e-6 for estimate, waited_s in told)
    below = sum(waited_s < estimate.lower_s - 1e-6 for estimate, waited_s in told)
    close = sum(waited_s / 2 <= estimate.value_s <= waited_s * 2 for estimate, waited_s in told)
    return {
        "asked": len(told),
        "within": 1 - (above + below) / len(told),
        "above": above / len(told),
        "below": below / len(told),
        "within_2x": close / len(told),
        "median_lower_s": median(estimate.lower_s for estimate, _ in told),
        "median_wait_s": median(waited_s for _, waited_s in told),
        "median_upper_s": median(estimate.upper_s for estimate, _ in told),
        "uncorrected": sum(estimate.calibrated_on == 0 for estimate, _ in told) / len(told),
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
    asked : dict of str to list of Asked
        By job id, in the order of time.
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
        self._waits, self._since = WaitBook(), dict[str, float]()
        self.asked: dict[str, list[Asked]] = {}

    def run(self) -> None:
        """Decide whenever a job comes or ends, until all have ended."""
        while self._arriving or self._pending or self._running:
            view = self._view()
            decision = decide(view, self._known, RULES)
            self._kept = decision.reservations
            for admission in decision.admissions:
                self._start(admission)
            self._ask(decision, view)
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
        for one in self.asked.get(job.job_id, ()):
            one.waited_s = now - one.asked_time

    def _ask(self, decision: Decision, view: ClusterView) -> None:
        waiting = [one.job_id for one in decision.waiting]
        due = self._waits.due(waiting, view.now)
        found = wait_estimates(decision.waiting, view, self._known) if due else {}
        started = [admission.job_id for admission in decision.admissions]
        self._waits.observe(view.now, waiting, started, lambda: found)
        for job_id in due:
            since = self._since.setdefault(job_id, view.now)
            if (plain := found.get(job_id)) is not None:
                corrected = self._waits.corrected(plain, job_id, view.now)
                one = Asked(plain, corrected, view.now, view.now - since < AGAIN_S)
                self.asked.setdefault(job_id, []).append(one)

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
    """Return what was estimated of every job that had to wait."""
    simulation = Simulation(arriving, site)
    simulation.run()
    return [one for asked in simulation.asked.values() for one in asked]


def _at_random(jobs: int, seed: int) -> Callable[[float], list[Asked]]:
    return lambda load: simulated(_arrivals(load, jobs, random.Random(seed)), SITE)


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
