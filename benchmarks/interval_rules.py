"""Ways to tell how far a job of a new family may be off, from what held-out families were.

Each is a pure function of held-out answers and of the answers that want intervals.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
from scipy.stats import t as student

from pipelines.conformal import LEVEL, interval_scores, residual_quantiles, tail_quantiles
from pipelines.judged import worst_share
from serving.inference.bundle import Floats

Rule = Callable[[pd.DataFrame, pd.DataFrame], Floats]
"""From held-out answers (``residual``, ``family``, ``effect_sd``, ``tree_sd``, ``log_value`` and
``neighbour_util``) and those asked about (the same without ``residual``) to the residual quantiles
of the latter, shape (n, 2)."""

Quantiles = tuple[float, float]
SMALL = 0.1  # log slowdown, added to that of a pair for a unit that is never nothing
FAMILY_SHARE = 0.8
TAILS = np.linspace(0.0, 0.08, 9)
SHARES = np.linspace(0.0, 0.1, 11)


def one_for_all(cut: Callable[[Floats, Floats], Quantiles]) -> Rule:
    """Return the rule that gives every answer the quantiles that `cut` makes of all residuals."""

    def rule(held: pd.DataFrame, asked: pd.DataFrame) -> Floats:
        residuals, families = held["residual"].to_numpy(), held["family"].to_numpy(dtype=str)
        return np.tile(cut(residuals, families), (len(asked), 1))

    return rule


def in_units_of(unit: Callable[[pd.DataFrame], pd.Series]) -> Rule:
    """Return the rule whose quantiles count in what `unit` tells of each answer."""

    def rule(held: pd.DataFrame, asked: pd.DataFrame) -> Floats:
        low, high = residual_quantiles((held["residual"] / unit(held)).to_numpy(np.float64))
        return np.outer(unit(asked), (low, high))

    return rule


def thirds_apart(held: pd.DataFrame, asked: pd.DataFrame) -> Floats:
    """Return the quantiles of thirds of the neighbour's utilisation, each by itself."""
    ends = np.quantile(held["neighbour_util"], (1 / 3, 2 / 3))
    of_held, of_asked = (np.searchsorted(ends, rows["neighbour_util"]) for rows in (held, asked))
    residuals = held["residual"].to_numpy()
    thirds = np.array([residual_quantiles(residuals[of_held == third]) for third in range(3)])
    return np.asarray(thirds[of_asked], dtype=np.float64)


def alike(residuals: Floats, families: Floats) -> Quantiles:
    """Return the quantiles of all rows."""
    del families
    return residual_quantiles(residuals)


def down_to_the_floor(residuals: Floats, families: Floats) -> Quantiles:
    """Return an interval without a lower end, and below what all but 0.08 lie."""
    del families
    return -np.inf, tail_quantiles(residuals, 0.0, 0.08)[1]


def shared_tenth(residuals: Floats, families: Floats) -> Quantiles:
    """Return the two tails, a tenth of the rows in all, by which left-out families score best."""

    def cost(low: float) -> float:
        cut = partial(pooled_tails, low=low, high=1 - LEVEL - low)
        return float(interval_scores(*_left_out_ends(residuals, families, cut), residuals).mean())

    low = float(min(SHARES, key=cost))
    return tail_quantiles(residuals, low, 1 - LEVEL - low)


def families_alike(residuals: Floats, families: Floats) -> Quantiles:
    """Return quantiles to which each family counts as much as another."""
    _, group, rows = np.unique(families, return_inverse=True, return_counts=True)
    order = np.argsort(residuals)
    share = np.cumsum((1 / rows[group])[order]) / len(rows)
    tail = (1 - LEVEL) / 2
    at = [np.searchsorted(share, tail), np.searchsorted(share, 1 - tail)]
    low, high = residuals[order][np.minimum(at, len(order) - 1)]
    return float(low), float(high)


def of_families(residuals: Floats, families: Floats, low: float, high: float) -> Quantiles:
    """Return the ends that hold four fifths of the families' own tails.

    Examples
    --------
    >>> of_families(np.r_[np.arange(99.0), np.arange(99.0)], np.repeat(["a", "b"], 99), 0.05, 0.05)
    (4.0, 94.0)
    """
    own = [tail_quantiles(residuals[families == name], low, high) for name in np.unique(families)]
    lower, upper = np.array(own).T
    return (
        float(np.quantile(lower, 1 - FAMILY_SHARE, method="lower")),
        float(np.quantile(upper, FAMILY_SHARE, method="higher")),
    )


def random_families(residuals: Floats, families: Floats) -> Quantiles:
    """Return the ends for one more family where each is off as a whole, by chance.

    Notes
    -----
    One-way random effects, each family counting once: the predictive interval of Student's t with
    as many degrees of freedom as there are families, less one.
    """
    groups = pd.Series(residuals).groupby(families)
    means, count = groups.mean(), groups.ngroups
    variance = means.var() * (1 + 1 / count) + groups.var().mean()
    reach = float(student.ppf((1 + LEVEL) / 2, count - 1) * np.sqrt(variance))
    return float(means.mean()) - reach, float(means.mean()) + reach


def left_out_tails(
    residuals: Floats,
    families: Floats,
    cut: Callable[..., Quantiles],
    cost: Callable[[Floats, Floats, Floats], Floats],
    *,
    holds: bool = True,
) -> Quantiles:
    """Return the tails by which families, each left out in turn, come out best.

    Parameters
    ----------
    residuals, families : array of shape (n,)
    cut : callable
        From residuals, families and two tails to quantiles.
    cost : callable
        From lower and upper ends and residuals to what each interval costs.
    holds : bool
        Whether tails come first that hold 0.9 of all rows and 0.8 in the worst tenth of families.
    """

    def missed(tails: tuple[float, float]) -> tuple[float, float]:
        lower, upper = _left_out_ends(
            residuals, families, partial(cut, low=tails[0], high=tails[1])
        )
        found = float(cost(lower, upper, residuals).mean())
        if not holds:
            return 0.0, found
        inside = (residuals >= lower) & (residuals <= upper)
        worst = worst_share(inside, families)
        short = max(LEVEL - float(inside.mean()), 0.0)
        short += max(FAMILY_SHARE - (1.0 if worst is None else worst), 0.0)
        return round(short, 6), found

    low, high = min(product(TAILS, TAILS), key=missed)
    return cut(residuals, families, low, high)


def _left_out_ends(
    residuals: Floats, families: Floats, cut: Callable[[Floats, Floats], Quantiles]
) -> tuple[Floats, Floats]:
    """Return the ends that all other families give to each row."""
    ends = np.empty((len(residuals), 2))
    for name in np.unique(families):
        own = families == name
        ends[own] = cut(residuals[~own], families[~own])
    return np.minimum(ends[:, 0], 0), np.maximum(ends[:, 1], 0)


def width(lower: Floats, upper: Floats, residuals: Floats) -> Floats:
    """Return how wide intervals are."""
    del residuals
    return upper - lower


def pooled_tails(residuals: Floats, families: Floats, low: float, high: float) -> Quantiles:
    """Return the quantiles of two tails of all rows."""
    del families
    return tail_quantiles(residuals, low, high)


SERVED: Mapping[str, Rule] = {
    name: one_for_all(cut)
    for name, cut in {
        "all rows alike": alike,
        **{
            f"tails of {low:.2f} below and {0.1 - low:.2f} above": partial(
                pooled_tails, low=low, high=0.1 - low
            )
            for low in (0.0, 0.02, 0.04, 0.06, 0.08, 0.1)
        },
        "down to the floor, 0.08 above": down_to_the_floor,
        "each family counts as much as another": families_alike,
        "quantile 0.8 of the families' own quantiles": partial(of_families, low=0.05, high=0.05),
        "families off by chance": random_families,
        "tails by leaving out: 0.8 of the worst family, then score": partial(
            left_out_tails, cut=pooled_tails, cost=interval_scores
        ),
        "tails by leaving out: 0.8 of the worst family, then width": partial(
            left_out_tails, cut=pooled_tails, cost=width
        ),
        "the same, of the families' own quantiles": partial(
            left_out_tails, cut=of_families, cost=width
        ),
        "tails by leaving out: score": partial(
            left_out_tails, cut=pooled_tails, cost=interval_scores, holds=False
        ),
        "tails by leaving out: a tenth in all, score": shared_tenth,
    }.items()
}
"""One pair of quantiles for a kind of novelty, which costs an answer nothing."""

OWN_UNITS: Mapping[str, Rule] = {
    "in units of predicted log slowdown + 0.1": in_units_of(
        lambda rows: rows["log_value"].clip(lower=0) + SMALL
    ),
    "thirds of the neighbour's utilisation apart": thirds_apart,
    "in the standard deviation of the effects": in_units_of(lambda rows: rows["effect_sd"]),
    "in what the trees differ by": in_units_of(lambda rows: rows["tree_sd"]),
}
"""For comparison: every pair would have to be told its own unit."""

RULES: Mapping[str, Rule] = {**SERVED, **OWN_UNITS}
