"""Effects as plain tables beside a model, and back."""

from collections.abc import Mapping
from dataclasses import fields

import numpy as np
import pandas as pd

from features.effect_jobs import BUSY_COLUMNS, DRAM_COLUMN, EffectJobs, Stand
from features.effect_kernel import COMPONENT_NAMES, EffectKernel, EffectRows
from features.effects import Effects

KERNEL_TABLE, JOBS_TABLE, ROWS_TABLE = "effect_kernel", "effect_jobs", "effect_rows"
EFFECT_TABLES = (KERNEL_TABLE, JOBS_TABLE, ROWS_TABLE)
_NUMBERS = ("transfer", "noise", "idle_noise", "signal_scale")
_BEFORE = {"signal_scale": 0.3}  # of versions that do not say
_LOG2_BATCH = "log2_batch"
_TEXTS = ("job_key", "gpu_model", "family", "precision")


def effect_tables(learnt: Effects, missing: Stand) -> dict[str, pd.DataFrame]:
    """Return effects as tables.

    Returns
    -------
    dict of str to DataFrame
        ``effect_kernel``: ``name`` and ``value`` of each variance and number, and of what stands
        in for a missing signal; ``effect_jobs``: a row a job, columns as ``EffectJobs``;
        ``effect_rows``: a row a measured pair, ``job`` and ``neighbour`` (row numbers in
        ``effect_jobs``), ``log_slowdown``, ``noise`` and ``pull``.
    """
    kernel = learnt.kernel
    numbers = dict(zip(COMPONENT_NAMES, kernel.variances, strict=True))
    numbers |= {name: getattr(kernel, name) for name in _NUMBERS} | {"mean": learnt.mean}
    numbers |= {
        missing.busy_column: missing.busy,
        DRAM_COLUMN: missing.dram,
        _LOG2_BATCH: missing.log2_batch,
    }
    jobs, rows = learnt.rows.jobs, learnt.rows
    measured = {
        "job": rows.job,
        "neighbour": rows.neighbour,
        "log_slowdown": learnt.log_slowdown,
        "noise": learnt.noise,
        "pull": learnt.pull,
    }
    return {
        KERNEL_TABLE: pd.DataFrame({"name": list(numbers), "value": list(numbers.values())}),
        JOBS_TABLE: pd.DataFrame({each.name: getattr(jobs, each.name) for each in fields(jobs)}),
        ROWS_TABLE: pd.DataFrame(measured),
    }


def effects_from(tables: Mapping[str, pd.DataFrame]) -> tuple[Effects, Stand]:
    """Return the effects and what stands in for missing signals, as `effect_tables` wrote them."""
    kernel_table = tables[KERNEL_TABLE]
    numbers = kernel_table["value"].astype("float64")
    value = _BEFORE | dict(zip(kernel_table["name"], numbers, strict=True))
    kernel = EffectKernel(
        np.array([value[name] for name in COMPONENT_NAMES]), *(value[name] for name in _NUMBERS)
    )
    busy = next(name for name in BUSY_COLUMNS if name in value)
    missing = Stand(busy, value[busy], value[DRAM_COLUMN], value[_LOG2_BATCH])
    columns = {
        each.name: tables[JOBS_TABLE][each.name].to_numpy(
            dtype=str if each.name in _TEXTS else np.float64
        )
        for each in fields(EffectJobs)
    }
    rows = tables[ROWS_TABLE]
    pairs = EffectRows(
        EffectJobs(**columns), rows["job"].to_numpy(np.intp), rows["neighbour"].to_numpy(np.intp)
    )
    measured = (rows[name].to_numpy(np.float64) for name in ("log_slowdown", "noise", "pull"))
    return Effects(kernel, value["mean"], pairs, *measured), missing
