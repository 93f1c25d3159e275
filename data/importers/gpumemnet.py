"""GPUMemNet's measured trainings of generated networks on an A100 with 40 GB.

Yousefzadeh-Asl-Miandoab et al., "GPUMemNet" (arXiv 2602.17817, 2026); its MLP and CNN tables.
"""

import hashlib
import re
from dataclasses import asdict, fields
from pathlib import Path

import pandas as pd

from data.errors import TableError
from data.importers.gpumemnet_layers import Kept, kept_scalars
from data.importers.locating import has_columns
from data.importers.source import SourceTable
from data.schemas import MEMORY_RUNS, checked

FILES = ("mlp_data_step1", "mlp_data_step2", "cnn_data_step1")
FAMILY = re.compile("mlp|cnn|transformer")  # in a file's name, whatever else that says
GPU_MODEL = "a100-40gb"
COLUMNS = (
    "Filename",
    "Depth",
    "Activations-Params",
    "Total Activations",
    "Total Parameters",
    "Batch Size",
    "Max GPU Memory (MiB)",
    "Avg GPUTL",
    "Avg SMACT",
    "Avg SMOCC",
    "Avg FP32A",
)
NOT_SAMPLED = (-1.0,)
NOT_PARSED = (0.0,)  # 85 CNN rows have neither layers nor totals: unknown, not zero
STATUSES = {"SUCCESSFUL": "ok", "OOM_CRASH": "oom"}


def recognises(path: Path) -> bool:
    """Whether `path` is such a file, whatever its name, or a directory that holds some."""
    return bool(_files(path))


def read(path: Path) -> dict[str, pd.DataFrame]:
    """Return GPUMemNet's runs, one row a training.

    Parameters
    ----------
    path : Path
        One of the csv files, or a directory that holds some. Their names say the family: ``mlp``,
        ``cnn`` or ``transformer``, else the whole name stands for it.

    Returns
    -------
    dict with ``memory_runs``
        ``activations`` counts what one sample keeps for the backward pass, read from the list of
        layers (the file's total where that list cannot be read), ``largest_activation`` the
        largest tensor of it, ``multiply_adds`` those of a sample's forward pass,
        ``dense_parameters`` all weights. Runs with the same layers and
        batch size share a ``configuration``, whatever their dropout rate. A crash for lack of
        memory has the outcome ``oom``; its memory is the last reading, a lower bound. Counters
        that were not sampled (-1) are missing.

    Raises
    ------
    TableError
        A column is missing, or a value is missing, out of range or in another unit.
    """
    files = _files(path)
    if not files:
        wanted = f"a csv file of {', '.join(FILES)}, or one with the columns {', '.join(COLUMNS)}"
        raise TableError(str(path), "none of them", wanted)
    runs = pd.concat([_runs(file) for file in files], ignore_index=True)
    return {"memory_runs": checked(runs, MEMORY_RUNS, str(path))}


def outputs(path: Path) -> pd.Series:
    """Return what all layers put out for one sample, whether the backward pass needs it or not.

    Parameters
    ----------
    path : Path
        As for `read`.

    Returns
    -------
    Series of float64, index ``run_id``
        Scalars, the file's own total; NaN where it could not tell.
    """
    parts = []
    for file in _files(path):
        source = SourceTable.read(file, COLUMNS, ["Filename", "Activations-Params"])
        total = source.number("Total Activations", 0, missing=NOT_PARSED)
        parts.append(total.set_axis(_run_ids(file, len(total))))
    found: pd.Series = pd.concat(parts).rename_axis("run_id")
    return found


def _run_ids(file: Path, n: int) -> list[str]:
    return [f"gpumemnet-{_stem(file)}-{row}" for row in range(1, n + 1)]


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".csv")


def _files(path: Path) -> list[Path]:
    candidates = sorted(path.iterdir()) if path.is_dir() else [path]
    return [file for file in candidates if _stem(file) in FILES or has_columns(file, COLUMNS)]


def _runs(file: Path) -> pd.DataFrame:
    source = SourceTable.read(file, COLUMNS, ["Filename", "Activations-Params"])
    source.unique(["Filename"])
    stem = _stem(file)
    memory = source.number("Max GPU Memory (MiB)", 0, missing=(0,))
    source.typical(memory, "Max GPU Memory (MiB)", 100, 200_000, "MiB")
    known = "Status" in source.frame.columns
    kept = _kept(source)
    return pd.DataFrame(
        {
            "run_id": _run_ids(file, len(memory)),
            "dataset": f"gpumemnet-{stem.replace('_data_', '-')}",
            "family": named[0] if (named := FAMILY.search(stem)) else stem,
            "framework": "pytorch",
            "gpu_model": GPU_MODEL,
            "optimizer": "unknown",
            "precision": "fp32",
            "gpus": 1,
            "batch_size": source.whole("Batch Size", 1),
            "dense_parameters": source.number("Total Parameters", 0, missing=NOT_PARSED),
            "activations": kept["total"].fillna(
                source.number("Total Activations", 0, missing=NOT_PARSED)
            ),
            "depth": source.number("Depth", 0, missing=NOT_PARSED),
            "largest_activation": kept["largest"],
            "multiply_adds": kept["multiply_adds"],
            "configuration": _configurations(source),
            "gpu_util_mean": source.percent("Avg GPUTL", missing=NOT_SAMPLED),
            "sm_active_mean": source.number("Avg SMACT", 0, 1, missing=NOT_SAMPLED),
            "sm_occupancy_mean": source.number("Avg SMOCC", 0, 1, missing=NOT_SAMPLED),
            "fp32_active_mean": source.number("Avg FP32A", 0, 1, missing=NOT_SAMPLED),
            "gpu_mem_peak_mib": memory,
            "outcome": source.choice("Status", STATUSES) if known else "ok",
        }
    )


def _kept(source: SourceTable) -> pd.DataFrame:
    """Return what one sample keeps for the backward pass and multiplies, as ``Kept``."""
    names = source.text("Filename")
    image = names.str.extract(r"input_channels:(\d+).*_input_size:(\d+)").astype("float64")
    layers = source.frame["Activations-Params"].astype("str")
    kept = [
        asdict(kept_scalars(text, side, channels))
        for text, channels, side in zip(layers, image[0], image[1], strict=True)
    ]
    columns = [field.name for field in fields(Kept)]
    return pd.DataFrame(kept, index=layers.index, columns=columns, dtype="float64")


def _configurations(source: SourceTable) -> list[str]:
    """Return a digest of layers and batch size, or the file's name for where no layer is known."""
    layers = source.frame["Activations-Params"].astype("str")
    batch = source.frame["Batch Size"].astype("str")
    names = source.text("Filename")
    known = source.number("Depth", 0) > 0
    described = (layers + "|" + batch).where(known, names)
    return [hashlib.sha256(text.encode()).hexdigest()[:16] for text in described]
