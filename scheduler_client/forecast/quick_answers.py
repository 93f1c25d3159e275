"""Well-formed answers read without ado: a cycle may get a hundred thousand of them.

Whatever is not exactly as expected is left to ``data.wire``, which says what is wrong with it.
"""

from math import isfinite
from sys import intern

from data.domain import Estimate, Placement, Source

_SOURCES = {source.value: source for source in Source}
_PLACEMENT_FIELDS = 6
_ESTIMATE_FIELDS = 6


def quick_estimate(item: object) -> Estimate | None:
    """Return the estimate that a JSON object describes, or None where that needs a closer look.

    Examples
    --------
    >>> quick_estimate({"value": 1.0, "lower": "1", "upper": 2.0}) is None
    True
    """
    try:
        value, lower, upper = item["value"], item["lower"], item["upper"]  # type: ignore[index]
        version, in_domain = item["model_version"], item["in_domain"]  # type: ignore[index]
        source = _SOURCES[item["source"]]  # type: ignore[index]
        is_whole = len(item) == _ESTIMATE_FIELDS  # type: ignore[arg-type]
    except (KeyError, TypeError, IndexError):
        return None
    if not (type(value) is float and type(lower) is float and type(upper) is float and is_whole):
        return None
    if type(version) is not str or type(in_domain) is not bool:
        return None
    if not (isfinite(value) and isfinite(lower) and isfinite(upper)):
        return None
    return Estimate(value, lower, upper, intern(version), source, in_domain)


def quick_placement(item: object) -> Placement | None:
    """Return the placement that a JSON object describes, or None as `quick_estimate`."""
    try:
        card_id, fits, cost = item["card_id"], item["fits"], item["cost"]  # type: ignore[index]
        mine = quick_estimate(item["job_slowdown"])  # type: ignore[index]
        memory = quick_estimate(item["memory"])  # type: ignore[index]
        listed = item["neighbour_slowdowns"]  # type: ignore[index]
        is_whole = len(item) == _PLACEMENT_FIELDS  # type: ignore[arg-type]
    except (KeyError, TypeError, IndexError):
        return None
    if type(listed) is not list or type(card_id) is not str or type(fits) is not bool:
        return None
    if type(cost) is not float or not isfinite(cost) or not is_whole:
        return None
    theirs = [found for found in map(quick_estimate, listed) if found is not None]
    if mine is None or memory is None or len(theirs) < len(listed):
        return None
    return Placement(card_id, mine, tuple(theirs), memory, fits, cost)
