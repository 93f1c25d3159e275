"""Effects laid out by job: then any pair of many jobs costs one product of two vectors.

``features.effects`` answers a batch of pairs from scratch, comparing all their jobs with all jobs
that were learnt from. A service asks about the same jobs again and again; here that comparison is
done once.
"""

from dataclasses import dataclass

import numpy as np

from features.effect_jobs import EffectJobs, Floats, likeness, same_gpu
from features.effect_kernel import COMPONENTS, EffectRows, pair_physics
from features.effects import Effects, physics_slopes, pull_of_pairs

AT_ONCE = 64  # pairs, so that their rows stay in the cache


@dataclass(frozen=True, slots=True)
class JobEffects:
    """What measured pairs say of m jobs.

    Attributes
    ----------
    jobs : EffectJobs, m of them
    mean : float
        Log slowdown of a pair of which nothing is known.
    slowed, slowing : float64 array of shape (m, d)
        The effects of a pair are the product of the slowed job's row in the one with its
        neighbour's row in the other.
    slope : float64 array of shape (m, 11)
        Of the pair's physics, by the slowed job's GPU model.
    """

    jobs: EffectJobs
    mean: float
    slowed: Floats
    slowing: Floats
    slope: Floats

    def estimates(self, rows: EffectRows) -> Floats:
        """Return the expected log slowdown of each pair, shape (n,).

        Parameters
        ----------
        rows : EffectRows, n pairs
            Among ``jobs``.
        """
        result = np.einsum("nk,nk->n", pair_physics(rows), self.slope[rows.job])
        for at in range(0, len(rows), AT_ONCE):
            part = slice(at, at + AT_ONCE)
            both = self.slowed[rows.job[part]], self.slowing[rows.neighbour[part]]
            result[part] += np.einsum("nd,nd->n", *both)
        return np.asarray(result + self.mean)


def job_effects(learnt: Effects, jobs: EffectJobs) -> JobEffects:
    """Return what `learnt` says of each of `jobs`; equals ``features.effects.effect_estimates``."""
    pull = pull_of_pairs(learnt)
    alike = likeness(jobs, learnt.rows.jobs, learnt.kernel.signal_scale)
    transfer = learnt.kernel.transfer
    on_gpu = transfer + (1 - transfer) * same_gpu(jobs, learnt.rows.jobs)
    reach = {name: (left * on_gpu) @ pull for name, left in learnt.kernel.sides(alike).items()}
    for each, variance in zip(COMPONENTS, learnt.kernel.variances, strict=False):
        if each.both_ways:
            mutual = (alike[each.job] * on_gpu) @ ((pull + pull.T) * variance / 2)
            reach[each.job] = reach.get(each.job, 0.0) + mutual
    parts = [_merged(reach[name], alike[name]) for name in reach]
    slopes = physics_slopes(learnt, np.unique(jobs.gpu_model))
    return JobEffects(
        jobs,
        learnt.mean,
        slowed=np.hstack([slowed for slowed, _ in parts]),
        slowing=np.hstack([slowing for _, slowing in parts]),
        slope=np.array([slopes[name] for name in jobs.gpu_model]).reshape(len(jobs), -1),
    )


def _merged(slowed: Floats, slowing: Floats) -> tuple[Floats, Floats]:
    """Return both sides with equal columns of `slowing` as one, and columns of zeros as none.

    All jobs of a family are alike to the jobs of another; there are few families.
    """
    columns, group = np.unique(slowing, axis=1, return_inverse=True)
    sums = np.zeros((len(slowed), columns.shape[1]))
    np.add.at(sums.T, group.ravel(), slowed.T)
    used = columns.any(axis=0)
    return sums[:, used], columns[:, used]
