"""DLPerf's tables of recommendation models: GPU memory of WideDeep and DLRM training.

Oneflow-Inc/DLPerf, all historical HugeCTR and OneFlow tables flattened into one csv file.
"""

from pathlib import Path

import pandas as pd

from data.importers.locating import expected, located
from data.importers.source import SourceTable
from data.schemas import MEMORY_RUNS, checked

FILE = "wdl_dlrm_gpu_memory.csv"
CONFIGURATION = (
    "framework",
    "framework_version",
    "model",
    "gpu_model",
    "n_nodes",
    "n_gpus",
    "total_batch_size",
    "embedding_vocab_size",
    "embedding_vec_size",
    "hidden_layers_x1024",
)
COLUMNS = (*CONFIGURATION, "device0_memory_mb", "oom", "suspect")
TEXTS = ("framework", "framework_version", "model", "gpu_model", "suspect")
_REMARK = " (README says 16GB)"  # readings of up to 23,542 MB show that these are 32 GB cards


def recognises(path: Path) -> bool:
    """Whether `path` is such a file, whatever its name, or a directory that holds one."""
    return located(path, (FILE,), COLUMNS) is not None


def read(path: Path) -> dict[str, pd.DataFrame]:
    """Return DLPerf's memory readings, one row a measured configuration.

    Parameters
    ----------
    path : Path
        The csv file, whatever its name, or its directory.

    Returns
    -------
    dict with ``memory_runs``
        ``batch_size`` is the total over all GPUs, ``depth`` the hidden layers of width 1024
        (missing for DLRM and where the source does not say). The memory is that of GPU 0, CUDA
        context and workspaces included; it is missing for out-of-memory runs and for readings
        that the source's collector marks as suspect. ``MB`` is what ``nvidia-smi`` prints, so
        it is taken as MiB.

    Raises
    ------
    TableError
        A column is missing, or a value is missing, out of range or in another unit.
    """
    source = SourceTable.read(expected(path, (FILE,), COLUMNS), COLUMNS, TEXTS)
    oom = source.choice("oom", {"True": "oom", "False": "ok"})
    memory = source.number("device0_memory_mb", 1, nullable=True)
    source.typical(memory, "device0_memory_mb", 100, 200_000, "MB")
    source.refuse(memory.isna() & (oom == "ok"), "device0_memory_mb", "a number unless oom")
    model = source.frame["gpu_model"].astype("str").str.removesuffix(_REMARK)
    runs = pd.DataFrame(
        {
            "run_id": [f"dlperf-{row}" for row in range(1, len(memory) + 1)],
            "dataset": "dlperf",
            "family": source.text("model"),
            "framework": source.text("framework") + "/" + source.text("framework_version"),
            "gpu_model": _cleaned(source, model).gpu_model("gpu_model"),
            "optimizer": "unknown",
            "precision": "unknown",
            "gpus": source.whole("n_gpus", 1),
            "batch_size": source.whole("total_batch_size", 1),
            "embedding_rows": source.whole("embedding_vocab_size", 1),
            "embedding_width": source.whole("embedding_vec_size", 1),
            "depth": source.number("hidden_layers_x1024", 1, nullable=True),
            "configuration": _configurations(source),
            "gpu_mem_peak_mib": memory.mask(source.frame["suspect"].notna() | (oom == "oom")),
            "outcome": oom,
        }
    )
    return {"memory_runs": checked(runs, MEMORY_RUNS, source.name)}


def _cleaned(source: SourceTable, models: pd.Series) -> SourceTable:
    return SourceTable(source.frame.assign(gpu_model=models), source.name)


def _configurations(source: SourceTable) -> list[str]:
    parts = source.frame[list(CONFIGURATION)].astype("str").fillna("-")
    return ["|".join(row) for row in parts.itertuples(index=False)]
