"""A profiling session: every measurement of a plan, made once, whatever interrupts it."""

import json
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from data.domain import Outcome
from data.errors import ProfilerError
from data.schemas import PROFILING_RUNS, checked
from pipelines.profiling.journal import Conditions, Journal, Row
from pipelines.profiling.machine import machine_facts
from pipelines.profiling.plan import Measurement, Plan, measurements
from pipelines.profiling.runs import Bench, Run, exclusive_run, paired_runs
from pipelines.profiling.workloads import Workload
from scheduler_client.local.devices import Device

log = logging.getLogger(__name__)

JOURNAL_FILE = "journal.jsonl"
MACHINE_FILE = "machine.json"
DECIMALS = 6  # microseconds; the clock's noise is larger

Progress = Callable[[Sequence[Measurement]], Iterator[Measurement]]


@dataclass(frozen=True, slots=True)
class Session:
    """What is measured, where, and how much of it.

    Attributes
    ----------
    workloads : tuple of Workload
    device : Device
        The one card on which everything runs.
    plan : Plan
    out : Path
        Folder of the journal, the logs, the table and ``machine.json``; made if needed.
    timeout_s : float
        The longest that any one run may take, in seconds (> 0).
    """

    workloads: tuple[Workload, ...]
    device: Device
    plan: Plan
    out: Path
    timeout_s: float = 600.0


def profile(session: Session, progress: Progress = iter, suffix: str = ".csv") -> pd.DataFrame:
    """Measure what is not yet in the journal, then write and return the table of all runs.

    Every job that has something left to measure first runs once unrecorded, so that files and
    libraries are in memory. An interruption (also by SIGKILL) loses the measurement in progress
    and nothing else; the same call goes on from there. The table and ``machine.json`` are
    replaced in one step each, also when the session is interrupted by an exception.

    Parameters
    ----------
    session : Session
    progress : callable
        Gets the measurements that are left and yields them, showing how far it is.
    suffix : {".csv", ".parquet"}
        Format of the table, ``profiling_runs`` in ``session.out``.

    Returns
    -------
    DataFrame, ``data.schemas.PROFILING_RUNS``

    Raises
    ------
    ProfilerError
        If the plan or `session.timeout_s` is out of range, the folder cannot be written, or the
        journal in it belongs to other conditions or to another profiler.
    """
    if not session.timeout_s > 0:
        raise ProfilerError(f"timeout_s must be above 0, got {session.timeout_s}")
    plan = measurements(session.workloads, session.plan)
    bench = Bench(session.device, session.out / "logs", session.timeout_s)
    try:
        bench.logs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ProfilerError(f"{session.out}: cannot be written ({error})") from error
    with Journal(session.out / JOURNAL_FILE, _conditions(session)) as journal:
        try:
            with _beside(session.device):
                _measure_all(session, plan, bench, journal, progress)
        finally:
            runs = _write_results(session, journal, suffix)
    return runs


def _conditions(session: Session) -> Conditions:
    commands = {
        workload.name: json.dumps(
            [workload.command, workload.cwd, workload.env, workload.family], sort_keys=True
        )
        for workload in session.workloads
    }
    machine = str(machine_facts(session.device)["cpu_model"])
    return Conditions(machine, session.device.model, commands)


@contextmanager
def _beside(device: Device) -> Iterator[None]:
    """Keep this process off the slot's core, where there is another one, while measuring."""
    before = os.sched_getaffinity(0)
    elsewhere = before - set(device.cores)
    if elsewhere:
        os.sched_setaffinity(0, elsewhere)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _measure_all(
    session: Session,
    plan: Sequence[Measurement],
    bench: Bench,
    journal: Journal,
    progress: Progress,
) -> None:
    left = [one for one in plan if one.key not in journal.finished]
    jobs = {workload.name: workload for workload in session.workloads}
    warm: set[str] = set()
    for measurement in progress(left):
        failed = _failed_alone(measurement, journal)
        if failed is not None:
            log.warning("%s: left out, since %s failed alone", measurement.key, failed)
            continue
        for name in measurement.job_keys:
            if name not in warm:
                exclusive_run(jobs[name], bench)
                warm.add(name)
        journal.append(measurement.key, _rows(measurement, jobs, bench, journal.session))


def _failed_alone(measurement: Measurement, journal: Journal) -> str | None:
    """Which job of a pair has no chance, since its first exclusive run did not end well."""
    if measurement.neighbour_key is None:
        return None
    first = {
        name: journal.finished[Measurement(name, None, 0).key] for name in measurement.job_keys
    }
    return next((name for name, rows in first.items() if rows[0]["outcome"] != Outcome.OK), None)


def _rows(
    measurement: Measurement, jobs: dict[str, Workload], bench: Bench, session: str
) -> list[Row]:
    job, neighbour_key = jobs[measurement.job_key], measurement.neighbour_key
    run_id = f"{session}/{measurement.key}"
    if neighbour_key is None:
        run = exclusive_run(job, bench)
        if not run.is_exclusive:
            log.warning("%s: something else used %s", measurement.key, bench.device.card_id)
        return [_row(run_id, job, bench, run)]
    neighbour = jobs[neighbour_key]
    sides = paired_runs(job, neighbour, bench)
    ids = (f"{run_id}/0", f"{run_id}/1")
    rows = [_row(ids[0], job, bench, sides[0]), _row(ids[1], neighbour, bench, sides[1])]
    rows[0] |= {"neighbour_key": neighbour.name, "neighbour_run_id": ids[1]}
    rows[1] |= {"neighbour_key": job.name, "neighbour_run_id": ids[0]}
    return rows


def _row(run_id: str, workload: Workload, bench: Bench, run: Run) -> Row:
    return {
        "run_id": run_id,
        "job_key": workload.name,
        "family": workload.family,
        "gpu_model": bench.device.model,
        "is_exclusive": run.is_exclusive,
        "neighbour_overlap": None if run.overlap is None else round(run.overlap, DECIMALS),
        # The time until a failure is no completion time.
        "jct_s": round(run.runtime_s, DECIMALS) if run.outcome is Outcome.OK else None,
        **{name: round(value, DECIMALS) for name, value in run.signals.items()},
        "outcome": str(run.outcome),
        "start_time": round(run.start_time, DECIMALS),
        "finish_time": round(run.finish_time, DECIMALS),
    }


def _write_results(session: Session, journal: Journal, suffix: str) -> pd.DataFrame:
    rows = [row for key in sorted(journal.finished) for row in journal.finished[key]]
    runs = pd.DataFrame(rows).reindex(columns=PROFILING_RUNS.names)
    runs = checked(runs, PROFILING_RUNS, JOURNAL_FILE) if rows else runs
    facts = json.dumps(machine_facts(session.device), indent=2) + "\n"
    _replace(session.out / MACHINE_FILE, facts.encode())
    name = f"{PROFILING_RUNS.name}{suffix}"
    table = runs.to_csv(index=False).encode() if suffix == ".csv" else runs.to_parquet(index=False)
    _replace(session.out / name, table or b"")
    return runs


def _replace(path: Path, content: bytes) -> None:
    fresh = path.with_name(f".{path.name}.new")
    try:
        with fresh.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        raise ProfilerError(f"{path}: cannot be written ({error}); the journal is whole") from error
