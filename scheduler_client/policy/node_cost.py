"""DeepShare's node cost: how bad a card is for a job, from profiles alone, without a model."""

from collections.abc import Mapping, Sequence
from math import sqrt

from data.domain import Estimate, Source

UTIL_SIGNALS = ("gpu_util", "sm_active", "sm_occupancy", "fp32_active")
"""What the cost reads, each as ``<name>_mean`` and ``<name>_std`` of an exclusive run."""

Signals = Mapping[str, float]


def gpu_util_cost(used: Sequence[Signals], request: Signals) -> float | None:
    """Return the utilisation part of the cost of adding `request` to a card with `used`.

    Parameters
    ----------
    used : sequence of mapping
        Profile of each resident; none on an empty card.
    request : mapping
        Profile of the job, by ``PROFILE_COLUMNS`` names (ratios).

    Returns
    -------
    float (>= 0), or None where the profiles have no signal in common

    Notes
    -----
    DeepShare: ``sum of a1 * f(mean_used + mean_request) + a2 * (std_used - std_request) ** 2``
    over the four utilisations. The document leaves the weights and f open: every signal that all
    profiles have counts equally, and ``f(u) = u + max(0, u - 1)`` grows twice as fast above the
    card's capacity. Means of residents add, their variances too.

    Examples
    --------
    >>> round(gpu_util_cost([{"gpu_util_mean": 0.5}], {"gpu_util_mean": 0.75}), 3)
    1.5
    """
    names = _common_signals([*used, request])
    if not names:
        return None
    return sum(_signal_cost(name, used, request) for name in names) / len(names)


def node_cost(util_cost: float, used_mib: int, request_mib: int, total_mib: int) -> float:
    """Return DeepShare's cost of one card: half its utilisation part, half its memory part.

    Examples
    --------
    >>> node_cost(0.5, used_mib=1024, request_mib=1024, total_mib=4096)
    0.5
    """
    return 0.5 * util_cost + 0.5 * (used_mib + request_mib) / total_mib


def crowding(used: Sequence[Signals], request: Signals) -> Estimate | None:
    """Return the slowdown of everybody on the card if its busiest unit were shared fairly.

    A unit asked for 1.4 times what it has serves each user 1.4 times slower. The upper bound adds
    one standard deviation to every mean. None where the profiles have no signal in common.

    Examples
    --------
    >>> crowding([{"gpu_util_mean": 0.5}], {"gpu_util_mean": 0.75, "gpu_util_std": 0.25}).value
    1.25
    """
    profiles = [*used, request]
    names = _common_signals(profiles)
    if not names:
        return None
    means = {name: sum(profile[f"{name}_mean"] for profile in profiles) for name in names}
    upper = max(means[name] + _joint_std(name, profiles) for name in names)
    value = max(1.0, *means.values())
    return Estimate(value, 1.0, max(value, upper), "none", Source.HEURISTIC, in_domain=False)


def _common_signals(profiles: Sequence[Signals]) -> list[str]:
    return [n for n in UTIL_SIGNALS if all(f"{n}_mean" in profile for profile in profiles)]


def _signal_cost(name: str, used: Sequence[Signals], request: Signals) -> float:
    total = sum(profile[f"{name}_mean"] for profile in [*used, request])
    uneven = _joint_std(name, used) - _joint_std(name, [request])
    return total + max(0.0, total - 1) + uneven**2


def _joint_std(name: str, profiles: Sequence[Signals]) -> float:
    return sqrt(sum(profile.get(f"{name}_std", 0.0) ** 2 for profile in profiles))
