"""Gavel's throughputs: training jobs alone and in pairs on P100 and V100.

Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
OSDI 2020; its ``simulation_throughputs.json``, flattened into two csv files.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from data.errors import TableError
from data.importers.source import SourceTable
from data.schemas import PROFILING_RUNS, checked

ALONE_FILE = "isolated_throughputs.csv"
PAIR_FILES = ("pair_throughputs.csv.gz", "pair_throughputs.csv")
SIMULATION = "simulation_throughputs"
WORKER_TYPES = ("k80", "p100", "v100")
ALONE_COLUMNS = ("file", "worker_type", "job_type", "scale_factor", "throughput")
PAIR_COLUMNS = (*ALONE_COLUMNS, "other_job_type", "other_scale_factor")
TEXTS = ("file", "worker_type", "job_type", "other_job_type")


def recognises(path: Path) -> bool:
    """Whether `path` is a directory in this layout."""
    return (path / ALONE_FILE).is_file() and any((path / name).is_file() for name in PAIR_FILES)


def read(path: Path) -> dict[str, pd.DataFrame]:
    """Return Gavel's one-GPU runs: one exclusive run a job type, one colocated run a side.

    Parameters
    ----------
    path : Path
        The directory that holds both files.

    Returns
    -------
    dict with ``profiling_runs``
        The job key is model and batch size, the family is the model. A throughput of zero
        means that the job or the pair did not fit: such a run has the outcome ``oom`` and no
        speed.

    Raises
    ------
    TableError
        A file or column is missing, a value is missing or out of range, or nothing is left.

    Notes
    -----
    Only the simulation file is read, only whole (consolidated) workers, only scale factor 1:
    the other parts repeat its pair numbers against baselines that were measured again, up to
    11.8 times off, and hold nothing but zeros for more than one GPU.
    """
    pair_path = next((path / n for n in PAIR_FILES if (path / n).is_file()), path / PAIR_FILES[0])
    alone = _kept(SourceTable.read(path / ALONE_FILE, ALONE_COLUMNS, TEXTS))
    pairs = _kept(SourceTable.read(pair_path, PAIR_COLUMNS, TEXTS))
    exclusive = _runs(alone).assign(
        run_id=_ids("gavel-alone", alone), neighbour_key=None, is_exclusive=True
    )
    ids = _ids("gavel-pair", pairs)
    colocated = _runs(pairs).assign(
        run_id=ids, neighbour_key=pairs["other_job_type"].map(_job_key), is_exclusive=False
    )
    colocated["neighbour_run_id"] = _other_side(colocated)
    runs = pd.concat([exclusive, colocated], ignore_index=True)
    return {"profiling_runs": checked(runs, PROFILING_RUNS, str(path))}


def _kept(source: SourceTable) -> pd.DataFrame:
    source.number("throughput", 0)
    scale = source.whole("scale_factor", 1)
    source.text("job_type")
    whole_worker = source.text("worker_type").isin(WORKER_TYPES)
    bases = source.text("worker_type").str.removesuffix("_unconsolidated")
    source.refuse(~bases.isin(WORKER_TYPES), "worker_type", f"one of {', '.join(WORKER_TYPES)}")
    kept = source.frame[(source.text("file") == SIMULATION) & whole_worker & (scale == 1)]
    if kept.empty:
        wanted = f"rows of {SIMULATION}, scale factor 1, {' or '.join(WORKER_TYPES)}"
        raise TableError(source.name, "none of them", wanted)
    key = [name for name in PAIR_COLUMNS if name in kept.columns and name != "throughput"]
    twice = kept.duplicated(key)
    if twice.any():
        row = int(kept.index[np.flatnonzero(twice)[0]])
        raise TableError(source.name, f"{kept['job_type'][row]!s} again", "each once", row + 1)
    return kept


def _runs(rows: pd.DataFrame) -> pd.DataFrame:
    speed = rows["throughput"].astype("float64")
    return pd.DataFrame(
        {
            "job_key": rows["job_type"].map(_job_key),
            "family": rows["job_type"].str.partition(" (")[0],
            "gpu_model": rows["worker_type"],
            "steps_per_s": speed.mask(speed == 0),
            "outcome": np.where(speed == 0, "oom", "ok"),
        }
    )


def _job_key(job_type: str) -> str:
    model, _, batch = job_type.partition(" (batch size ")
    return f"{model}/b{batch.rstrip(')')}" if batch else model


def _ids(prefix: str, rows: pd.DataFrame) -> pd.Series:
    numbers = pd.Series(rows.index + 1, index=rows.index).astype("str")
    return numbers.map((prefix + "-{}").format)


def _other_side(runs: pd.DataFrame) -> pd.Series:
    """Return the id of the run in which the same two jobs are listed the other way round."""
    sides = runs.set_index(["gpu_model", "job_key", "neighbour_key"])["run_id"]
    wanted = pd.MultiIndex.from_frame(runs[["gpu_model", "neighbour_key", "job_key"]])
    other = pd.Series(sides.reindex(wanted).to_numpy(), index=runs.index)
    return other.mask(other == runs["run_id"])  # a self-pair is listed once, as one run
