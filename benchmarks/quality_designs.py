"""How effects and forest are joined for a new family: chosen inside of every fold, then asked.

    python -m benchmarks.quality_designs --data FOLDER_OF_LUCID

For each family of Lucid the other families alone choose the weight of the effects beside the
forest: each third of them is held out in turn, and the weight with the least squared error there
answers for the family. So no answer that is scored took part in the choice of its design.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.importers import lucid
from features.effect_tables import effects_from
from features.effects import effect_estimates
from features.pairs import pair_features
from features.profiles import profiles
from pipelines.interference.fit import ForestOptions, InterferenceData, uncalibrated_bundle
from pipelines.labelling.audit import audited
from pipelines.metrics import r2
from pipelines.splits import Fold, family_folds
from serving.inference.interference_rows import NEW_WEIGHT, effect_rows, with_effects

SEED = 7
WEIGHTS = (0.0, NEW_WEIGHT, 1.0)
INNER_FOLDS, OUTER_FOLDS = 3, 20
OPTIONS = ForestOptions(trees=60)

Floats = NDArray[np.float64]


def main() -> None:
    """Print which weight each family's fold chose, and R² of the answers so chosen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    runs = lucid.read(parser.parse_args().data)["profiling_runs"]
    data = InterferenceData(audited(runs).labels.reset_index(drop=True), profiles(runs), 0.0)
    found = pd.concat([_chosen(data, fold) for fold in _folds(data.labels, OUTER_FOLDS)])
    for weight in WEIGHTS:
        sys.stdout.write(f"{_score(found, str(weight)):.3f}  weight {weight} throughout\n")
    sys.stdout.write(f"{_score(found, 'chosen'):.3f}  weight chosen in every fold\n")


def _chosen(data: InterferenceData, fold: Fold) -> pd.DataFrame:
    """Return the answers of one fold by each weight, and by the one that its own rows choose."""
    known = data.of_rows(fold.train)
    known = InterferenceData(known.labels.reset_index(drop=True), known.profiles, known.floor)
    inner = pd.concat([_answers(known, part) for part in _folds(known.labels, INNER_FOLDS)])
    errors = {w: float(((inner["log"] - inner[str(w)]) ** 2).mean()) for w in WEIGHTS}
    best = min(errors, key=lambda weight: errors[weight])
    asked = _answers(data, fold)
    sys.stdout.write(f"{fold.name}: effects weigh {best} beside the forest\n")
    sys.stdout.flush()
    return asked.assign(chosen=asked[str(best)])


def _answers(data: InterferenceData, fold: Fold) -> pd.DataFrame:
    """Return log slowdowns of held-out rows: measured (``log``), and told by each weight."""
    bundle = uncalibrated_bundle(data.of_rows(fold.train), OPTIONS, SEED)
    asked = data.labels.iloc[fold.test]
    learnt, missing = effects_from(bundle.tables)
    rows = effect_rows(data.profiles, asked, missing)
    effect = effect_estimates(learnt, rows)
    inputs = with_effects(pair_features(data.profiles, asked), rows, np.full(len(asked), np.nan))
    forest = bundle.predict(inputs[list(bundle.spec.features)].to_numpy(np.float64))
    told = {str(w): w * effect + (1 - w) * forest for w in WEIGHTS}
    return pd.DataFrame({"log": np.log(asked["slowdown"].to_numpy(np.float64)), **told})


def _folds(labels: pd.DataFrame, folds: int) -> list[Fold]:
    return [fold for fold in family_folds(labels, folds, SEED) if len(fold.train)]


def _score(found: pd.DataFrame, name: str) -> float:
    observed, told = (np.exp(found[each].to_numpy(np.float64)) for each in ("log", name))
    score = r2(observed, told)
    return float("nan") if score is None else score


if __name__ == "__main__":
    main()
