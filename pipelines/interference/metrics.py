"""One flat row of numbers for one way of holding pairs out."""

import numpy as np
import pandas as pd

from pipelines.labelling.audit_noise import Noise, ceiling_r2
from pipelines.metrics import abstention, best_baseline, estimate_metrics


def split_row(
    split: str, rows: pd.DataFrame, trivial: pd.DataFrame, noise: Noise | None
) -> dict[str, object]:
    """Return the metrics of held-out slowdown estimates beside those of trivial answers.

    Parameters
    ----------
    split : str
    rows : DataFrame of shape (n, >= 5)
        ``value``, ``lower``, ``upper``, ``in_domain`` and ``slowdown`` (as measured).
    trivial : DataFrame with the index of `rows`
        A column a baseline, as `baseline_estimates` gives.
    noise : Noise or None
        As the audit measured it.

    Returns
    -------
    dict
        ``split``, the keys of `estimate_metrics` and `best_baseline`, ``ceiling_r2`` (highest R²
        that the noise allows), and the keys of `abstention` (errors of the slowdown). None where
        undefined.
    """
    observed = rows["slowdown"].to_numpy(np.float64)
    asked = trivial.loc[rows.index]
    columns = {str(name): asked[name].to_numpy(np.float64) for name in asked}
    error = np.abs(observed - rows["value"].to_numpy(np.float64))
    return {
        "split": split,
        **estimate_metrics(observed, rows),
        **best_baseline(observed, columns),
        "ceiling_r2": _ceiling(rows["slowdown"], noise),
        **abstention(error, rows["in_domain"].to_numpy(np.bool_)),
    }


def _ceiling(slowdowns: pd.Series, noise: Noise | None) -> float | None:
    if noise is None:
        return None
    return _known(ceiling_r2(slowdowns, noise.repeat_sd, noise.self_pair_rms))


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
