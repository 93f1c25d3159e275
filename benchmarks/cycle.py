"""How long one live cycle takes, predictions included; ``make bench-cycle``.

A prediction service is started on this machine with a made-up model of a site's size (see
``serving_sample``), and the scheduler's loop as a process of its own: real spool, real HTTP, a
cluster in memory. Nearly every card has one job already. Three cycles are timed: ``cold`` (the
scheduler has asked nothing before), ``warm`` (every answer is there, no card is given away: what
a busy cluster does most of the time) and ``started`` (every answer is there, cards are given
away). ``--sizes`` and ``--jobs`` choose others than the documented ones.
"""

import argparse
import gc
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

SIZES = (1_000, 2_000, 5_000, 10_000)
JOBS = 1_000
QUEUES = 20
REACH_S, REACH_MB = 1.0, 120.0
MODEL = "A100"
REPEATS = 5


@dataclass(frozen=True, slots=True)
class Timing:
    """What one scheduler process measured."""

    cards: int
    jobs: int
    cold_s: float
    warm_s: float
    started_s: float
    admitted: int
    decide_s: float
    predict_cold_s: float
    cold_model_jobs: float
    rss_mb: float


def main() -> None:
    """Measure every size, print the table, write rows and plot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--scheduler", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.scheduler is not None:
        timing = measured(asked.scheduler, asked.jobs, asked.url, asked.json.parent)
        asked.json.write_text(json.dumps(asdict(timing)))
        return
    from benchmarks.cycle_report import report

    with tempfile.TemporaryDirectory(prefix="colocast-cycle-") as folder:
        from benchmarks.cycle_service import running_service

        with running_service(Path(folder)) as url:
            timings = [in_its_own_process(size, asked.jobs, url, folder) for size in asked.sizes]
    report(timings, asked.json)


def in_its_own_process(cards: int, jobs: int, url: str, folder: str) -> Timing:
    """Return what a fresh scheduler process measures."""
    path = Path(folder) / f"cycle-{cards}" / "timing.json"
    path.parent.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "benchmarks.cycle", "--json", str(path)]
    command += ["--scheduler", str(cards), "--jobs", str(jobs), "--url", url]
    subprocess.run(command, check=True)
    return Timing(**json.loads(path.read_text()))


def measured(cards: int, jobs: int, url: str, folder: Path) -> Timing:
    """Return the times of one size, measured in this process."""
    from scheduler_client.loop import SchedulerLoop

    parts = _parts(cards, url, folder)
    loop = SchedulerLoop(parts)
    key_names = _keys(folder)
    chance = random.Random(cards)
    _occupy(parts, loop, cards, key_names, chance)
    _submit(parts, jobs, key_names, chance)
    gc.collect()
    gc.freeze()
    clock = _Clock(parts)
    cold_s, cycle = clock.timed(loop.cycle)
    levels = [admission.level for admission in cycle.decision.admissions]
    admitted = len(cycle.decision.admissions)
    predict_cold_s = clock.predict_s
    warm, decide = [], []
    for _ in range(REPEATS):
        _submit(parts, jobs - _pending(parts), key_names, chance)
        seconds, cycle = clock.timed(loop.cycle)
        warm.append(seconds)
        decide.append(clock.decide_s)
        admitted = len(cycle.decision.admissions)
    return Timing(
        cards=cards,
        jobs=jobs,
        cold_s=cold_s,
        warm_s=statistics.median(warm),
        started_s=max(warm),
        admitted=admitted,
        decide_s=statistics.median(decide),
        predict_cold_s=predict_cold_s,
        cold_model_jobs=sum(level == "model" for level in levels) / max(1, len(levels)),
        rss_mb=_rss_mb(),
    )


class _Clock:
    """Times whole cycles, and the policy and the predictions within them."""

    def __init__(self, parts: object) -> None:
        self._parts = parts
        self.decide_s = self.predict_s = 0.0

    def timed(self, cycle):
        from scheduler_client.forecast.degrade import Forecaster
        from scheduler_client.policy.policies import ListPolicy

        decide, forecast = ListPolicy.decide, Forecaster.forecast

        def timed_decide(*args):
            begin = time.perf_counter()
            found = decide(*args)
            self.decide_s = time.perf_counter() - begin
            return found

        def timed_forecast(*args):
            begin = time.perf_counter()
            found = forecast(*args)
            self.predict_s = time.perf_counter() - begin
            return found

        ListPolicy.decide, Forecaster.forecast = timed_decide, timed_forecast
        try:
            begin = time.perf_counter()
            found = cycle()
            return time.perf_counter() - begin, found
        finally:
            ListPolicy.decide, Forecaster.forecast = decide, forecast


def _parts(cards: int, url: str, folder: Path):
    from scheduler_client.config import SchedulerConfig, SchedulerSettings
    from scheduler_client.forecast.client import PredictorClient
    from scheduler_client.forecast.degrade import Forecaster
    from scheduler_client.forecast.remembered import Remembered
    from scheduler_client.jobs.delivery import Delivery
    from scheduler_client.jobs.outbox import Outbox
    from scheduler_client.jobs.spool import Spool
    from scheduler_client.loop import LoopParts
    from scheduler_client.memory_cluster import InMemoryCluster
    from scheduler_client.policy.policies import policy_named
    from scheduler_client.policy.view import CardState, Queue

    queues = tuple(Queue(f"team{n:02d}", cards / QUEUES, "all") for n in range(QUEUES))
    settings = SchedulerSettings()
    spool, client = Spool(folder / "spool.db"), PredictorClient(url, 5.0)
    remembered = Remembered(spool, settings.half_life_s, time.time())
    sizes = (40_960, 81_920)
    states = [
        CardState(f"node{n // 8:04d}/gpu{n % 8}", MODEL, sizes[n % 2], sizes[n % 2])
        for n in range(cards)
    ]
    return LoopParts(
        spool=spool,
        cluster=InMemoryCluster(states, lambda launch: 1e6, lambda key, others: 1.1),
        policy=policy_named("colocate", settings.rules),
        forecaster=Forecaster(client, settings.prediction, remembered.profiles),
        delivery=Delivery(spool, Outbox(folder / "outbox.db"), client),
        remembered=remembered,
        config=SchedulerConfig(queues, settings),
    )


def _keys(folder: Path) -> list[str]:
    return json.loads((folder.parent / "keys.json").read_text())


def _occupy(parts, loop, cards: int, keys: Sequence[str], chance: random.Random) -> None:
    """Put one job on every card but each hundredth, as if the loop had started it long ago."""
    from scheduler_client.jobs.placement_note import PlacementNote
    from scheduler_client.jobs.spool import SpooledJob
    from scheduler_client.jobs.submission import Submission
    from scheduler_client.jobs.job_forms import launch
    from scheduler_client.loop import _Started
    from scheduler_client.policy.decisions import ALONE, Level

    for number, card in enumerate(parts.cluster.cards()):
        if number % 100 == 0:
            continue
        key = chance.choice(keys)
        memory = _memory(keys, key)
        submission = Submission(*_who(chance), key, ("true",), gpu_mem_mib=memory)
        note = PlacementNote(
            "colocate", (card.card_id,), (memory,), Level.MODEL, "alone", True, ALONE
        )
        job = SpooledJob(f"run{number}", 1, 0.0, 1.0, submission)
        parts.cluster.start(launch(job, note))
        loop._running[job.job_id] = _Started(job, note)


def _who(chance: random.Random) -> tuple[str, str]:
    return f"user{chance.randrange(200):03d}", f"team{chance.randrange(QUEUES):02d}"


def _memory(keys: Sequence[str], key: str) -> int:
    return 2_000 + 500 * (keys.index(key) % 40)


def _submit(parts, count: int, keys: Sequence[str], chance: random.Random) -> None:
    from scheduler_client.jobs.submission import Submission

    for _ in range(count):
        key, gpus = chance.choice(keys), chance.choice([1] * 9 + [4])
        memory = _memory(keys, key)
        parts.spool.submit(Submission(*_who(chance), key, ("true",), gpus=gpus, gpu_mem_mib=memory))


def _pending(parts) -> int:
    from scheduler_client.jobs.spool import JobState

    return len(parts.spool.jobs(JobState.PENDING))


def _rss_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1e3


if __name__ == "__main__":
    main()
