"""Flat rows of numbers for predicted profiles, signal by signal and together."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from data.domain import RATIO_SIGNALS
from pipelines.judged import worst_coverage
from pipelines.metrics import abstention, best_baseline, estimate_metrics

ALL_NAMES = (
    "r2",
    "within_2x",
    "rank_correlation",
    "under_rate",
    "coverage_90",
    "coverage_90_worst",
    "baseline_r2",
)


def named_with_unit(signal: str) -> str:
    """Return a signal's name with its unit, where the name does not end in it.

    Examples
    --------
    >>> named_with_unit("sm_active_mean"), named_with_unit("gpu_mem_peak_mib")
    ('sm_active_mean (ratio)', 'gpu_mem_peak_mib')
    """
    return f"{signal} (ratio)" if signal.rsplit("_", 1)[0] in RATIO_SIGNALS else signal


def demand_rows(
    split: str, judged: Mapping[str, pd.DataFrame], families: pd.Series
) -> list[dict[str, object]]:
    """Return the metrics of held-out profiles.

    Parameters
    ----------
    split : str
    judged : mapping of signal to DataFrame
        ``value``, ``lower``, ``upper``, ``observed``, ``fold`` and ``in_domain``, indexed by
        position in `families`.
    families : Series of str

    Returns
    -------
    list of dict
        First ``<split>``: the means over the signals, with None where a mean over different
        units makes no sense. Then ``<split>:<signal>``: the keys of `estimate_metrics`,
        `best_baseline` and `abstention` (errors in the signal's unit), and ``coverage_90_worst``
        (of the worst tenth of the families). ``ceiling_r2`` is None: the public sets
        hold no repeats to tell it.
    """
    rows = [_signal_row(f"{split}:{name}", frame, families) for name, frame in judged.items()]
    return [_mean_row(split, rows), *rows]


def _signal_row(split: str, rows: pd.DataFrame, families: pd.Series) -> dict[str, object]:
    observed = rows["observed"].to_numpy(np.float64)
    total, sizes = rows["observed"].sum(), rows.groupby("fold")["observed"].agg(["sum", "size"])
    others = (total - sizes["sum"]) / (len(rows) - sizes["size"]).clip(lower=1)
    constant = rows["fold"].map(others).to_numpy(np.float64)
    return {
        "split": split,
        **estimate_metrics(observed, rows),
        **best_baseline(observed, {"constant": constant}),
        "ceiling_r2": None,
        **abstention(
            (rows["observed"] - rows["value"]).abs().to_numpy(np.float64),
            rows["in_domain"].to_numpy(np.bool_),
        ),
        "coverage_90_worst": worst_coverage(observed, rows, families.iloc[rows.index]),
    }


def _mean_row(split: str, rows: list[dict[str, object]]) -> dict[str, object]:
    table = pd.DataFrame(rows)
    means = {
        name: None
        if name not in ALL_NAMES or table[name].isna().all()
        else float(table[name].mean())
        for name in table.columns
        if name not in ("split", "n")
    }
    return {"split": split, "n": int(table["n"].max()), **means, "signals": len(rows)}
