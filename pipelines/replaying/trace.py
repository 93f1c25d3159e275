"""From a table of jobs to the arrays of a replay, and the cluster that bears an offered load."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from numpy.typing import NDArray

from data.errors import SettingError, TableError
from scheduler_client.replay.simulation import Costs, Site
from scheduler_client.replay.trace import Trace

Ints = NDArray[np.int64]
WEEK_S = 7 * 86_400.0


def trace_of(jobs: pd.DataFrame, first: int | None = None) -> Trace:
    """Return the jobs of a replay, all of workload 0.

    Parameters
    ----------
    jobs : DataFrame, ``data.schemas.JOBS``
        Jobs without GPUs or without runtime hold no card and are left out.
    first : int, optional
        Only so many jobs, the first to arrive.

    Returns
    -------
    Trace
        In order of arrival; jobs that arrive in the same second as they are listed, on any
        processor (NumPy's quicksort has an order of its own on each kind). Queues are sorted by
        name.

    Raises
    ------
    TableError
        If no job is left.
    """
    held = jobs[(jobs["gpus"] >= 1) & (jobs["runtime_s"] > 0)]
    if held.empty:
        raise TableError("jobs", "no job with GPUs and a runtime", "at least one")
    held = held.sort_values("submit_time", kind="stable").head(
        len(held) if first is None else first
    )
    queues = sorted(held["queue"].unique())
    arrival = held["submit_time"].to_numpy(np.float64)
    return Trace(
        job_ids=tuple(held["job_id"]),
        arrival_s=arrival - arrival[0],
        runtime_s=held["runtime_s"].to_numpy(np.float64),
        gpus=held["gpus"].to_numpy(np.int64),
        queue=held["queue"].map({name: at for at, name in enumerate(queues)}).to_numpy(np.int64),
        workload=np.zeros(len(held), np.int64),
        queues=tuple(queues),
        users=tuple(held["user"]),
    )


def quotas_for_load(trace: Trace, load: float) -> tuple[int, ...]:
    """Return the nominal quotas of a cluster on which a trace is an offered load.

    The cluster has ``GPU time / (time of arrivals x load)`` cards, whole, which the queues get
    in proportion to their GPU time, rounded, but at least their largest gang: so the quotas
    together are somewhat more.

    Parameters
    ----------
    load : float
        GPU time asked over GPU time there is, > 0.

    Returns
    -------
    tuple of int, length ``len(trace.queues)``

    Raises
    ------
    SettingError
        If the load is not above 0, or all jobs arrive at once.
    """
    if not load > 0 or trace.window_s == 0:
        raise SettingError(f"load must be above 0 and arrivals take time, got {load:g}")
    cards = int(trace.gpu_time_s / trace.window_s / load)
    use = np.bincount(trace.queue, trace.runtime_s * trace.gpus, len(trace.queues))
    largest = np.zeros(len(trace.queues), np.int64)
    np.maximum.at(largest, trace.queue, trace.gpus)
    quotas = np.maximum(np.round(use / use.sum() * cards).astype(np.int64), largest)
    return tuple(int(quota) for quota in quotas)


def site_for_load(trace: Trace, load: float, costs: Costs) -> Site:
    """Return the cluster of `quotas_for_load`: as many cards as all quotas together."""
    quotas = quotas_for_load(trace, load)
    return Site(sum(quotas), quotas, costs=costs)


def burst_of(trace: Trace, week: int) -> Trace:
    """Return the jobs that arrive in one week of a trace, all submitted at its first moment.

    Parameters
    ----------
    week : int
        0 is the first seven days.

    Raises
    ------
    SettingError
        If no job arrives in that week.
    """
    inside = trace.arrival_s // WEEK_S == week
    if not inside.any():
        raise SettingError(f"week must be one with arrivals, got {week}")
    chosen = np.flatnonzero(inside)
    return Trace(
        job_ids=tuple(trace.job_ids[job] for job in chosen),
        arrival_s=np.zeros(len(chosen)),
        runtime_s=trace.runtime_s[chosen],
        gpus=trace.gpus[chosen],
        queue=trace.queue[chosen],
        workload=trace.workload[chosen],
        queues=trace.queues,
        users=tuple(trace.users[job] for job in chosen) if trace.users else (),
    )


def site_from(path: Path, trace: Trace, costs: Costs) -> Site:
    """Read a cluster: ``gpus``, ``gpus_per_node`` (8) and ``quotas`` by queue.

    A queue that is not named has no nominal quota of its own. Without ``quotas`` the cards are
    shared out in proportion to use.

    Raises
    ------
    SettingError
        The file is unreadable, no mapping of these fields, or a number is out of range.
    """
    try:
        document = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingError(f"{path}: cannot be read: {error}") from error
    known = {"gpus", "gpus_per_node", "quotas"}
    if not isinstance(document, Mapping) or not set(document) <= known or "gpus" not in document:
        raise SettingError(
            f"{path}: wanted a mapping of {', '.join(sorted(known))}; gpus is needed"
        )
    gpus = _whole(path, "gpus", document["gpus"])
    per_node = _whole(path, "gpus_per_node", document.get("gpus_per_node", 8))
    named = document.get("quotas")
    if named is None:
        use = np.bincount(trace.queue, trace.runtime_s * trace.gpus, len(trace.queues))
        quotas = tuple(int(part) for part in np.floor(use / use.sum() * gpus))
    elif isinstance(named, Mapping) and set(map(str, named)) <= set(trace.queues):
        by_name = {str(name): _whole(path, str(name), value, 0) for name, value in named.items()}
        quotas = tuple(by_name.get(name, 0) for name in trace.queues)
    else:
        raise SettingError(f"{path}: quotas: found {named!r:.80}, wanted queues of the trace")
    return Site(gpus, quotas, per_node, costs)


def _whole(path: Path, name: str, value: object, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SettingError(f"{path}: {name} must be a whole number from {least}, got {value!r}")
    return value
