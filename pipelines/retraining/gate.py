"""The gate: whether a challenger replaces the champion, on rows that neither learnt from."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from data.errors import SettingError, shown

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GateRules:
    """The thresholds of the gate.

    Attributes
    ----------
    min_rows, min_groups : int
        Fewer rows, or fewer groups of them, decide nothing: the bootstrap of a few groups is
        far too sure of itself.
    coverage_floor : float
        Least share of rows inside the challenger's interval. Below its nominal 0.9, for a slice
        of few rows strays from it by chance.
    confidence : float
        Of the two-sided bootstrap interval of the mean gain, in (0, 1).
    enough_seen : int
        A champion that learnt from fewer production rows is young.
    resamples, seed : int
        Of the bootstrap.
    """

    min_rows: int = 8
    min_groups: int = 3
    coverage_floor: float = 0.75
    confidence: float = 0.9
    enough_seen: int = 200
    resamples: int = 2000
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Evidence:
    """How champion and challenger answered the same rows, in the same order.

    Attributes
    ----------
    challenger_errors : array-like of shape (n,)
        Finite and not negative, in any unit.
    covered : array-like of shape (n,), in [0, 1]
        Whether, or with what share of several signals, the observed value lay inside the
        challenger's interval.
    champion_errors : array-like of shape (n,), optional
        In the same unit; None where there is no champion.
    champion_seen : int
        Production rows that the champion learnt from.
    groups : array-like of shape (n,), optional
        Names what rows repeat, such as one pair or one user's batch; such rows are drawn
        together. By default each row is its own.
    """

    challenger_errors: ArrayLike
    covered: ArrayLike
    champion_errors: ArrayLike | None = None
    champion_seen: int = 0
    groups: ArrayLike | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate decided, and from what.

    Attributes
    ----------
    promote : bool
    reason : str
        One sentence with the numbers that decided.
    rows, groups : int
        Rows compared, and how many groups they fall into.
    challenger_error, champion_error : float
        Mean errors, in the unit given; NaN without rows, or without a champion.
    gain, gain_low, gain_high : float
        Mean of champion error minus challenger error, and its bootstrap interval; NaN likewise.
    coverage : float
        Mean of what was covered; NaN without rows.
    """

    promote: bool
    reason: str
    rows: int
    groups: int
    challenger_error: float
    champion_error: float
    gain: float
    gain_low: float
    gain_high: float
    coverage: float


_COMPARED = ("challenger_error", "champion_error", "gain", "gain_low", "gain_high", "coverage")


def verdict(evidence: Evidence, rules: GateRules | None = None) -> Verdict:
    """Return whether the challenger is promoted, by the first rule that applies.

    Raises
    ------
    SettingError
        If the lengths differ, or an error is negative or not finite.

    Notes
    -----
    1. Fewer than ``min_rows`` rows or ``min_groups`` groups: keep the champion.
    2. Coverage below ``coverage_floor``: keep.
    3. No champion: promote.
    4. The whole interval of the mean gain lies above 0, the challenger is better: promote.
    5. The whole interval lies below 0, it is worse: keep.
    6. The champion is young (has seen less than ``enough_seen``): promote. The challenger is not
       worse beyond the noise, and has seen more.
    7. Else keep.

    The interval is the percentile bootstrap, over groups, of the paired differences: Efron and
    Tibshirani, "An Introduction to the Bootstrap", 1993.

    Examples
    --------
    >>> found = verdict(Evidence([0.1] * 10, [True] * 10, champion_errors=[0.4] * 10))
    >>> found.promote, found.reason
    (True, 'better on 10 rows: mean error 0.100 against 0.400, gain in [0.300, 0.300]')
    """
    rules = rules or GateRules()
    challenger, champion = _checked_errors(evidence)
    covered = np.asarray(evidence.covered, dtype=np.float64)
    _refuse_other_length(covered, "covered", len(challenger))
    gains = None if champion is None else champion - challenger
    names = np.arange(len(challenger)) if evidence.groups is None else np.asarray(evidence.groups)
    _refuse_other_length(names, "groups", len(challenger))
    low, high = _interval(gains, names, rules)
    compared = Verdict(
        promote=False,
        reason="",
        rows=len(challenger),
        groups=len(np.unique(names)),
        challenger_error=_mean(challenger),
        champion_error=_mean(champion),
        gain=_mean(gains),
        gain_low=low,
        gain_high=high,
        coverage=_mean(covered),
    )
    promote, reason = _decision(compared, evidence.champion_seen, rules)
    return replace(compared, promote=promote, reason=reason)


def undecided(rows: int, reason: str) -> Verdict:
    """Return the verdict where nothing could be compared: keep the champion, for `reason`."""
    unknown = dict.fromkeys(_COMPARED, float("nan"))
    return Verdict(promote=False, reason=reason, rows=rows, groups=rows, **unknown)


def _decision(found: Verdict, champion_seen: int, rules: GateRules) -> tuple[bool, str]:
    refusal = _unfit(found, rules)
    if refusal:
        return False, refusal
    if np.isnan(found.champion_error):
        error = found.challenger_error
        return True, f"the first version: mean error {error:.3f} on {found.rows} rows"
    numbers = (
        f"on {found.rows} rows: mean error {found.challenger_error:.3f} against"
        f" {found.champion_error:.3f}, gain in [{found.gain_low:.3f}, {found.gain_high:.3f}]"
    )
    if found.gain_low > 0:
        return True, f"better {numbers}"
    if found.gain_high < 0:
        return False, f"worse {numbers}"
    if champion_seen < rules.enough_seen:
        return True, f"not worse, and the champion saw only {champion_seen} jobs, {numbers}"
    return False, f"not better {numbers}"


def _unfit(found: Verdict, rules: GateRules) -> str | None:
    if found.rows < rules.min_rows:
        return f"only {found.rows} new rows to judge by, wanted {rules.min_rows}"
    if found.groups < rules.min_groups:
        return f"only {found.groups} groups of new rows to judge by, wanted {rules.min_groups}"
    if found.coverage < rules.coverage_floor:
        floor = f"below {rules.coverage_floor:.2f}"
        return f"coverage {found.coverage:.2f} on {found.rows} rows is {floor}"
    return None


def _interval(
    gains: Floats | None, names: NDArray[np.generic], rules: GateRules
) -> tuple[float, float]:
    if gains is None or not len(gains):
        return float("nan"), float("nan")
    unique, group = np.unique(names, return_inverse=True)
    sums, sizes = np.bincount(group, weights=gains), np.bincount(group)
    random = np.random.default_rng(rules.seed)
    # One resample at a time: all at once would take gigabytes for a large slice.
    draws = (random.integers(0, len(unique), len(unique)) for _ in range(rules.resamples))
    means = [sums[drawn].sum() / sizes[drawn].sum() for drawn in draws]
    tail = (1 - rules.confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def _checked_errors(evidence: Evidence) -> tuple[Floats, Floats | None]:
    challenger = _errors(evidence.challenger_errors, "challenger_errors")
    if evidence.champion_errors is None:
        return challenger, None
    champion = _errors(evidence.champion_errors, "champion_errors")
    _refuse_other_length(champion, "champion_errors", len(challenger))
    return challenger, champion


def _errors(values: ArrayLike, name: str) -> Floats:
    errors = np.asarray(values, dtype=np.float64)
    wrong = errors[~(np.isfinite(errors) & (errors >= 0))]
    if wrong.size:
        raise SettingError(f"{name} must be finite and not negative, got {shown(wrong.tolist())}")
    return errors


def _refuse_other_length(values: NDArray[np.generic], name: str, rows: int) -> None:
    if values.shape != (rows,):
        raise SettingError(f"{name} must have {rows} rows, got shape {values.shape}")


def _mean(values: Floats | None) -> float:
    return float("nan") if values is None or not values.size else float(np.mean(values))
