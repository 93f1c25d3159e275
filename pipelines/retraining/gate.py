"""The gate: whether a challenger replaces the champion, on rows that neither learnt from."""

from collections.abc import Sequence
from dataclasses import replace
from math import isnan

import numpy as np
from numpy.typing import ArrayLike, NDArray

from data.errors import SettingError, shown
from pipelines.retraining.gate_parts import Judged, Part, group_means, parts_found
from pipelines.retraining.gate_terms import NAN, Evidence, GateRules, Verdict

Floats = NDArray[np.float64]


def verdict(evidence: Evidence, rules: GateRules | None = None) -> Verdict:
    """Return whether the challenger is promoted, by the first rule that applies.

    Raises
    ------
    SettingError
        If the lengths differ, or an error is negative or not finite.

    Notes
    -----
    1. Fewer than ``min_rows`` rows or ``min_groups`` groups: keep the champion.
    2. Coverage below ``coverage_floor`` where the champion covers more, over all groups or,
       beyond chance, over those of a part: keep.
    3. Too slow, too large, or, beyond chance, more scheduling regret: keep.
    4. No champion: promote.
    5. A part with ``fewest_in_part`` groups loses beyond chance: keep.
    6. The whole interval of the mean gain lies above 0, the challenger is better: promote.
    7. The whole interval lies below 0, it is worse: keep.
    8. The champion is young (has seen less than ``enough_seen``, or much less than the challenger
       will have, in all or on one GPU model), and the challenger's mean error is at most
       ``least_loss`` above its: promote. The challenger is not worse beyond the noise, nor looks
       it, and has seen more.
    9. Else keep.

    "Beyond chance" is at ``confidence`` over all parts together (Bonferroni).

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
    unique, which = np.unique(names, return_inverse=True)
    costs = (evidence.challenger_costs, evidence.champion_costs)
    losses, champion_losses = (np.asarray(each.losses, dtype=np.float64) for each in costs)
    before = evidence.champion_covered
    before = None if before is None else np.asarray(before, dtype=np.float64)
    compared = Verdict(
        promote=False,
        reason="",
        rows=len(challenger),
        groups=len(unique),
        challenger_error=_mean(challenger),
        champion_error=_mean(champion),
        gain=_mean(gains),
        gain_low=low,
        gain_high=high,
        coverage=_mean(group_means(covered, which)),
        champion_coverage=_mean(None if before is None else group_means(before, which)),
        latency_s=evidence.challenger_costs.latency_s,
        size_bytes=evidence.challenger_costs.size_bytes,
        regret=_mean(losses),
        champion_latency_s=evidence.champion_costs.latency_s,
        champion_size_bytes=evidence.champion_costs.size_bytes,
        champion_regret=_mean(champion_losses),
        more_regret_low=_more_regret_low(losses, champion_losses, rules),
    )
    judged = Judged(gains, covered, names, before)
    found = parts_found(evidence.parts, judged, rules.fewest_in_part)
    if found:
        worst = min(found, key=lambda part: 0.0 if isnan(part.gain) else part.gain)
        compared = replace(compared, worst_part=worst.name, worst_gain=worst.gain)
    promote, reason = _decision(compared, found, _is_young(evidence, rules), rules)
    return replace(compared, promote=promote, reason=reason)


def _decision(
    found: Verdict, parts: Sequence[Part], young: str, rules: GateRules
) -> tuple[bool, str]:
    refusal = _unfit(found, rules) or _uncovered(parts, rules) or _dear(found, rules)
    if refusal:
        return False, refusal
    if np.isnan(found.champion_error):
        error = found.challenger_error
        return True, f"the first version: mean error {error:.3f} on {found.rows} rows"
    return _compared(found, parts, young, rules)


def _compared(
    found: Verdict, parts: Sequence[Part], young: str, rules: GateRules
) -> tuple[bool, str]:
    numbers = (
        f"on {found.rows} rows: mean error {found.challenger_error:.3f} against"
        f" {found.champion_error:.3f}, gain in [{found.gain_low:.3f}, {found.gain_high:.3f}]"
    )
    loser = _loser(found, parts, rules)
    if loser:
        return False, loser
    if found.gain_low > 0:
        return True, f"better {numbers}"
    if found.gain_high < 0:
        return False, f"worse {numbers}"
    is_felt = found.challenger_error > (1 + rules.least_loss) * found.champion_error
    if young and not is_felt:
        return True, f"not worse, and {young}, {numbers}"
    return False, f"not better {numbers}"


def _is_young(evidence: Evidence, rules: GateRules) -> str:
    """Return what makes the champion young; empty if nothing does."""
    seen = evidence.champion_seen
    if seen < rules.enough_seen:
        return f"the champion saw only {seen} jobs"
    if seen * rules.much_more <= evidence.challenger_seen:
        return f"the champion saw {seen} jobs of {evidence.challenger_seen}"
    for name, (known, learns) in evidence.part_seen.items():
        if learns >= max(rules.fewest_in_part, rules.much_more_in_part * known):
            return f"the champion saw {known} jobs of {learns} on {name}"
    return ""


def _unfit(found: Verdict, rules: GateRules) -> str | None:
    if found.rows < rules.min_rows:
        return f"only {found.rows} new rows to judge by, wanted {rules.min_rows}"
    if found.groups < rules.min_groups:
        return f"only {found.groups} groups of new rows to judge by, wanted {rules.min_groups}"
    # Where the champion covers even less, keeping it would not help.
    if found.coverage < rules.coverage_floor and not (found.champion_coverage <= found.coverage):
        floor = f"below {rules.coverage_floor:.2f}"
        return f"coverage {found.coverage:.2f} on {found.groups} groups is {floor}"
    return None


def _uncovered(parts: Sequence[Part], rules: GateRules) -> str | None:
    chance = (1 - rules.confidence) / max(len(parts), 1)
    for part in parts:
        if part.coverage_chance(rules.coverage_floor) < chance:
            floor = f"below {rules.coverage_floor:.2f}"
            found = part.coverage.challenger
            return f"coverage {found:.2f} on {part.groups} groups of {part.name} is {floor}"
    return None


def _loser(found: Verdict, parts: Sequence[Part], rules: GateRules) -> str | None:
    chance = (1 - rules.confidence) / max(len(parts), 1)
    for part in parts:
        is_felt = part.gain < -rules.least_loss * found.champion_error
        if is_felt and part.loss_chance < chance:
            return f"worse on {part.groups} groups of {part.name}: mean gain {part.gain:.3f}"
    return None


def _dear(found: Verdict, rules: GateRules) -> str | None:
    """Return why the challenger costs too much, or None; comparisons with NaN are False."""
    slow = max(rules.free_latency_s, rules.most_times * found.champion_latency_s)
    large = max(rules.free_bytes, rules.most_times * found.champion_size_bytes)
    if found.latency_s > slow:
        return f"an answer takes {1e3 * found.latency_s:.1f} ms, wanted at most {1e3 * slow:.1f}"
    if found.size_bytes > large:
        mib = 2**20
        return f"{found.size_bytes / mib:.0f} MiB large, wanted at most {large / mib:.0f}"
    is_told = found.groups >= rules.fewest_for_regret and found.more_regret_low > 0
    if is_told and found.regret > found.champion_regret + rules.most_regret:
        return (
            f"scheduling regret {found.regret:.3f} against {found.champion_regret:.3f},"
            f" wanted at most {rules.most_regret:g} more"
        )
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


def _more_regret_low(losses: Floats, champion_losses: Floats, rules: GateRules) -> float:
    if not len(losses) or not len(champion_losses):
        return NAN
    _refuse_other_length(champion_losses, "the champion's losses", len(losses))
    return _interval(losses - champion_losses, np.arange(len(losses)), rules)[0]


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
    return NAN if values is None or not values.size else float(np.mean(values))
