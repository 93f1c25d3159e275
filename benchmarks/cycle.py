"""How long one live cycle takes, predictions included; ``make bench-cycle``.

A prediction service is started on this machine with a made-up model of a site's size (see
``serving_sample``), and the scheduler's loop as a process of its own: real spool, real HTTP, a
cluster in memory. All but each hundredth card have one job already, of 200 kinds and 20 queues;
1,000 jobs wait, a tenth of them gangs of four. Three cycles are timed: ``cold`` (nothing was asked
before), ``starting`` (answers are there, fresh or stale, and whoever started in the cycle before is
made up for by a new job) and ``waiting`` (the new jobs want nearly a whole card). Wall time is what
counts; CPU time of the scheduler's process is shown beside it, for machines that do other things
too. ``--sizes`` and ``--jobs`` choose others than the documented ones.
"""

import argparse
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

SIZES = (1_000, 2_000, 5_000, 10_000)
JOBS = 1_000
QUEUES = 20
REACH_S, REACH_MB = 1.0, 120.0
MODEL = "A100"
LONGEST_S = 86_400.0
REPEATS = 5
MOST_CYCLES = 30


@dataclass(frozen=True, slots=True)
class Spent:
    """What one cycle took (s); of `wall_s`, `predict_s` and `decide_s` went into these."""

    wall_s: float
    cpu_s: float
    predict_s: float
    decide_s: float
    decide_cpu_s: float
    started: int


@dataclass(frozen=True, slots=True)
class Timing:
    """What one scheduler process measured.

    Attributes
    ----------
    cycles : dict of str to Spent
        ``cold``, ``starting`` and ``waiting``; medians, but for the cold one.
    answered : float
        Share of the jobs started in the cold cycle that a model had spoken of.
    cycles_to_know : int, optional
        Cycles until a model had spoken of every job; None where `MOST_CYCLES` did not suffice.
    """

    cards: int
    jobs: int
    cycles: dict[str, dict[str, float]]
    answered: float
    cycles_to_know: int | None
    rss_mb: float
    load_average: float


def main() -> None:
    """Measure every size, print the table, write rows and plot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--models", type=Path, default=Path("build/bench/serving-models"))
    parser.add_argument("--scheduler", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.scheduler is not None:
        timing = measured(asked.scheduler, asked.jobs, asked.url, asked.json.parent)
        asked.json.write_text(json.dumps(asdict(timing)))
        return
    from benchmarks.cycle_report import HEAD, report, row_lines
    from benchmarks.cycle_service import running_service

    timings = []
    with (
        tempfile.TemporaryDirectory(prefix="colocast-cycle-") as folder,
        running_service(asked.models) as (url, keys),
    ):
        (Path(folder) / "keys.json").write_text(json.dumps(keys))
        print(HEAD)
        for size in asked.sizes:
            timings.append(in_its_own_process(size, asked.jobs, url, folder))
            print(row_lines(timings[-1]), flush=True)
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
    names, chance = _keys(folder), random.Random(cards)
    _occupy(parts, loop, names, chance)
    _submit(parts, jobs, names, chance)
    gc.collect()
    gc.freeze()
    cold, cycle = timed(loop.cycle)
    levels = [admission.level for admission in cycle.decision.admissions]
    known = _cycles_to_know(loop, cycle, lambda: _fill(parts, jobs, names, chance))
    starting, waiting = [], []
    for _ in range(REPEATS):
        _fill(parts, jobs, names, chance)
        starting.append(timed(loop.cycle)[0])
    _fill(parts, jobs, names, chance, gpu_mem_mib=80_000)
    _cycles_to_know(loop, loop.cycle(), lambda: None)
    waiting += [timed(loop.cycle)[0] for _ in range(REPEATS)]
    return Timing(
        cards=cards,
        jobs=jobs,
        cycles={
            "cold": asdict(cold),
            "starting": _medians(starting),
            "waiting": _medians(waiting),
        },
        answered=sum(level == "model" for level in levels) / max(1, len(levels)),
        cycles_to_know=known,
        rss_mb=_rss_mb(),
        load_average=os.getloadavg()[0],
    )


def _cycles_to_know(loop, cycle, fill: Callable[[], None]) -> int | None:
    """Go on until a model has spoken of every job that waits; return after how many cycles."""
    for count in range(1, MOST_CYCLES + 1):
        if all(forecast.level == "model" for forecast in cycle.predictions.values()):
            return count
        fill()
        cycle = loop.cycle()
    return None


def timed(cycle):
    """Return what a cycle took, and the cycle."""
    from scheduler_client.forecast.degrade import Forecaster
    from scheduler_client.policy.policies import ListPolicy

    spent = {}

    def watched(name, call):
        def watching(*args):
            begin, cpu = time.perf_counter(), time.process_time()
            found = call(*args)
            spent[name] = (time.perf_counter() - begin, time.process_time() - cpu)
            return found

        return watching

    decide, forecast = ListPolicy.decide, Forecaster.forecast
    ListPolicy.decide = watched("decide", decide)
    Forecaster.forecast = watched("predict", forecast)
    try:
        found = watched("cycle", cycle)()
    finally:
        ListPolicy.decide, Forecaster.forecast = decide, forecast
    (wall_s, cpu_s), (decide_s, decide_cpu_s) = spent["cycle"], spent["decide"]
    started = len(found.decision.admissions)
    return Spent(wall_s, cpu_s, spent["predict"][0], decide_s, decide_cpu_s, started), found


def _medians(spent: Sequence[Spent]) -> dict[str, float]:
    rows = [asdict(each) for each in spent]
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


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
        cluster=InMemoryCluster(states, lambda _launch: 1e6, lambda _key, _others: 1.1),
        policy=policy_named("colocate", settings.rules),
        forecaster=Forecaster(client, settings.prediction, remembered.profiles),
        delivery=Delivery(spool, Outbox(folder / "outbox.db"), client),
        remembered=remembered,
        config=SchedulerConfig(queues, settings),
    )


def _keys(folder: Path) -> list[str]:
    return json.loads((folder.parent / "keys.json").read_text())


def _occupy(parts, loop, keys: Sequence[str], chance: random.Random) -> None:
    """Put one job on every card but each hundredth, as if started some time in the last day."""
    from scheduler_client.jobs.job_forms import launch
    from scheduler_client.jobs.placement_note import PlacementNote
    from scheduler_client.jobs.spool import SpooledJob
    from scheduler_client.jobs.started_job import StartedJob
    from scheduler_client.jobs.submission import Submission
    from scheduler_client.policy.decisions import ALONE, Level

    for number, card in enumerate(parts.cluster.cards()):
        if number % 100 == 0:
            continue
        key = chance.choice(keys)
        memory = _memory(keys, key)
        submission = Submission(*_who(chance), key, ("true",), gpu_mem_mib=memory)
        note = PlacementNote(
            policy="colocate",
            card_ids=(card.card_id,),
            mem_mib=(memory,),
            level=Level.MODEL,
            reason="alone",
            is_guaranteed=True,
            slowdown=ALONE,
        )
        began = time.time() - chance.uniform(0.0, LONGEST_S)
        job = SpooledJob(f"run{number}", 1, began, began, submission)
        parts.cluster.start(launch(job, note))
        loop._running[job.job_id] = StartedJob(job, note)


def _who(chance: random.Random) -> tuple[str, str]:
    return f"user{chance.randrange(200):03d}", f"team{chance.randrange(QUEUES):02d}"


def _memory(keys: Sequence[str], key: str) -> int:
    return 2_000 + 500 * (keys.index(key) % 40)


def _fill(parts, jobs: int, *args, **fields) -> None:
    """Submit so many that `jobs` wait."""
    _submit(parts, jobs - _pending(parts), *args, **fields)


def _submit(
    parts, count: int, keys: Sequence[str], chance: random.Random, gpu_mem_mib: int | None = None
) -> None:
    """Write so many submissions into the spool at once."""
    from data.wire import dumps
    from scheduler_client.jobs import spool_sql
    from scheduler_client.jobs.submission import Submission

    rows = []
    for _ in range(count):
        key, gpus = chance.choice(keys), chance.choice([1] * 9 + [4])
        memory = gpu_mem_mib or _memory(keys, key)
        job = Submission(*_who(chance), key, ("true",), gpus=gpus, gpu_mem_mib=memory)
        rows.append((f"job-{chance.randrange(10**12):012d}", time.time(), dumps(job)))
    with parts.spool._transaction() as connection:
        connection.executemany(spool_sql.SUBMIT, rows)


def _pending(parts) -> int:
    from scheduler_client.jobs.spool import JobState

    return len(parts.spool.jobs(JobState.PENDING))


def _rss_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1e3


if __name__ == "__main__":
    main()
