"""Lucid's colocation measurements: pairs of training jobs on one RTX 3090.

Hu et al., "Lucid: A Non-intrusive, Scalable and Interpretable Scheduler for Deep Learning
Training Jobs", ASPLOS 2023; ``colocate_info.csv`` and ``single_data.csv`` of its artifact.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from data.importers.source import SourceTable
from data.schemas import PROFILING_RUNS, SHARE_LABELS, checked

GPU_MODEL = "rtx3090"
SINGLE_FILE, PAIR_FILE = "single_data.csv", "colocate_info.csv"
SINGLE_COLUMNS = ("model", "dataset", "batchsize", "amp", "speed", "gpu_util", "gmem_util", "gmem")
PAIR_COLUMNS = tuple(
    f"{name}{side}"
    for side in (1, 2)
    for name in ("model", "dataset", "gpu_num", "batchsize", "amp", "speed")
)
CARD_MEMORY = "gmem"
TEXTS = ("model", "dataset", "model1", "dataset1", "model2", "dataset2")


def read(path: Path) -> dict[str, pd.DataFrame]:
    """Return Lucid's runs: one exclusive run a configuration, two colocated runs a pair.

    Parameters
    ----------
    path : Path
        The directory that holds both files.

    Returns
    -------
    dict with ``profiling_runs``, and ``share_labels`` where the file has the column ``label``
        The job key is model, data set, batch size and precision; the family is the model.
        Colocated ``steps_per_s`` is the file's speed ratio times the exclusive speed. The
        utilisation and memory of a pair row were measured on the shared card: they are
        outcomes of the colocation and belong to neither job. The utilisation is left out; the
        memory, where the file has it, is kept as ``card_mem_mib`` for the label audit.

    Raises
    ------
    TableError
        A file or column is missing, a value is missing, out of range or in another unit, a
        configuration occurs twice, or a pair names a configuration that was never run alone.
    """
    single = SourceTable.read(path / SINGLE_FILE, SINGLE_COLUMNS, TEXTS)
    pairs = SourceTable.read(path / PAIR_FILE, PAIR_COLUMNS, TEXTS)
    alone = _exclusive_runs(single)
    speeds = alone.set_index("job_key")["steps_per_s"]
    together = _colocated_runs(pairs, speeds)
    runs = pd.concat([alone, *together], ignore_index=True)
    tables = {"profiling_runs": checked(runs, PROFILING_RUNS, str(path))}
    if "label" in single.frame.columns:
        shares = alone[["job_key", "gpu_model"]].assign(share_label=single.number("label", 0, 2))
        tables["share_labels"] = checked(shares, SHARE_LABELS, single.name)
    return tables


def _exclusive_runs(single: SourceTable) -> pd.DataFrame:
    single.unique(("model", "dataset", "batchsize", "amp"))
    memory = single.number("gmem", 0)
    single.typical(memory, "gmem", 100, 200_000, "MiB")
    keys = _job_keys(single, "")
    return pd.DataFrame(
        {
            "run_id": _numbered("lucid-single", keys),
            "job_key": keys,
            "family": single.text("model"),
            "gpu_model": GPU_MODEL,
            "neighbour_key": None,
            "neighbour_run_id": None,
            "is_exclusive": True,
            "steps_per_s": single.positive("speed"),
            "gpu_util_mean": single.percent("gpu_util"),
            # "Memory utilisation" is the share of time in which device memory was read or written.
            "dram_active_mean": single.percent("gmem_util"),
            "gpu_mem_mib_mean": memory,
            "outcome": "ok",
        }
    )


def _colocated_runs(pairs: SourceTable, alone: pd.Series) -> list[pd.DataFrame]:
    first, second = _job_keys(pairs, "1"), _job_keys(pairs, "2")
    return [
        _side(pairs, "1", (first, second), alone),
        _side(pairs, "2", (second, first), alone),
    ]


def _side(
    pairs: SourceTable, side: str, keys: tuple[pd.Series, pd.Series], alone: pd.Series
) -> pd.DataFrame:
    job, neighbour = keys
    other = "2" if side == "1" else "1"
    pairs.refuse(~job.isin(alone.index), f"model{side}", f"a configuration in {SINGLE_FILE}")
    pairs.refuse(pairs.whole(f"gpu_num{side}", 1) != 1, f"gpu_num{side}", "1")
    ratio = pairs.positive(f"speed{side}")
    pairs.typical(ratio, f"speed{side}", 0.02, 5, "shared speed as a ratio of exclusive speed")
    return pd.DataFrame(
        {
            "run_id": _numbered("lucid-pair", job) + f"-{side}",
            "job_key": job,
            "family": pairs.text(f"model{side}"),
            "gpu_model": GPU_MODEL,
            "neighbour_key": neighbour,
            "neighbour_run_id": _numbered("lucid-pair", job) + f"-{other}",
            "is_exclusive": False,
            "steps_per_s": ratio * job.map(alone),
            "card_mem_mib": _card_memory(pairs),
            "outcome": "ok",
        }
    )


def _card_memory(pairs: SourceTable) -> pd.Series:
    if CARD_MEMORY not in pairs.frame.columns:
        return pd.Series(np.nan, index=pairs.frame.index)
    memory = pairs.number(CARD_MEMORY, 0)
    pairs.typical(memory, CARD_MEMORY, 100, 200_000, "MiB")
    return memory


def _job_keys(source: SourceTable, side: str) -> pd.Series:
    amp = source.whole(f"amp{side}")
    source.refuse(amp > 1, f"amp{side}", "0 or 1")
    precision = amp.map({0.0: "fp32", 1.0: "amp"}).astype("str")
    batch = source.whole(f"batchsize{side}", 1).astype("int64").astype("str")
    model, dataset = source.text(f"model{side}"), source.text(f"dataset{side}")
    parts = pd.DataFrame({"model": model, "dataset": dataset, "batch": "b" + batch, "p": precision})
    return parts.agg("/".join, axis="columns")


def _numbered(prefix: str, rows: pd.Series) -> pd.Series:
    return pd.Series([f"{prefix}-{row}" for row in range(1, len(rows) + 1)], index=rows.index)


def recognises(path: Path) -> bool:
    """Whether `path` is a directory in this layout."""
    return (path / SINGLE_FILE).is_file() and (path / PAIR_FILE).is_file()
