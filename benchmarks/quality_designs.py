"""How the interference model was designed: chosen inside of every fold, then asked.

    python -m benchmarks.quality_designs --data FOLDER_OF_LUCID --choose effects --split pair
    python -m benchmarks.quality_designs --data FOLDER_OF_LUCID --choose weight --split family

In each outer fold the training rows alone choose: they are held out part by part in the same way,
and the design with the least squared error of the logarithm there answers for the fold. So no
answer that is scored took part in the choice of its design.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.nested import CHOSEN, preferred
from data.importers import lucid
from features.effect_kernel import INTERACTION, PHYSICS, PRESSURE, SENSITIVITY
from features.effect_tables import effects_from
from features.effects import effect_estimates
from features.pairs import pair_features
from features.profiles import profiles
from pipelines.interference.calibration import KINDS, possible_folds
from pipelines.interference.effects_fit import Sharing
from pipelines.interference.evaluate import OUTER_FOLDS
from pipelines.interference.fit import ForestOptions, InterferenceData, uncalibrated_bundle
from pipelines.interference.training_rows import known_runs, training_data
from pipelines.labelling.audit import audited
from pipelines.labelling.audit_rules import AuditRules
from pipelines.metrics import r2
from pipelines.splits import Fold
from serving.inference.bundle import Bundle
from serving.inference.interference import NEW_FAMILY, slowdown_estimates
from serving.inference.interference_rows import NEW_WEIGHT, effect_rows, with_effects

SEED = 7
INNER_FOLDS = 3
OPTIONS = ForestOptions(trees=60)
LOG = "log"

OF_JOBS = ("sensitivity_job", "sensitivity_family", "pressure_job", "pressure_family")
ADDITIVE = tuple(each.name for each in (*SENSITIVITY, *PRESSURE))
INTERACTING = (*ADDITIVE, PHYSICS, *(each.name for each in INTERACTION))
EFFECTS: Mapping[str, ForestOptions] = {
    "no effects, a forest alone": replace(OPTIONS, scale="identity"),
    "of job and family, additive": replace(OPTIONS, sharing=Sharing(OF_JOBS)),
    "additive": replace(OPTIONS, sharing=Sharing(ADDITIVE)),
    "additive, and physics": replace(OPTIONS, sharing=Sharing((*ADDITIVE, PHYSICS))),
    "additive, physics, interactions": replace(OPTIONS, sharing=Sharing(INTERACTING)),
    "all (shipped)": OPTIONS,
}
SCALES: Mapping[str, ForestOptions] = {
    "profiles alike over 0.3": replace(OPTIONS, sharing=Sharing(signal_scale=0.3)),
    "profiles alike over 0.5 (shipped)": OPTIONS,
}
COLUMNS: Mapping[str, ForestOptions] = {
    "without memory (shipped)": OPTIONS,
    "with memory": replace(OPTIONS, unseen=None),
}
WEIGHTS = {"0": 0.0, f"{NEW_WEIGHT} (shipped)": NEW_WEIGHT, "1": 1.0}

Answers = Callable[[InterferenceData, pd.DataFrame], pd.DataFrame]
"""From what is learnt from and the labels asked about to log slowdowns: as measured (``log``), and
as each design tells them."""


def main() -> None:
    """Print which design each fold chose, and how good each is throughout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--choose", choices=CHOICES, required=True)
    parser.add_argument("--split", choices=KINDS, default=NEW_FAMILY)
    given = parser.parse_args()
    runs = lucid.read(given.data)["profiling_runs"]
    labels = audited(runs).labels.reset_index(drop=True)
    folds = possible_folds(given.split, labels, OUTER_FOLDS[given.split], SEED)
    answers = CHOICES[given.choose]
    found = pd.concat([chosen(runs, labels, fold, given.split, answers) for fold in folds])
    for name in found.columns.drop(LOG):
        score, error = scores(found, name)
        sys.stdout.write(f"{score:.3f} / {error:.4f}  {name}\n")


def chosen(
    runs: pd.DataFrame, labels: pd.DataFrame, fold: Fold, split: str, answers: Answers
) -> pd.DataFrame:
    """Return the answers of one fold by each design, and by the one that its own rows choose."""
    known = training_data(known_runs(runs, labels, split, fold), profiles(runs), AuditRules(), SEED)
    known = replace(known, floor=0.0)
    inner_folds = possible_folds(split, known.labels, INNER_FOLDS, SEED)
    inner = pd.concat(
        [answers(known.of_rows(part.train), known.labels.iloc[part.test]) for part in inner_folds]
    )
    errors = inner.drop(columns=LOG).sub(inner[LOG], axis=0).pow(2).mean()
    best = preferred(fold.name, errors)
    asked = answers(known, labels.iloc[fold.test])
    return asked.assign(**{CHOSEN: asked[best]})


def by_options(
    learnt: InterferenceData, asked: pd.DataFrame, designs: Mapping[str, ForestOptions]
) -> pd.DataFrame:
    """Return answers of the whole model by each of some designs."""
    told = {
        name: np.log(slowdown_estimates(_fitted(learnt, options), asked)["value"].to_numpy())
        for name, options in designs.items()
    }
    return pd.DataFrame({LOG: np.log(asked["slowdown"].to_numpy(np.float64)), **told})


def by_weight(learnt: InterferenceData, asked: pd.DataFrame) -> pd.DataFrame:
    """Return answers for new families by each weight of the effects beside the forest."""
    bundle = _fitted(learnt, OPTIONS)
    effects, missing = effects_from(bundle.tables)
    rows = effect_rows(learnt.profiles, asked, missing)
    effect = effect_estimates(effects, rows)
    inputs = with_effects(pair_features(learnt.profiles, asked), rows, np.full(len(asked), np.nan))
    forest = bundle.predict(inputs[list(bundle.spec.features)].to_numpy(np.float64))
    told = {name: w * effect + (1 - w) * forest for name, w in WEIGHTS.items()}
    return pd.DataFrame({LOG: np.log(asked["slowdown"].to_numpy(np.float64)), **told})


CHOICES: Mapping[str, Answers] = {
    "effects": partial(by_options, designs=EFFECTS),
    "scale": partial(by_options, designs=SCALES),
    "columns": partial(by_options, designs=COLUMNS),
    "weight": by_weight,
}


def scores(found: pd.DataFrame, name: str) -> tuple[float, float]:
    """Return R² and mean absolute error of the slowdowns that a design tells."""
    observed, told = (np.exp(found[each].to_numpy(np.float64)) for each in (LOG, name))
    score = r2(observed, told)
    return float("nan") if score is None else score, float(np.abs(observed - told).mean())


def _fitted(learnt: InterferenceData, options: ForestOptions) -> Bundle:
    return uncalibrated_bundle(learnt, options, SEED)


if __name__ == "__main__":
    main()
