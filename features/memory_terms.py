"""What peak GPU memory adds up from: sizes of a model, told apart by framework and family."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.structure import structure_features

TERMS = (
    "context",
    "single_gpu",
    "gpus_log2",
    "embedding_mib",
    "embedding_mib_per_gpu",
    "embedding_mib_single_gpu",
    "dense_mib",
    "optimizer_mib",
    "activations_mib",
    "largest_activation_mib",
    "batch_size",
    "batch_per_gpu",
    "batch_depth",
    "depth",
    "lookup_mib",
    "lookup_mib_per_gpu",
)
"""Each a size or a product of two: batch x activations, rows x width, batch x depth."""

EXACT, KIND, FRAMEWORK, ANY = "exact", "kind", "framework", "any"
LEVELS = {EXACT: (ANY, KIND, EXACT), KIND: (ANY, KIND), FRAMEWORK: (ANY, FRAMEWORK), ANY: (ANY,)}
"""By how near the nearest learnt kin is: the groups whose coefficients add up."""

KINSHIPS = tuple(LEVELS)
FEWEST_ROWS = 5  # for coefficients of its own
MOST_GROUPS = 20  # of a level: the time to fit grows with their square
_MARK = "|"
_THOUSAND = 1000.0

Floats = NDArray[np.float64]


def kin(structures: pd.DataFrame) -> pd.DataFrame:
    """Return the groups that each model belongs to, from near to far.

    Parameters
    ----------
    structures : DataFrame of shape (n, >= 2), any index
        ``framework``, such as ``HugeCTR/3.2``, and ``family``; spelling and signs do not count.

    Returns
    -------
    DataFrame of shape (n, 4), indexed as `structures`
        ``exact`` (framework, version and family), ``kind`` (framework and family), ``framework``
        and ``any``, all str.

    Examples
    --------
    >>> found = kin(pd.DataFrame({"framework": ["HugeCTR/3.2"], "family": ["Wide & Deep"]}))
    >>> found.iloc[0].tolist()
    ['hugectr/3.2 widedeep', 'hugectr widedeep', 'hugectr', 'any']
    """
    version = structures["framework"].astype("str").str.lower()
    family = structures["family"].astype("str").str.lower().str.replace(r"\W|_", "", regex=True)
    framework = version.str.split("/").str[0]
    groups = {
        EXACT: version + " " + family,
        KIND: framework + " " + family,
        FRAMEWORK: framework,
        ANY: pd.Series(ANY, index=structures.index, dtype="str"),
    }
    return pd.DataFrame(groups, index=structures.index)


def learnt_columns(
    structures: pd.DataFrame, kinships: Sequence[str] = KINSHIPS, terms: Sequence[str] = TERMS
) -> tuple[str, ...]:
    """Return the columns that a model learns from these rows: ``kinship|group|term``.

    A group needs five rows to be told apart, and the twenty largest of each level are.

    Parameters
    ----------
    structures : DataFrame of shape (n, >= 2), any index
        ``framework`` and ``family``.
    kinships : sequence of str
        Of ``KINSHIPS``, ``any`` among them: how near kin are told apart from others.
    terms : sequence of str
        Of ``TERMS``.

    Examples
    --------
    >>> rows = pd.DataFrame({"framework": ["a/1"] * 5 + ["b"], "family": ["mlp"] * 6})
    >>> columns = learnt_columns(rows)
    >>> len(columns) == len(TERMS) * (3 + 2 + 2 + 1), columns[len(TERMS)]
    (True, 'exact|a mlp|context')
    """
    groups = kin(structures)
    places = dict.fromkeys(  # without a version a framework's exact kin is its kind
        (kinship, group)
        for kinship in kinships
        for level in LEVELS[kinship]
        for group in ([ANY] if level == ANY else _told_apart(groups[level]))
    )
    return tuple(_MARK.join((*place, term)) for place in places for term in terms)


def _told_apart(groups: pd.Series) -> list[str]:
    sizes = groups.value_counts()
    large = sizes[sizes >= FEWEST_ROWS].sort_index().sort_values(ascending=False, kind="stable")
    return sorted(str(name) for name in large.index[:MOST_GROUPS])


def memory_features(
    structures: pd.DataFrame, columns: Sequence[str], kinship: pd.Series | None = None
) -> pd.DataFrame:
    """Describe each model by the terms of the groups it belongs to.

    Parameters
    ----------
    structures : DataFrame of shape (n, >= 13), any index
        As ``features.structure.structures_frame`` gives, or ``data.schemas.MEMORY_RUNS``.
    columns : sequence of str
        As `learnt_columns` gives; a name without ``|`` is a column of `structure_features`.
    kinship : Series of str, indexed as `structures`, optional
        Which of ``KINSHIPS`` to describe each row as; by default as `nearest_kinship`.

    Returns
    -------
    DataFrame of shape (n, n_columns), indexed as `structures`
        float64: MiB for sizes, thousands for batches. NaN where a row is not of the column's
        group, and where the structure does not say.

    Notes
    -----
    Memory is weights, gradients and optimizer states, activations that grow with the batch, and
    what the framework keeps for itself: Gao et al., "Estimating GPU Memory Consumption of Deep
    Learning Models" (DNNMem), FSE 2020. A framework decides how much of each: it shards a table
    or does not. One block of columns a kinship, so that what is known of a model's exact kind
    never bends the answer for a kind that was never seen.

    Examples
    --------
    >>> from data.domain import ModelStructure
    >>> from features.structure import structures_frame
    >>> rows = structures_frame([ModelStructure("mlp", 8, framework="a", dense_parameters=2**18)])
    >>> found = memory_features(rows, ["exact|a mlp|dense_mib", "any|any|dense_mib", "batch_size"])
    >>> found.to_numpy().tolist()
    [[1.0, nan, 8.0]]
    """
    plan = _plan(tuple(columns))
    described = structure_features(structures)
    values = np.full((len(structures), len(columns)), np.nan)
    values[:, plan.plain] = described[[columns[at] for at in plan.plain]].to_numpy(np.float64)
    if plan.places:
        near = nearest_kinship(structures, columns) if kinship is None else kinship
        _fill(values, _terms(described), kin(structures), near.to_numpy(dtype=str), plan)
    return pd.DataFrame(values, index=structures.index, columns=list(columns))


def nearest_kinship(structures: pd.DataFrame, columns: Sequence[str]) -> pd.Series:
    """Return how near the nearest kin is that `columns` know: one of ``KINSHIPS``.

    Columns without groups know everything exactly.
    """
    plan, groups = _plan(tuple(columns)), kin(structures)
    found = pd.Series(ANY if plan.places else EXACT, index=structures.index, dtype="str")
    for kinship in (FRAMEWORK, KIND, EXACT):
        known = [group for block, group in plan.places if block == kinship and group != ANY]
        found = found.mask(groups[kinship].isin(known), kinship)
    return found


def term_of(column: str) -> str:
    """Return the term of a column.

    Examples
    --------
    >>> term_of("exact|a mlp|dense_mib"), term_of("batch_size")
    ('dense_mib', 'batch_size')
    """
    return column.rsplit(_MARK, 1)[-1]


def group_of(column: str) -> str:
    """Return the group of a column; empty for one without.

    Examples
    --------
    >>> group_of("exact|a mlp|dense_mib"), group_of("batch_size")
    ('a mlp', '')
    """
    parts = column.split(_MARK)
    return parts[1] if len(parts) == 3 else ""


@dataclass(frozen=True)
class _Plan:
    """Where columns go: plain ones by position, others by kinship and group."""

    plain: list[int]
    places: dict[tuple[str, str], tuple[list[int], list[int]]]


@lru_cache(maxsize=64)
def _plan(columns: tuple[str, ...]) -> _Plan:
    plain: list[int] = []
    places: dict[tuple[str, str], tuple[list[int], list[int]]] = {}
    for at, name in enumerate(columns):
        parts = name.split(_MARK)
        if len(parts) != 3:
            plain.append(at)
            continue
        targets, sources = places.setdefault((parts[0], parts[1]), ([], []))
        targets.append(at)
        sources.append(TERMS.index(parts[2]))
    return _Plan(plain, places)


def _fill(
    values: Floats, terms: Floats, groups: pd.DataFrame, near: NDArray[np.str_], plan: _Plan
) -> None:
    for kinship, levels in LEVELS.items():
        rows = np.flatnonzero(near == kinship)
        for level in levels if len(rows) else ():
            names = groups[level].to_numpy(dtype=str)[rows]
            for name in np.unique(names):
                targets, sources = plan.places.get((kinship, name), ([], []))
                own = rows[names == name]
                values[np.ix_(own, targets)] = terms[np.ix_(own, sources)]


def _terms(described: pd.DataFrame) -> Floats:
    n: dict[str, Floats] = {
        name: described[name].to_numpy(np.float64) for name in described.columns
    }
    single = np.where(n["gpus"] == 1, 1.0, 0.0)
    n |= {
        "context": np.ones(len(described)),
        "single_gpu": single,
        # A single GPU holds the whole table; of many, the first may hold less than its part.
        "embedding_mib_single_gpu": n["embedding_mib"] * single,
        "batch_size": n["batch_size"] / _THOUSAND,
        "batch_per_gpu": n["batch_per_gpu"] / _THOUSAND,
        "batch_depth": n["batch_depth"] / _THOUSAND,
    }
    return np.column_stack([n[name] for name in TERMS])


def blocks(columns: Iterable[str]) -> dict[str, list[int]]:
    """Return the positions of the columns of each kinship."""
    found: dict[str, list[int]] = {kinship: [] for kinship in KINSHIPS}
    for at, name in enumerate(columns):
        found[name.split(_MARK)[0]].append(at)
    return found
