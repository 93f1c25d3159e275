"""Measure the interference model on pairs, configurations and families that it never saw."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pandas as pd

from data.errors import SettingError
from features.profiles import profiles, proven_exclusive
from pipelines.interference.baselines import baseline_estimates, trivial_answers
from pipelines.interference.calibration import KINDS, calibrated_bundle, possible_folds
from pipelines.interference.few_pairs import SEEDS, Standing, answers_after, averaged
from pipelines.interference.fit import ForestOptions, InterferenceData
from pipelines.interference.metrics import split_row
from pipelines.interference.thinning import thinned
from pipelines.interference.training_rows import known_runs, measured_labels, training_data
from pipelines.judged import GIVEN, Judged, Keep, dropped, worst_coverage
from pipelines.labelling.audit import audited
from pipelines.labelling.audit_noise import Noise
from pipelines.labelling.audit_rules import ALL_ROWS, AuditRules
from pipelines.progress import progress
from pipelines.splits import Fold
from serving.inference.interference import (
    NEW_CONFIGURATION,
    NEW_FAMILY,
    NEW_FAMILY_PAIR,
    NEW_PAIR,
    PROFILES_TABLE,
    slowdown_estimates,
)

OUTER_FOLDS = {NEW_PAIR: 5, NEW_FAMILY_PAIR: 10, NEW_CONFIGURATION: 10, NEW_FAMILY: 20}
"""Held out in turn; up to twenty families one by one."""

OF_NEW_JOBS = {NEW_CONFIGURATION, NEW_FAMILY}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked.

    Attributes
    ----------
    measured : sequence of int
        For how many measured pairs of each new job to report: 0 is before the first. By pair and
        pair of families no job is new, and only 0 is reported.
    rules : AuditRules
        Which rows are learnt from and asked about.
    """

    measured: Sequence[int] = (0,)
    rules: AuditRules = field(default_factory=AuditRules)


PLAN = Plan()


def evaluate_interference(  # noqa: PLR0913 - one argument a choice, most have defaults
    runs: pd.DataFrame,
    splits: Sequence[str],
    seed: int,
    options: ForestOptions | None = None,
    plan: Plan = PLAN,
    *,
    keep: Keep = dropped,
) -> list[dict[str, object]]:
    """Return one flat row of metrics for each way of holding out.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.PROFILING_RUNS``
        The audit of all of them says which rows are asked about; what may be learnt from, one
        that sees nothing of what is held out. More than ``MOST_LABELS`` labels are thinned.
    splits : sequence of {"pair", "family_pair", "configuration", "family"}
    seed : int
    options : ForestOptions, optional
    plan : Plan
    keep : callable
        Is given the answers of each split, of the first draw of measured pairs.

    Returns
    -------
    list of dict
        As `split_row`, with ``k`` (measured pairs), ``draws`` (of these pairs, over which the
        metrics are averaged) and ``r2_sd`` (among the draws); ``split`` of k > 0 ends in ``_k``
        and the number. In every fold the rows are audited, the model is fitted and its intervals
        are calibrated without anything that it holds out, and it answers through the service's
        own functions.

    Raises
    ------
    SettingError
        If a split is unknown, or the labels are too few for it.
    """
    unknown = [name for name in splits if name not in OUTER_FOLDS]
    if unknown:
        wanted = ", ".join(OUTER_FOLDS)
        raise SettingError(f"found the split {unknown[0]!r}, wanted some of {wanted}")
    audit = audited(runs, plan.rules)
    labels = thinned(audit.labels, seed).reset_index(drop=True)
    data = InterferenceData(labels, profiles(runs), audit.noise.floor)
    trial = _Trial(runs, plan.rules, data, audit.noise, options or ForestOptions(), seed, keep)
    return [
        row
        for name in splits
        for row in trial.rows(name, plan.measured if name in OF_NEW_JOBS else (0,))
    ]


@dataclass(frozen=True, slots=True)
class _World:
    """What one fold holds out, what is known without it, and what stands once it is measured."""

    fold: Fold
    learnt: InterferenceData
    standing: Standing

    def trivial(self, labels: pd.DataFrame) -> pd.DataFrame:
        """Return the trivial answers for the rows held out, by their position in `labels`."""
        test = self.fold.test
        return trivial_answers(self.learnt, labels.iloc[test]).set_axis(test)


@dataclass(frozen=True, slots=True)
class _Trial:
    """What is learnt from and asked, by which options."""

    runs: pd.DataFrame
    rules: AuditRules
    data: InterferenceData
    noise: Noise
    options: ForestOptions
    seed: int
    keep: Keep

    def rows(self, split: str, measured: Sequence[int]) -> list[dict[str, object]]:
        """Return one row for each number of measured pairs."""
        labels = self.data.labels
        folds = possible_folds(split, labels, OUTER_FOLDS[split], self.seed)
        if not folds:
            raise SettingError(f"found no way to hold out by {split} in {len(labels)} labels")
        worlds = [self._world(split, fold) for fold in folds]
        trivial = pd.concat([world.trivial(labels) for world in worlds])
        found: dict[int, list[dict[str, object]]] = {k: [] for k in measured}
        for (k, draw), answers in self._answers(split, worlds, measured).items():
            name = f"{split}_k{k}" if k else split
            families = labels["family"].loc[answers.index]
            if draw == 0:
                self.keep(_judged(name, answers, families, self.noise))
            worst = worst_coverage(answers["slowdown"].to_numpy(np.float64), answers, families)
            row = split_row(name, answers, trivial, self.noise)
            found[k].append({**row, "coverage_90_worst": worst})
        return [{**averaged(rows), "k": k} for k, rows in found.items()]

    def _world(self, split: str, fold: Fold) -> _World:
        known = known_runs(self.runs, self.data.labels, split, fold)
        learnt = training_data(known, self.data.profiles, self.rules, self.seed)
        return _World(fold, learnt, partial(measured_labels, self.runs, known, rules=self.rules))

    def _answers(
        self, split: str, worlds: Sequence[_World], measured: Sequence[int]
    ) -> dict[tuple[int, int], pd.DataFrame]:
        draws = [(k, draw) for k in measured for draw in range(SEEDS if k else 1)]
        parts: dict[tuple[int, int], list[pd.DataFrame]] = {each: [] for each in draws}
        for world in progress(worlds, f"evaluating by {split}"):
            bundle, _ = calibrated_bundle(world.learnt, self.options, self.seed, (split,))
            for k, draw in draws:
                asked = self.data.labels, world.fold, k, self.seed + draw
                parts[k, draw].append(answers_after(bundle, *asked, world.standing))
        return {each: pd.concat(found).sort_index() for each, found in parts.items()}


def evaluate_given_interference(
    train: pd.DataFrame,
    test: pd.DataFrame,
    seed: int,
    options: ForestOptions | None = None,
    *,
    keep: Keep = dropped,
) -> dict[str, object]:
    """Return one flat row of metrics for a test set whose jobs may be unknown.

    Parameters
    ----------
    train, test : DataFrame, ``data.schemas.PROFILING_RUNS``
        Every colocated run of `test` that has a label is asked, audited or not; for answers to
        the same question every such run of `train` is learnt from. A job that `test` never ran
        alone has its baseline and profile from `train`.
    seed : int
    options : ForestOptions, optional

    Returns
    -------
    dict
        As `split_row`, with ``split`` ``given``, ``unlabelled`` (colocated runs of `test` without
        a label) and ``model_share`` (share of rows that had both profiles).

    Raises
    ------
    SettingError
        If no colocated run of `test` has a label.
    """
    audit = audited(train, ALL_ROWS)
    data = InterferenceData(thinned(audit.labels, seed), profiles(train), audit.noise.floor)
    bundle, _ = calibrated_bundle(data, options or ForestOptions(), seed, KINDS)
    known = _with_baselines(train, test)
    asked = audited(known, ALL_ROWS)
    labels = asked.labels[asked.labels["run_id"].isin(test["run_id"])].reset_index(drop=True)
    if labels.empty:
        raise SettingError("found no colocated run with a baseline in the test set, wanted some")
    tables = {**bundle.tables, PROFILES_TABLE: profiles(known)}
    estimates = slowdown_estimates(replace(bundle, tables=tables), labels)
    rows = estimates.assign(slowdown=labels["slowdown"])
    trivial = baseline_estimates(
        _joined(data, labels, tables[PROFILES_TABLE]), [_last(data, labels)]
    )
    trivial = trivial.set_axis(labels.index)
    keep(_judged(GIVEN, rows, labels["family"], asked.noise))
    observed = labels["slowdown"].to_numpy(np.float64)
    return {
        **split_row(GIVEN, rows, trivial, asked.noise),
        "coverage_90_worst": worst_coverage(observed, rows, labels["family"]),
        "unlabelled": int(test["neighbour_key"].notna().sum()) - len(labels),
        "model_share": float((rows["source"] == "model").mean()),
    }


def _judged(split: str, rows: pd.DataFrame, families: pd.Series, noise: Noise | None) -> Judged:
    sd = noise.label_sd if noise and noise.is_measured else 0.0
    named = rows.assign(observed=rows["slowdown"], group=families.astype("str"), noise_sd=sd)
    return Judged(split, "slowdown", named.reset_index(drop=True))


def _with_baselines(train: pd.DataFrame, test: pd.DataFrame) -> pd.DataFrame:
    """Return the test runs, and the exclusive runs of jobs that they lack."""
    keys = ["job_key", "gpu_model"]
    alone = test[proven_exclusive(test)]
    has_own = pd.MultiIndex.from_frame(train[keys]).isin(pd.MultiIndex.from_frame(alone[keys]))
    borrowed = train[proven_exclusive(train) & ~has_own & ~train["run_id"].isin(test["run_id"])]
    return pd.concat([test, borrowed], ignore_index=True)


def _joined(data: InterferenceData, labels: pd.DataFrame, table: pd.DataFrame) -> InterferenceData:
    both = pd.concat([data.labels, labels], ignore_index=True)
    return InterferenceData(both, table, data.floor)


def _last(data: InterferenceData, labels: pd.DataFrame) -> Fold:
    positions = pd.RangeIndex(len(data.labels) + len(labels)).to_numpy()
    return Fold(GIVEN, positions[: len(data.labels)], positions[len(data.labels) :])
