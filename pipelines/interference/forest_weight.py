"""How far the forest's corrections of the effects can be trusted, measured on held-out pairs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor

from features.effect_jobs import Floats
from features.effect_tables import effects_from
from features.effects import effect_estimates
from features.pairs import pair_features
from pipelines.labelling.label_effects import LabelEffects, label_effects, unordered
from serving.inference.interference_rows import with_effects

FOLDS = 3


@dataclass(frozen=True, slots=True)
class Trial:
    """What is learnt from, to be held out in parts.

    Attributes
    ----------
    labels : DataFrame, ``data.schemas.LABELS``
    profiles : DataFrame, ``data.schemas.PROFILES``
    found : LabelEffects
        Of the same labels.
    columns : sequence of str
        What the forest sees.
    """

    labels: pd.DataFrame
    profiles: pd.DataFrame
    found: LabelEffects
    columns: Sequence[str]

    def corrections(
        self, held: NDArray[np.bool_], forest: RandomForestRegressor, seed: int
    ) -> Floats:
        """Return what `forest` corrects on held-out rows, and what it should have, shape (2, n)."""
        rest = self.labels.loc[~held]
        kernel = effects_from(self.found.tables)[0].kernel
        learnt = label_effects(rest, self.profiles, seed, kernel)
        features = pair_features(self.profiles, self.labels)
        rows = with_effects(features.loc[~held], learnt.pairs, learnt.left_out)
        forest.fit(rows[list(self.columns)], np.log(rest["slowdown"]) - learnt.left_out)
        asked = self.found.pairs.at(np.flatnonzero(held))
        base = effect_estimates(effects_from(learnt.tables)[0], asked)
        left = np.log(self.labels.loc[held, "slowdown"].to_numpy(np.float64)) - base
        inputs = with_effects(features.loc[held], asked, base)
        return np.stack([forest.predict(inputs[list(self.columns)]), left])


def forest_weights(trial: Trial, forest: RandomForestRegressor, seed: int) -> pd.DataFrame:
    """Return the weight of corrections by which held-out pairs come out best.

    Parameters
    ----------
    trial : Trial
    forest : RandomForestRegressor
        A clone of it is fitted in every fold; the given one stays as it is.
    seed : int

    Returns
    -------
    DataFrame of shape (1, 1)
        ``weight`` in [0, 1]; 0 where there are too few pairs to hold some out.

    Notes
    -----
    Least squares on predictions of held-out rows: Wolpert, "Stacked generalization", Neural
    Networks 1992. Effects and forest are both learnt without the held-out pairs. What the forest
    of the whole says of rows that some of its trees have not seen would not do: the effects of
    all rows already hold those rows' slowdowns.
    """
    pair = unordered(trial.labels)
    turn = np.random.default_rng(seed).permutation(pair.max() + 1)[pair] % FOLDS
    parts = [
        trial.corrections(turn == at, clone(forest), seed)
        for at in range(FOLDS)
        if 0 < (turn == at).sum() < len(turn)
    ]
    correction, left = np.concatenate(parts, axis=1) if parts else np.zeros((2, 0))
    size = float(correction @ correction)
    weight = float(correction @ left) / size if size > 0 else 0.0
    return pd.DataFrame({"weight": [min(max(weight, 0.0), 1.0)]})
