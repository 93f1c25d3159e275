"""What memory and demand are predicted from: the structure of a model, before it ever ran."""

from collections.abc import Iterable
from dataclasses import asdict, fields

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.domain import ModelStructure

FRAMEWORKS = ("hugectr", "oneflow", "paddle", "pytorch", "tensorflow")
SIZE_COLUMNS = (
    "embedding_mib",
    "embedding_mib_per_gpu",
    "dense_mib",
    "activations_mib",
    "sample_activations_mib",
    "largest_activation_mib",
    "lookup_mib",
    "lookup_mib_per_gpu",
    "optimizer_mib",
    "batch_size",
    "batch_per_gpu",
    "batch_depth",
    "depth",
    "embedding_tables",
    "gpus",
    "gpus_log2",
    "precision_bytes",
)
FRAMEWORK_COLUMNS = ("framework_version", *(f"framework_{name}" for name in FRAMEWORKS))
COMPUTE_COLUMNS = (
    "batch_multiply_adds_log",
    "batch_activations_log",
    "depth_log",
    "layer_multiply_adds_log",
    "layer_activations_log",
)
"""What a GPU is kept busy by, in any kind of model."""

LOG_COLUMNS = (
    "embedding_elements_log",
    "dense_parameters_log",
    "activations_log",
    "batch_flops_log",
    "optimizer_states",
    *COMPUTE_COLUMNS,
)
STRUCTURE_COLUMNS = (*SIZE_COLUMNS, *FRAMEWORK_COLUMNS, *LOG_COLUMNS)
"""Every column that `structure_features` gives, in order."""

MEMORY_COLUMNS = (*SIZE_COLUMNS, *FRAMEWORK_COLUMNS)
"""Sizes only: a logarithm would bend what grows in proportion."""

STATES = {
    **dict.fromkeys(("none", "sgd"), 0.0),
    **dict.fromkeys(("momentum", "adagrad", "rmsprop", "lion", "asgd"), 1.0),
    **dict.fromkeys(("adam", "adamw", "adamax", "nadam", "radam", "adadelta", "lamb"), 2.0),
    **dict.fromkeys(("sparseadam", "rprop"), 2.0),
}
"""Numbers that an optimizer keeps for each weight."""

BYTES = {"fp64": 8.0, "fp32": 4.0, "tf32": 4.0, "amp": 2.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0}
"""Bytes of an activation by precision; mixed precision stores activations in halves."""

WEIGHT_BYTES = 4.0  # also under mixed precision the master copy is single
MIB = 2.0**20
_NUMBERS = (
    "batch_size",
    "gpus",
    "embedding_rows",
    "embedding_width",
    "embedding_tables",
    "dense_parameters",
    "activations",
    "depth",
    "largest_activation",
    "multiply_adds",
)


def structures_frame(structures: Iterable[ModelStructure]) -> pd.DataFrame:
    """Return structures as a frame, one row each; what is unknown is NaN.

    Examples
    --------
    >>> frame = structures_frame([ModelStructure("dlrm", 64, embedding_rows=1000)])
    >>> frame[["family", "batch_size", "embedding_rows", "depth"]].values
    array([['dlrm', 64.0, 1000.0, nan]], dtype=object)
    """
    columns = [field.name for field in fields(ModelStructure)]
    frame = pd.DataFrame([asdict(one) for one in structures], columns=columns)
    return frame.astype(dict.fromkeys(_NUMBERS, "float64"))


def structure_features(structures: pd.DataFrame) -> pd.DataFrame:
    """Describe each model by sizes and counts of its structure.

    Parameters
    ----------
    structures : DataFrame of shape (n, >= 13), any index
        As `structures_frame` gives, or ``data.schemas.MEMORY_RUNS``.

    Returns
    -------
    DataFrame of shape (n, 33), indexed as `structures`
        ``STRUCTURE_COLUMNS``, all float64. Sizes in MiB: weights and optimizer states at four
        bytes, activations at the bytes of the precision (four where it is unknown). The batch
        counts samples over all GPUs; ``_per_gpu`` is one GPU's part were it sharded evenly.
        ``framework_<name>`` is 1 or 0, ``framework_version`` is major + minor / 100. ``_log`` is
        the natural logarithm of 1 + count. NaN where the structure does not say.

    Notes
    -----
    What memory is made of - weights, gradients, optimizer states, activations that grow with the
    batch: Gao et al., "Estimating GPU Memory Consumption of Deep Learning Models" (DNNMem), FSE
    2020. Embedding size as an input of a quadratic: Sparse.

    Examples
    --------
    >>> features = structure_features(structures_frame([
    ...     ModelStructure("ncf", 256, gpus=2, embedding_rows=2**20, embedding_width=32)]))
    >>> features[["embedding_mib_per_gpu", "batch_per_gpu", "dense_mib"]].values
    array([[ 64., 128.,  nan]])
    """
    n = {name: structures[name].to_numpy(np.float64) for name in _NUMBERS}
    columns = {**_sizes(n, structures), **_frameworks(structures["framework"]), **_logs(n)}
    columns["optimizer_states"] = _looked_up(structures["optimizer"], STATES)
    frame = pd.DataFrame(columns, index=structures.index, dtype="float64")
    return frame[list(STRUCTURE_COLUMNS)]


_Column = NDArray[np.float64]


def _sizes(n: dict[str, _Column], structures: pd.DataFrame) -> dict[str, _Column]:
    precision = _looked_up(structures["precision"], BYTES)
    item = np.where(np.isnan(precision), WEIGHT_BYTES, precision) / MIB
    batch, each = n["batch_size"], n["batch_size"] / n["gpus"]
    embedding = n["embedding_rows"] * n["embedding_width"] * WEIGHT_BYTES / MIB
    dense = n["dense_parameters"] * WEIGHT_BYTES / MIB
    states = _looked_up(structures["optimizer"], STATES)
    return {
        "embedding_mib": embedding,
        "embedding_mib_per_gpu": embedding / n["gpus"],
        "dense_mib": dense,
        "activations_mib": each * n["activations"] * item,
        "sample_activations_mib": n["activations"] * item,
        "largest_activation_mib": each * n["largest_activation"] * item,
        "lookup_mib": batch * n["embedding_width"] * item,
        "lookup_mib_per_gpu": each * n["embedding_width"] * item,
        "optimizer_mib": states * _known_sum(embedding / n["gpus"], dense),
        "batch_size": batch,
        "batch_per_gpu": each,
        "batch_depth": each * n["depth"],
        "depth": n["depth"],
        "embedding_tables": n["embedding_tables"],
        "gpus": n["gpus"],
        "gpus_log2": np.log2(n["gpus"]),
        "precision_bytes": precision,
    }


def _frameworks(framework: pd.Series) -> dict[str, _Column]:
    """Return indicators and version of texts like ``HugeCTR/3.2``."""
    texts = framework.astype("str").str.lower()
    name = texts.str.split("/").str[0]
    parts = texts.str.extract(r"/v?(\d+)\.(\d+)").astype("float64")
    version = (parts[0] + parts[1] / 100).to_numpy(np.float64)
    known = {f"framework_{one}": (name == one).to_numpy(np.float64) for one in FRAMEWORKS}
    return {"framework_version": version, **known}


def _logs(n: dict[str, _Column]) -> dict[str, _Column]:
    products = np.log1p(n["batch_size"] * n["multiply_adds"])
    kept = np.log1p(n["batch_size"] * n["activations"])
    layers = np.log(np.maximum(n["depth"], 1))
    return {
        "embedding_elements_log": np.log1p(n["embedding_rows"] * n["embedding_width"]),
        "dense_parameters_log": np.log1p(n["dense_parameters"]),
        "activations_log": np.log1p(n["activations"]),
        "batch_flops_log": np.log1p(n["batch_size"] * n["dense_parameters"]),
        "batch_multiply_adds_log": products,
        "batch_activations_log": kept,
        "depth_log": np.log1p(n["depth"]),
        "layer_multiply_adds_log": products - layers,
        "layer_activations_log": kept - layers,
    }


def _known_sum(one: _Column, other: _Column) -> _Column:
    """Return the sum of what is known of two parts; NaN only where both are missing."""
    total = np.nan_to_num(one) + np.nan_to_num(other)
    return np.where(np.isnan(one) & np.isnan(other), np.nan, total)


def _looked_up(texts: pd.Series, table: dict[str, float]) -> _Column:
    return np.asarray(texts.astype("str").str.lower().map(table), dtype=np.float64)
