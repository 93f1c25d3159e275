"""Fit the interference forest on what the effects of jobs on each other leave over."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor

from features.effect_kernel import EffectKernel
from features.effect_tables import effects_from
from features.pairs import pair_features
from pipelines.interference.cold_start import cold_start_table
from pipelines.interference.effects_fit import SHARING, Sharing
from pipelines.interference.forest_weight import Trial, forest_weights
from pipelines.labelling.label_effects import LabelEffects, label_effects
from pipelines.registering.model_spec import filled_spec
from pipelines.splits import Positions
from serving.forest.compiled import compiled
from serving.inference.bundle import Bundle, Floats, Scale
from serving.inference.interference import (
    COLD_START_TABLE,
    PROFILES_TABLE,
    SEEN_FAMILIES_TABLE,
    SEEN_TABLE,
)
from serving.inference.interference_rows import (
    MEMORY,
    WEIGHT_TABLE,
    forest_columns,
    has_effects,
    with_effects,
)

NAME = "colocast-interference"
SEEN = ["job_key", "family", "gpu_model"]


@dataclass(frozen=True, slots=True)
class ForestOptions:
    """How the forest is grown and calibrated.

    Attributes
    ----------
    trees, min_samples_leaf : int
    max_features : float
        Share of the features that a split may choose from.
    scale : {"identity", "log"}
        What is learnt: the slowdown or its logarithm. Effects of jobs are learnt on the latter
        only; the forest then corrects them.
    folds : int
        Of the calibration, for each kind of novelty.
    sharing : Sharing
        Of effects.
    unseen : str, optional
        Beside effects the forest does not see what begins so.
    """

    trees: int = 150
    min_samples_leaf: int = 5
    max_features: float = 0.4
    scale: Scale = "log"
    folds: int = 5
    sharing: Sharing = SHARING
    unseen: str | None = MEMORY


@dataclass(frozen=True, slots=True)
class InterferenceData:
    """What is learnt from.

    Attributes
    ----------
    labels : DataFrame, ``data.schemas.LABELS``
    profiles : DataFrame, ``data.schemas.PROFILES``
        Of every job key in `labels`, and of any others.
    floor : float
        Lowest slowdown that the noise explains; a lower one that is learnt from lowers it.
    """

    labels: pd.DataFrame
    profiles: pd.DataFrame
    floor: float

    def of_rows(self, positions: Positions) -> "InterferenceData":
        """Return the same with some of the labels only."""
        return replace(self, labels=self.labels.iloc[positions])


def uncalibrated_bundle(
    data: InterferenceData,
    options: ForestOptions,
    seed: int,
    like: Bundle | None = None,
) -> Bundle:
    """Return the fitted forest with its tables; intervals are empty.

    Parameters
    ----------
    data : InterferenceData
    options : ForestOptions
    seed : int
    like : Bundle, optional
        One from more rows, which says how effects are shared and how far the forest's
        corrections are trusted; both are learnt otherwise.

    Raises
    ------
    UnknownProfileError
        If a labelled job has no profile.

    Notes
    -----
    The forest learns each label twice. With the effects, it learns what they leave over where
    each pair is predicted from all other pairs, as new pairs will be: Wolpert, "Stacked
    generalization", Neural Networks 1992. Without them, it learns the whole. How far its
    corrections can be trusted is measured on held-out pairs: without any signal in the profiles
    they are little but noise.
    """
    labels = data.labels
    found = _effects(data, options, seed, bundle_kernel(like) if like else None)
    rows, target = _lessons(data, options, found)
    forest = _forest(options, seed).fit(rows, target)
    predict = compiled(forest)
    floor = min(data.floor, float(labels["slowdown"].min()))
    spec = filled_spec(NAME, rows, predict, floor=floor, scale=options.scale)
    tables = {
        PROFILES_TABLE: data.profiles.reset_index(drop=True),
        SEEN_TABLE: _seen(labels),
        SEEN_FAMILIES_TABLE: _seen_families(labels),
        COLD_START_TABLE: cold_start_table(labels),
        **(found.tables if found else {}),
    }
    if found:
        known = like.tables.get(WEIGHT_TABLE) if like else None
        quick = _forest(replace(options, trees=max(1, options.trees // 3)), seed)
        trial = Trial(labels, data.profiles, found, forest_columns(options.unseen))
        tables[WEIGHT_TABLE] = forest_weights(trial, quick, seed) if known is None else known
    return Bundle(spec, f"{NAME}/unregistered", predict, forest, tables)


def _lessons(
    data: InterferenceData, options: ForestOptions, found: LabelEffects | None
) -> tuple[pd.DataFrame, Floats]:
    """Return the forest's training rows and targets."""
    features = pair_features(data.profiles, data.labels)
    slowdown = data.labels["slowdown"].to_numpy(np.float64)
    target = np.log(slowdown) if options.scale == "log" else slowdown
    if found is None:
        return features, target
    corrected = with_effects(features, found.pairs, found.left_out)
    unknown = with_effects(features, found.pairs, np.full(len(target), np.nan))
    rows = pd.concat([corrected, unknown], ignore_index=True)[list(forest_columns(options.unseen))]
    return rows, np.concatenate([target - found.left_out, target])


def _forest(options: ForestOptions, seed: int) -> RandomForestRegressor:
    return RandomForestRegressor(
        options.trees,
        min_samples_leaf=options.min_samples_leaf,
        max_features=options.max_features,
        random_state=seed,
    )


def _effects(
    data: InterferenceData, options: ForestOptions, seed: int, kernel: EffectKernel | None
) -> LabelEffects | None:
    if options.scale != "log":
        return None
    return label_effects(data.labels, data.profiles, seed, kernel, options.sharing)


def bundle_kernel(bundle: Bundle) -> EffectKernel | None:
    """Return how the bundle shares effects, None where it has none."""
    return effects_from(bundle.tables)[0].kernel if has_effects(bundle) else None


def _seen(labels: pd.DataFrame) -> pd.DataFrame:
    sides = [
        labels[SEEN],
        labels[["neighbour_key", "neighbour_family", "gpu_model"]].set_axis(SEEN, axis=1),
    ]
    return pd.concat(sides).drop_duplicates(ignore_index=True)


def _seen_families(labels: pd.DataFrame) -> pd.DataFrame:
    sides = ["family", "neighbour_family"]
    reverse = labels[sides[::-1]].set_axis(sides, axis=1)
    return pd.concat([labels[sides], reverse]).drop_duplicates(ignore_index=True)
