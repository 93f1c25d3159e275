"""Held-out answers beside what was measured: what metrics and pictures are made of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import SettingError
from pipelines.splits import Fold
from serving.inference.bundle import Floats

GIVEN = "given"
FEWEST = 30  # rows of a group: of fewer, chance alone makes one the worst
WORST = 0.1


@dataclass(frozen=True, slots=True)
class Judged:
    """The answers for what one split held out.

    Attributes
    ----------
    split, unit : str
        As ``memory (MiB)``: what was asked, and its unit.
    rows : DataFrame of shape (n, >= 5)
        ``value``, ``lower``, ``upper``, ``observed`` (> 0 where `is_ratio`) and ``group`` (str).
    is_ratio : bool
        Whether errors are in proportion, and so drawn as a logarithm.
    grouped_by : str
        What a ``group`` is.
    """

    split: str
    unit: str
    rows: pd.DataFrame
    is_ratio: bool = True
    grouped_by: str = "family"


RUNTIME = "runtime (s)"
"""The unit of answers that range from a second to days, and so are drawn on axes of time."""

Keep = Callable[[Judged], None]


def dropped(judged: Judged) -> None:
    """Keep nothing; where only the numbers are wanted."""
    del judged


def given_fold(train: pd.DataFrame, test: pd.DataFrame) -> tuple[pd.DataFrame, Fold]:
    """Return both sets as one, and the fold that learns from the first and asks the second.

    Examples
    --------
    >>> both, fold = given_fold(pd.DataFrame({"x": [1, 2]}), pd.DataFrame({"x": [3]}))
    >>> fold.name, fold.train.tolist(), fold.test.tolist(), len(both)
    ('given', [0, 1], [2], 3)
    """
    both = pd.concat([train, test], ignore_index=True)
    positions = np.arange(len(both))
    return both, Fold(GIVEN, positions[: len(train)], positions[len(train) :])


def checked_splits(asked: Sequence[str], known: Sequence[str]) -> Sequence[str]:
    """Return `asked` if all are known ways of holding out.

    Raises
    ------
    SettingError
        Names the first that is not.
    """
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise SettingError(f"found the split {unknown[0]!r}, wanted some of {', '.join(known)}")
    return asked


def worst_coverage(observed: Floats, estimates: pd.DataFrame, groups: pd.Series) -> float | None:
    """Return the share inside the interval that all but the worst tenth of the groups reach.

    Parameters
    ----------
    observed : array of shape (n,), float64
    estimates : DataFrame of shape (n, >= 2)
        ``lower`` and ``upper``.
    groups : Series of str, length n

    Returns
    -------
    float or None
        The tenth percentile over groups of thirty rows or more; None where there is none.

    Examples
    --------
    >>> estimates = pd.DataFrame({"lower": [0.0] * 60, "upper": [1.0] * 60})
    >>> worst_coverage(np.r_[np.full(45, 0.5), np.full(15, 2.0)], estimates,
    ...                pd.Series(["a"] * 30 + ["b"] * 30))
    0.5
    """
    inside = (observed >= estimates["lower"].to_numpy()) & (
        observed <= estimates["upper"].to_numpy()
    )
    named = groups.notna().to_numpy(np.bool_)
    return worst_share(inside[named], groups.to_numpy(dtype=str)[named])


def worst_share(inside: NDArray[np.bool_], names: NDArray[np.str_]) -> float | None:
    """Return the share of True that all but the worst tenth of the groups reach.

    Parameters
    ----------
    inside : array of shape (n,), bool
    names : array of shape (n,), str
        The group of each.

    Returns
    -------
    float or None
        As `worst_coverage`.
    """
    _, group = np.unique(names, return_inverse=True)
    rows = np.bincount(group)
    shares = (np.bincount(group, inside) / np.maximum(rows, 1))[rows >= FEWEST]
    return float(np.quantile(shares, WORST, method="lower")) if len(shares) else None
