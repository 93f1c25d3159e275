"""What terms memory adds up from: chosen inside of every fold, then asked.

    python -m benchmarks.quality_terms --data PATH_OF_DLPERF_OR_GPUMEMNET --split extrapolation

In each fold the training rows alone choose: they are held out part by part in the same way, and the
design with the least squared error of the logarithm of memory there answers for the fold. A job
that needs a GiB counts as much in it as one that needs forty, as in what bounds are judged by; R²
of MiB, which is told beside, hangs on the few largest. Of designs that are the same on some data,
such as those with and without versions where none is stated, the one that is shipped stands for
all.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.nested import CHOSEN, preferred
from data.importers import gpumemnet
from data.loaders import read_any
from features.memory_terms import ANY, FRAMEWORK, KIND, TERMS, memory_features
from pipelines.labelling.from_runs import usable
from pipelines.memory.fit import PEAK, QuadraticOptions, uncalibrated_memory_bundle
from pipelines.metrics import r2
from pipelines.splits import Fold, extrapolation_folds, memory_configuration_folds
from serving.inference.memory import answers_mib, framework_names

SEED = 7
FOLDS = 5
SHIPPED = "shipped"
OUTPUTS = "outputs"
FACTS = [PEAK, "dataset", "framework"]
OPTIONS = QuadraticOptions()

SPLITS: Mapping[str, Callable[[pd.DataFrame], list[Fold]]] = {
    "configuration": partial(memory_configuration_folds, folds=FOLDS, seed=SEED),
    "extrapolation": extrapolation_folds,
}


@dataclass(frozen=True, slots=True)
class Design:
    """A quadratic, and what its activations count.

    Attributes
    ----------
    options : QuadraticOptions
    activations : str
        Column of the runs: what is kept for the backward pass, or all outputs of layers.
    """

    options: QuadraticOptions = OPTIONS
    activations: str = "activations"


def without(*names: str) -> tuple[str, ...]:
    """Return the terms but some."""
    return tuple(term for term in TERMS if term not in names)


EVERY_GPU = without("embedding_mib_single_gpu", "single_gpu")
NO_LARGEST = without("largest_activation_mib")
BY_FRAMEWORK = replace(OPTIONS, kinships=(FRAMEWORK, ANY))
NO_LARGEST_OPTIONS = replace(OPTIONS, terms=NO_LARGEST)
DESIGNS: Mapping[str, Design] = {
    SHIPPED: Design(),
    "versions not apart": Design(replace(OPTIONS, kinships=(KIND, FRAMEWORK, ANY))),
    "frameworks alone apart": Design(BY_FRAMEWORK),
    "nothing apart": Design(replace(OPTIONS, kinships=(ANY,))),
    "a table on one GPU as any": Design(replace(OPTIONS, terms=EVERY_GPU)),
    "frameworks alone apart, a table on one GPU as any": Design(
        replace(BY_FRAMEWORK, terms=EVERY_GPU)
    ),
    "without the largest tensor": Design(NO_LARGEST_OPTIONS),
    "either sign": Design(replace(OPTIONS, positive=False)),
    "either sign, a table on one GPU as any": Design(
        replace(OPTIONS, positive=False, terms=EVERY_GPU)
    ),
    "squared errors over the peak": Design(replace(OPTIONS, peak_power=0.5)),
    "all outputs of layers, without the largest tensor": Design(NO_LARGEST_OPTIONS, OUTPUTS),
}


def main() -> None:
    """Print which design each fold chose, and how good each is throughout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--split", choices=SPLITS, required=True)
    given = parser.parse_args()
    found = held_out(given.data, given.split)
    for name in found.columns.drop(FACTS):
        sys.stdout.write(f"{'; '.join(scores(found, str(name)))}  {name}\n")


def held_out(path: Path, split: str) -> pd.DataFrame:
    """Return what each design, and `CHOSEN`, answers (MiB) about every run, beside its facts."""
    runs, folds_of = memory_runs(path), SPLITS[split]
    return pd.concat([chosen(runs, fold, folds_of) for fold in folds_of(runs)])


def memory_runs(path: Path) -> pd.DataFrame:
    """Return the usable runs of a data set, with ``outputs`` where that tells them."""
    runs = usable(read_any(path)["memory_runs"]).reset_index(drop=True)
    if not gpumemnet.recognises(path):
        return runs
    return runs.assign(**{OUTPUTS: runs["run_id"].map(gpumemnet.outputs(path))})


def chosen(
    runs: pd.DataFrame, fold: Fold, folds_of: Callable[[pd.DataFrame], list[Fold]]
) -> pd.DataFrame:
    """Return the answers of one fold by each design, and by the one that its own rows choose."""
    known = runs.iloc[fold.train].reset_index(drop=True)
    inner = pd.concat([by_design(known, part) for part in folds_of(known)])
    logs = np.log(inner.drop(columns=FACTS)).sub(np.log(inner[PEAK]), axis=0)
    best = preferred(fold.name, logs.pow(2).mean())
    asked = by_design(runs, fold)
    return asked.assign(**{CHOSEN: asked[best]})


def by_design(runs: pd.DataFrame, fold: Fold) -> pd.DataFrame:
    """Return what each design answers (MiB) about what a fold holds out, beside its facts."""
    asked = runs.iloc[fold.test]
    told = {
        name: answers(runs.iloc[fold.train], asked, design)
        for name, design in DESIGNS.items()
        if design.activations in runs
    }
    return asked[FACTS].assign(**told)


def answers(learnt: pd.DataFrame, asked: pd.DataFrame, design: Design) -> np.ndarray:
    """Return the memory (MiB, shape (n_asked,)) that a design learns from some runs."""
    learnt, asked = (runs.assign(activations=runs[design.activations]) for runs in (learnt, asked))
    bundle = uncalibrated_memory_bundle(learnt, design.options)
    return answers_mib(bundle, memory_features(asked, bundle.spec.features))


def scores(found: pd.DataFrame, name: str) -> list[str]:
    """Return R² and mean squared error of the logarithm, of all and of each data set's frameworks.

    Examples
    --------
    >>> rows = pd.DataFrame({PEAK: [1.0, 2.0], "dataset": "d", "framework": "a/1"})
    >>> scores(rows.assign(half=[1.0, 1.0]), "half")
    ['all -1.000 / 0.24023', 'd/a -1.000 / 0.24023']
    """
    series = found["dataset"].astype("str") + "/" + framework_names(found["framework"])
    parts = {"all": found, **{str(part): rows for part, rows in found.groupby(series.to_numpy())}}
    told = []
    for part, rows in parts.items():
        peak, value = (rows[each].to_numpy(np.float64) for each in (PEAK, name))
        score = r2(peak, value)
        error = float((np.log(value / peak) ** 2).mean())
        told.append(f"{part} {float('nan') if score is None else score:.3f} / {error:.5f}")
    return told


if __name__ == "__main__":
    main()
