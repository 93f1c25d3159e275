"""How much the log slowdowns of two pairs have in common: a sum of products of likenesses.

Each component is an effect that pairs share: the slowed job's sensitivity, the neighbour's
pressure, their interaction, or the physics of the pair. A product kernel is an effect of one
job for each state of the other.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.effect_jobs import SIGNAL_SCALE, EffectJobs, Floats, likeness, same_gpu

Positions = NDArray[np.intp]
DRAM_ROOM = 0.6  # of device memory's time; two jobs that want more begin to wait


@dataclass(frozen=True, slots=True)
class Component:
    """One effect: likeness of the slowed jobs times likeness of the neighbours.

    Attributes
    ----------
    name : str
    job, neighbour : str
        Keys of ``likeness``.
    both_ways : bool
        Whether a pair also counts as its own reverse.
    """

    name: str
    job: str
    neighbour: str
    both_ways: bool = False


SENSITIVITY = tuple(
    Component(f"sensitivity_{each}", each, "any")
    for each in ("job", "family", "family_precision", "family_batch", "signals", "precision")
)
PRESSURE = tuple(
    Component(f"pressure_{each}", "any", each) for each in ("job", "family", "signals", "precision")
)
INTERACTION = tuple(
    Component(f"{job}_by_{neighbour}", job, neighbour)
    for job, neighbour in (
        ("signals", "signals"),
        ("job", "job"),
        ("job", "family"),
        ("family", "job"),
        ("job", "signals"),
        ("signals", "job"),
        ("family_signals", "signals"),
        ("signals", "family_signals"),
        ("family", "family"),
        ("family_precision", "family_precision"),
        ("family_signals", "family_signals"),
    )
)
MUTUAL = tuple(
    Component(f"mutual_{each}", each, each, both_ways=True) for each in ("family", "family_signals")
)
COMPONENTS = (*SENSITIVITY, *PRESSURE, *INTERACTION, *MUTUAL)
PHYSICS = "physics"
COMPONENT_NAMES = (*(each.name for each in COMPONENTS), PHYSICS)


@dataclass(frozen=True, slots=True)
class EffectRows:
    """Ordered pairs of jobs; n of them.

    Attributes
    ----------
    jobs : EffectJobs
    job, neighbour : intp array of shape (n,)
        Positions in `jobs` of the slowed job and of its neighbour, on the same GPU model.
    """

    jobs: EffectJobs
    job: Positions
    neighbour: Positions

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.job)

    def at(self, positions: Positions) -> "EffectRows":
        """Return some of the pairs, among the same jobs."""
        return EffectRows(self.jobs, self.job[positions], self.neighbour[positions])

    def followed_by(self, other: "EffectRows") -> "EffectRows":
        """Return these pairs and then those of `other`."""
        first = len(self.jobs)
        return EffectRows(
            self.jobs.followed_by(other.jobs),
            np.concatenate([self.job, other.job + first]),
            np.concatenate([self.neighbour, other.neighbour + first]),
        )


@dataclass(frozen=True, slots=True)
class EffectKernel:
    """The covariance of log slowdowns.

    Attributes
    ----------
    variances : float64 array of shape (len(COMPONENT_NAMES),)
        Of each component.
    transfer : float
        Correlation of the same effect on two GPU models, in [0, 1].
    noise, idle_noise : float
        Variance of one measurement, and what it grows by when the slowed job alone leaves its
        device wholly idle: such a job waits for the host, which the profile does not show.
    signal_scale : float, > 0
        As in `likeness`.
    """

    variances: Floats
    transfer: float
    noise: float
    idle_noise: float
    signal_scale: float = SIGNAL_SCALE

    def covariance(self, left: EffectRows, right: EffectRows) -> Floats:
        """Return the covariance of noise-free log slowdowns, shape (n_left, n_right)."""
        alike = likeness(left.jobs, right.jobs, self.signal_scale)
        jobs, neighbours = np.ix_(left.job, right.job), np.ix_(left.neighbour, right.neighbour)
        total = self.variances[-1] * (pair_physics(left) @ pair_physics(right).T)
        for name, side in self.sides(alike).items():
            total += side[jobs] * alike[name][neighbours]
        for each, variance in zip(COMPONENTS, self.variances, strict=False):
            if each.both_ways:
                total += variance * _both_ways(alike[each.job], left, right)
        return np.asarray(total * gpu_correlation(left, right, self.transfer))

    def sides(self, alike: Mapping[str, Floats]) -> dict[str, Floats]:
        """Return, for each likeness of neighbours, the weighted sum of the likenesses of jobs.

        Parameters
        ----------
        alike : mapping of str to float64 array of shape (m_left, m_right)
            As `likeness` gives.

        Returns
        -------
        dict of str to float64 array of shape (m_left, m_right)
            Without the components that count both ways, and without the physics.
        """
        sides: dict[str, Floats] = {}
        nothing = np.zeros_like(alike["any"])
        for each, variance in zip(COMPONENTS, self.variances, strict=False):
            if not each.both_ways:
                so_far = sides.get(each.neighbour, nothing)
                sides[each.neighbour] = so_far + variance * alike[each.job]
        return sides

    def noise_variance(self, rows: EffectRows) -> Floats:
        """Return the variance of one measurement of each pair, shape (n,)."""
        idle = 1 - rows.jobs.busy[rows.job]
        return self.noise + self.idle_noise * idle**2


def parts(left: EffectRows, right: EffectRows, signal_scale: float) -> Iterator[Floats]:
    """Yield each component with variance 1, in the order of ``COMPONENT_NAMES``."""
    alike = likeness(left.jobs, right.jobs, signal_scale)
    jobs, neighbours = np.ix_(left.job, right.job), np.ix_(left.neighbour, right.neighbour)
    for each in COMPONENTS:
        if each.both_ways:
            yield _both_ways(alike[each.job], left, right)
        else:
            yield alike[each.job][jobs] * alike[each.neighbour][neighbours]
    yield pair_physics(left) @ pair_physics(right).T


def _both_ways(alike: Floats, left: EffectRows, right: EffectRows) -> Floats:
    straight = alike[np.ix_(left.job, right.job)] * alike[np.ix_(left.neighbour, right.neighbour)]
    across = alike[np.ix_(left.job, right.neighbour)] * alike[np.ix_(left.neighbour, right.job)]
    return np.asarray((straight + across) / 2)


def gpu_correlation(left: EffectRows, right: EffectRows, transfer: float) -> Floats:
    """Return 1 for two pairs on the same GPU model, else `transfer`; shape (n_left, n_right)."""
    same = same_gpu(left.jobs, right.jobs)[np.ix_(left.job, right.job)]
    return transfer + (1 - transfer) * same


def pair_physics(rows: EffectRows) -> Floats:
    """Return what of the pair's joint demand the log slowdown may be linear in, shape (n, 11).

    Notes
    -----
    Demand above capacity, and products of demands: a unit that is busy a share u of the time
    meets another's request with probability u.
    """
    jobs, i, j = rows.jobs, rows.job, rows.neighbour
    busy, dram, reduced = jobs.busy, jobs.dram, jobs.reduced
    return np.column_stack(
        [
            np.maximum(busy[i] + busy[j] - 1, 0),
            np.maximum(dram[i] + dram[j] - DRAM_ROOM, 0),
            busy[i] * busy[j],
            dram[i] * dram[j],
            busy[i] * dram[j],
            busy[i] - 0.5,
            busy[j] - 0.5,
            dram[i] - 0.3,
            dram[j] - 0.3,
            reduced[i] - 0.5,
            reduced[j] - 0.5,
        ]
    )
