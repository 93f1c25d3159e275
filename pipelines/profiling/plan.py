"""Which measurements a profiling session makes, and in which order."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

from data.errors import ProfilerError
from pipelines.profiling.workloads import Workload

FEWEST_REPEATS = 3  # a median and a spread of the baseline need as many


@dataclass(frozen=True, slots=True)
class Measurement:
    """One thing to measure: a job alone, or two side by side.

    Attributes
    ----------
    job_key, neighbour_key : str
        The two of a pair, in the order of the workloads; no neighbour: exclusive.
    repeat : int
        Counted from 0.
    """

    job_key: str
    neighbour_key: str | None
    repeat: int

    @property
    def key(self) -> str:
        """Its name in the journal.

        Examples
        --------
        >>> Measurement("sort", None, 2).key, Measurement("sort", "zip", 0).key
        ('sort#2', 'sort+zip#0')
        """
        pair = (
            self.job_key if self.neighbour_key is None else f"{self.job_key}+{self.neighbour_key}"
        )
        return f"{pair}#{self.repeat}"

    @property
    def job_keys(self) -> tuple[str, ...]:
        """The jobs that run in it, one or two."""
        return (self.job_key,) if self.neighbour_key is None else (self.job_key, self.neighbour_key)


@dataclass(frozen=True, slots=True)
class Plan:
    """How much to measure.

    Attributes
    ----------
    repeats : int
        Exclusive runs of each job (>= 3).
    pairs : int, optional
        How many of the unordered pairs; all by default, the self-pairs among them.
    pair_repeats : int
        Measurements of each pair (>= 1).
    seed : int
        Of the order, and of the choice of pairs.
    chosen : tuple of pairs of names, optional
        Exactly these pairs instead of some drawn by the seed.
    """

    repeats: int = FEWEST_REPEATS
    pairs: int | None = None
    pair_repeats: int = 1
    seed: int = 0
    chosen: tuple[tuple[str, str], ...] | None = None


def measurements(workloads: Sequence[Workload], plan: Plan) -> tuple[Measurement, ...]:
    """Return what to measure, in a seeded random order.

    The first exclusive run of each job comes before everything else: a command that fails alone
    need not be tried in pairs. All other runs are mixed, so that a machine that grows slower
    during the session does so for baselines and pairs alike. A larger plan with the same seed
    holds every measurement of a smaller one.

    Raises
    ------
    ProfilerError
        If there are fewer repeats than needed, or a negative number of pairs.

    Examples
    --------
    >>> jobs = [Workload("sort", "sort", ("sort",)), Workload("zip", "zip", ("zip",))]
    >>> plan = measurements(jobs, Plan(repeats=3))
    >>> sorted(one.key for one in plan if one.neighbour_key)
    ['sort+sort#0', 'sort+zip#0', 'zip+zip#0']
    >>> sum(one.neighbour_key is None for one in plan)
    6
    """
    _check(plan)
    order = random.Random(plan.seed)  # noqa: S311 - a reproducible order, not a secret
    names = [workload.name for workload in workloads]
    pairs = _chosen_pairs([workload.name for workload in workloads if workload.paired], plan, order)
    first = [Measurement(name, None, 0) for name in names]
    rest = [Measurement(name, None, repeat) for name in names for repeat in range(1, plan.repeats)]
    rest += [Measurement(*pair, repeat) for pair in pairs for repeat in range(plan.pair_repeats)]
    order.shuffle(first)
    order.shuffle(rest)
    return (*first, *rest)


def _chosen_pairs(names: Sequence[str], plan: Plan, order: random.Random) -> list[tuple[str, str]]:
    pairs = list(combinations_with_replacement(names, 2))
    if plan.chosen is not None:
        wanted = {frozenset(pair) for pair in plan.chosen}
        return [pair for pair in pairs if frozenset(pair) in wanted]
    order.shuffle(pairs)
    return pairs[: plan.pairs]


def _check(plan: Plan) -> None:
    if plan.repeats < FEWEST_REPEATS:
        raise ProfilerError(f"repeats must be at least {FEWEST_REPEATS}, got {plan.repeats}")
    if plan.pair_repeats < 1:
        raise ProfilerError(f"pair_repeats must be at least 1, got {plan.pair_repeats}")
    if plan.pairs is not None and plan.pairs < 0:
        raise ProfilerError(f"the number of pairs must be at least 0, got {plan.pairs}")
