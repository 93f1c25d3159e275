"""MISO's profiles on an A100 with 40 GB, and its step times on MIG instances of it.

Li et al., "MISO: Exploiting Multi-Instance GPU Capability on Multi-Tenant GPU Clusters",
SoCC 2022.
"""

from pathlib import Path

import pandas as pd

from data.importers.source import SourceTable
from data.schemas import PROFILING_RUNS, checked

PROFILE_FILE, STEP_FILE = "job_features.csv", "mig_iteration_times.parquet"
PROFILE_COLUMNS = ("model", "batch_size", "memory_mib", "util_sm_pct", "util_mem_pct")
STEP_COLUMNS = ("mig_slice", "model", "batch_size", "list_key", "iteration", "seconds")
GPU_MODEL = "a100-40gb"


def recognises(path: Path) -> bool:
    """Whether `path` is a directory in this layout."""
    return (path / PROFILE_FILE).is_file() and (path / STEP_FILE).is_file()


def read(path: Path) -> dict[str, pd.DataFrame]:
    """Return MISO's exclusive runs: one a configuration, and one on each MIG instance.

    Parameters
    ----------
    path : Path
        The directory with the profiles, and the step times where they are wanted.

    Returns
    -------
    dict with ``profiling_runs``
        Runs on the whole card have signals and no speed; runs on a MIG instance, a GPU model
        of its own such as ``a100-40gb-1g.5gb``, have the median speed and no signals. The first
        step of each list is a warm-up of tens of seconds and does not count.

    Raises
    ------
    TableError
        A column is missing, or a value is missing, out of range or in another unit.
    """
    runs = [_profiled(SourceTable.read(path / PROFILE_FILE, PROFILE_COLUMNS, ["model"]))]
    if (path / STEP_FILE).is_file():
        runs.append(_on_instances(SourceTable.read(path / STEP_FILE, STEP_COLUMNS)))
    frame = pd.concat(runs, ignore_index=True)
    return {"profiling_runs": checked(frame, PROFILING_RUNS, str(path))}


def _profiled(source: SourceTable) -> pd.DataFrame:
    source.unique(["model", "batch_size"])
    memory = source.number("memory_mib", 0)
    source.typical(memory, "memory_mib", 100, 200_000, "MiB")
    keys = _job_keys(source.text("model"), source.whole("batch_size", 1))
    return pd.DataFrame(
        {
            "run_id": "miso-" + keys,
            "job_key": keys,
            "family": source.text("model"),
            "gpu_model": GPU_MODEL,
            "is_exclusive": True,
            "neighbour_key": None,
            "gpu_util_mean": source.percent("util_sm_pct"),
            "dram_active_mean": source.percent("util_mem_pct"),
            "gpu_mem_mib_mean": memory,
            "outcome": "ok",
        }
    )


def _on_instances(source: SourceTable) -> pd.DataFrame:
    source.positive("seconds")
    first = source.whole("iteration") == 0
    steps = source.frame[~first]
    groups = steps.groupby(["mig_slice", "model", "batch_size"], observed=True)["seconds"]
    medians = groups.median().reset_index()
    keys = _job_keys(medians["model"].astype("str"), medians["batch_size"])
    slices = medians["mig_slice"].astype("str")
    return pd.DataFrame(
        {
            "run_id": "miso-" + slices + "-" + keys,
            "job_key": keys,
            "family": medians["model"].astype("str"),
            "gpu_model": f"{GPU_MODEL}-" + slices,
            "is_exclusive": True,
            "neighbour_key": None,
            "steps_per_s": 1 / medians["seconds"].astype("float64"),
            "outcome": "ok",
        }
    )


def _job_keys(models: pd.Series, batches: pd.Series) -> pd.Series:
    return models + "/b" + batches.astype("int64").astype("str")
