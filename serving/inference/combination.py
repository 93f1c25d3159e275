"""What several neighbours on one card do together, from what each pair does alone."""

from collections.abc import Sequence

from data.domain import Estimate, Source

ALONE = Estimate(1.0, 1.0, 1.0, "none", Source.EXCLUSIVE)
"""The slowdown of a job that shares its card with nobody."""

NEUTRAL = Estimate(1.5, 1.0, 3.0, "none", Source.COLD_START, in_domain=False)
"""A pair of which nothing is known: between no interference and half as much again as an equal
share of the card would give; no job with a tolerance packs on it."""

_RELIABLE_FIRST = (
    Source.EXCLUSIVE,
    Source.MODEL,
    Source.USER_MODEL,
    Source.CLUSTER_MODEL,
    Source.HEURISTIC,
    Source.COLD_START,
)


def combined(slowdowns: Sequence[Estimate]) -> Estimate:
    """Return the slowdown of one job beside several neighbours.

    Parameters
    ----------
    slowdowns : sequence of Estimate
        Beside each neighbour alone; empty for a job that is alone.

    Returns
    -------
    Estimate
        The excess over 1 of every pair, added up, for the value and for both bounds. The source
        is the least reliable of all, and `in_domain` holds only if it holds for all.

    Notes
    -----
    Pairs are what was measured; of triples there is no data in any public set. Adding the excess
    lies between the largest pair (too hopeful) and the product of all (right only if each
    neighbour slowed the others' slowness too). Its bounds add as if all errors went the same way.

    Examples
    --------
    >>> pair = Estimate(1.2, 1.1, 1.4, "colocast-interference/1", Source.MODEL)
    >>> round(combined([pair, pair]).value, 3), combined([])  # doctest: +ELLIPSIS
    (1.4, Estimate(value=1.0, ...))
    """
    if not slowdowns:
        return ALONE
    if len(slowdowns) == 1:
        return slowdowns[0]
    versions = sorted({each.model_version for each in slowdowns} - {"none"})
    return Estimate(
        value=_added([each.value for each in slowdowns]),
        lower=_added([each.lower for each in slowdowns]),
        upper=_added([each.upper for each in slowdowns]),
        model_version=versions[0] if versions else "none",
        source=max((each.source for each in slowdowns), key=_RELIABLE_FIRST.index),
        in_domain=all(each.in_domain for each in slowdowns),
    )


def _added(slowdowns: Sequence[float]) -> float:
    return 1.0 + sum(slowdown - 1.0 for slowdown in slowdowns)
