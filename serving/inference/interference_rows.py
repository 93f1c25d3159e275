"""What the interference forest is asked with: profiles, physics, and the effects of both jobs."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.effect_jobs import Stand, effect_jobs
from features.effect_kernel import EffectRows
from features.effect_tables import EFFECT_TABLES, effects_from
from features.effects import effect_estimates
from features.pairs import PAIR_COLUMNS, pair_features, profile_positions
from serving.inference.bundle import Bundle, Floats
from serving.inference.own_effects import OwnEffects

EFFECT_COLUMN = "effect_log_slowdown"
"""Log slowdown that the effects of both jobs alone would give; missing where a family is new."""

KNOWN_COLUMN = "families_known"
REDUCED_COLUMNS = ("reduced_precision_job", "reduced_precision_neighbour")
ADDED_COLUMNS = (*REDUCED_COLUMNS, KNOWN_COLUMN, EFFECT_COLUMN)
MEMORY = "gpu_mem"
"""How much memory a job takes says who it is, not how it suffers: see ``docs/results.md``."""

WEIGHT_TABLE = "forest_weight"
"""Beside the model: how far the forest's corrections of the effects are trusted, in [0, 1]."""

NEW_WEIGHT = 0.5  # of effects and forest each, where nothing was measured of a family


@dataclass(frozen=True, slots=True)
class ForestQuestion:
    """What the forest is asked, and what its answer is part of.

    Attributes
    ----------
    rows : DataFrame of shape (n, n_features)
        ``bundle.spec.features``.
    base : float64 array of shape (n,)
        On the spec's scale.
    weight : float64 array of shape (n,)
        Of the forest's answer, which is added to `base`.
    """

    rows: pd.DataFrame
    base: Floats
    weight: Floats

    def answers(self, bundle: Bundle) -> Floats:
        """Return the whole model's raw answers, on the spec's scale."""
        if not len(self.rows):
            return self.base
        return self.base + self.weight * bundle.predict(self.rows.to_numpy(np.float64))


def forest_question(bundle: Bundle, pairs: pd.DataFrame) -> ForestQuestion:
    """Return the question about `pairs`.

    Parameters
    ----------
    bundle : Bundle
        Of ``colocast-interference``; one without effects is asked for the whole slowdown.
    pairs : DataFrame of shape (n, 3), any index
        ``job_key``, ``neighbour_key`` and ``gpu_model``, all profiled.

    Raises
    ------
    UnknownProfileError
        If a job key has no profile on that GPU model.

    Notes
    -----
    Between learnt families the forest corrects the effects. Beside a new family the effects know
    the profile only, and the forest, asked without them, errs independently: the mean of both is
    better than either. As soon as one pair of that family is measured the effects lead. A pair that
    was itself measured since is answered by that, the more so the oftener it was.
    """
    profiles = bundle.tables["profiles"]
    rows = pair_features(profiles, pairs)
    if not has_effects(bundle):
        return _whole(rows[list(bundle.spec.features)])
    if pairs.empty:
        return _whole(rows.reindex(columns=list(bundle.spec.features)))
    learnt, missing = effects_from(bundle.tables)
    asked = effect_rows(profiles, pairs, missing)
    effect = effect_estimates(learnt, asked)
    is_old = np.isin(asked.jobs.family, learnt.rows.jobs.family)
    known = is_old[asked.job] & is_old[asked.neighbour]
    rows = with_effects(rows, asked, np.where(known, effect, np.nan))
    at = profile_positions(profiles, pairs)
    base, weight = mixed(effect, known, forest_weight(bundle))
    base, weight = OwnEffects.of(bundle).corrected(base, weight, at)
    return ForestQuestion(rows[list(bundle.spec.features)], base, weight)


def mixed(effect: Floats, known: NDArray[np.bool_], trust: float) -> tuple[Floats, Floats]:
    """Return what the forest's answer to each pair is added to, and its weight.

    Parameters
    ----------
    effect : float64 array of shape (n,)
        Log slowdowns by the effects.
    known : bool array of shape (n,)
        Whether both families were learnt from.
    trust : float
        As `forest_weight` gives it.
    """
    base = np.where(known, effect, NEW_WEIGHT * effect)
    return base, np.where(known, trust, 1 - NEW_WEIGHT)


def forest_weight(bundle: Bundle) -> float:
    """Return how far the forest's corrections of the effects are trusted, in [0, 1]."""
    return float(bundle.tables[WEIGHT_TABLE]["weight"].iloc[0])


def forest_columns(unseen: str | None = MEMORY) -> tuple[str, ...]:
    """Return the forest's inputs, without those whose names begin with `unseen`.

    Examples
    --------
    >>> sorted(set(forest_columns(None)) - set(forest_columns()))[:2]
    ['gpu_mem_mib_mean_job', 'gpu_mem_mib_mean_neighbour']
    """
    signals = (name for name in PAIR_COLUMNS if not (unseen and name.startswith(unseen)))
    return (*signals, *ADDED_COLUMNS)


def with_effects(features: pd.DataFrame, pairs: EffectRows, effect: Floats) -> pd.DataFrame:
    """Return what the forest may see: features of pairs, and what their effects say of them.

    Parameters
    ----------
    features : DataFrame of shape (n, 52)
        As `pair_features` gives.
    pairs : EffectRows, the same n pairs
    effect : float64 array of shape (n,)
        Log slowdowns by the effects, NaN where one of the families is new.

    Returns
    -------
    DataFrame of shape (n, 56)
        The forest sees some of these, see `forest_columns`.
    """
    reduced = pairs.jobs.reduced
    added = {
        REDUCED_COLUMNS[0]: reduced[pairs.job],
        REDUCED_COLUMNS[1]: reduced[pairs.neighbour],
        KNOWN_COLUMN: (~np.isnan(effect)).astype(np.float64),
        EFFECT_COLUMN: effect,
    }
    return features.assign(**added)


def _whole(rows: pd.DataFrame) -> ForestQuestion:
    return ForestQuestion(rows, np.zeros(len(rows)), np.ones(len(rows)))


def has_effects(bundle: Bundle) -> bool:
    """Return whether the bundle holds effects of its training jobs."""
    return set(EFFECT_TABLES) <= set(bundle.tables)


def effect_rows(profiles: pd.DataFrame, pairs: pd.DataFrame, missing: Stand) -> EffectRows:
    """Return `pairs` with what effects are shared over, among the jobs that they name.

    Parameters
    ----------
    profiles : DataFrame, ``data.schemas.PROFILES``
    pairs : DataFrame of shape (n, 3)
        All profiled.
    missing : Stand
    """
    at = profile_positions(profiles, pairs)
    positions, sides = np.unique(at, return_inverse=True)
    sides = sides.reshape(at.shape)
    return EffectRows(
        effect_jobs(profiles.iloc[positions], missing), job=sides[:, 0], neighbour=sides[:, 1]
    )
