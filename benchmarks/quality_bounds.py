"""How memory bounds grow beyond what was learnt: chosen inside of every fold, then asked.

    python -m benchmarks.quality_bounds --data PATH_OF_DLPERF_OR_GPUMEMNET

In each fold, a fifth of the sizes, the other four fifths alone choose: each fifth of them is held
out in turn, and the form with the least interval score (Gneiting and Raftery, "Strictly Proper
Scoring Rules, Prediction, and Estimation", JASA 2007) of the logarithm there answers for the fold.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.nested import CHOSEN, preferred
from data.loaders import read_any
from pipelines.conformal import interval_scores
from pipelines.judged import worst_coverage
from pipelines.labelling.from_runs import usable
from pipelines.memory.calibration import bounded, held_out_of_each_kind
from pipelines.memory.evaluate import SLACK
from pipelines.memory.fit import PEAK, QuadraticOptions, uncalibrated_memory_bundle
from pipelines.splits import Fold, extrapolation_folds
from serving.inference.memory import memory_estimates_of_rows
from serving.inference.memory_beyond import Widening

SEED = 7
OPTIONS = QuadraticOptions()
FORMS: Mapping[str, Widening] = {
    "one factor": Widening(0.0, 0.0),
    "by the share": Widening(per_share=3.0, per_log_ratio=0.0),
    "by the ratio": Widening(per_share=0.0, per_log_ratio=1.0),
    "by both (shipped)": Widening(),
    "by both, twice as steep": Widening(3.0, 1.0),
    "by both, four times as steep": Widening(6.0, 2.0),
}


def main() -> None:
    """Print which form each fold chose, and what each holds throughout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    runs = usable(read_any(parser.parse_args().data)["memory_runs"]).reset_index(drop=True)
    found = pd.concat([chosen(runs, fold) for fold in extrapolation_folds(runs)])
    for name in (*FORMS, CHOSEN):
        sys.stdout.write(f"{_text(found[found['form'] == name])}  {name}\n")


def chosen(runs: pd.DataFrame, fold: Fold) -> pd.DataFrame:
    """Return the bounds of one fold by each form, and by the one that its own rows choose."""
    known = runs.iloc[fold.train].reset_index(drop=True)
    inner = pd.concat([by_form(known, part) for part in extrapolation_folds(known)])
    errors = inner.groupby("form", sort=False)["score"].mean()
    best = preferred(fold.name, errors)
    asked = by_form(runs, fold)
    return pd.concat([asked, asked[asked["form"] == best].assign(form=CHOSEN)])


def by_form(runs: pd.DataFrame, fold: Fold) -> pd.DataFrame:
    """Return the held-out answers with the bounds of each form, fitted and calibrated once."""
    train, asked = runs.iloc[fold.train].reset_index(drop=True), runs.iloc[fold.test]
    fitted = uncalibrated_memory_bundle(train, OPTIONS)
    held_out = held_out_of_each_kind(train, OPTIONS, SEED)
    group = asked["framework"].astype("str") + " " + asked["family"].astype("str")
    parts = []
    for name, widening in FORMS.items():
        told = memory_estimates_of_rows(bounded(fitted, train, held_out, widening), asked)
        parts.append(told.assign(form=name, **{PEAK: asked[PEAK]}, group=group))
    answers = pd.concat(parts, ignore_index=True)
    low, high, peak = (
        np.log(answers[name].to_numpy(np.float64)) for name in ("lower", "upper", PEAK)
    )
    return answers.assign(score=interval_scores(low, high, peak))


def _text(rows: pd.DataFrame) -> str:
    peak = rows[PEAK].to_numpy(np.float64)
    worst = worst_coverage(peak, rows, rows["group"])
    numbers = (
        rows["score"].mean(),
        rows[PEAK].between(rows["lower"], rows["upper"]).mean(),
        float("nan") if worst is None else worst,
        (rows[PEAK] > rows["upper"] * (1 + SLACK)).mean(),
        (rows["upper"] / rows["value"] - 1).median(),
    )
    return " / ".join(f"{number:.3f}" for number in numbers)


if __name__ == "__main__":
    main()
