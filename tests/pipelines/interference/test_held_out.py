"""What was measured of held-out pairs changes no answer about them, in any evaluation.

Runs that an audit of everything leaves out or not, depending on the noise of what is held out, are
among those that are learnt from: were the rows chosen by that audit, the answers would change.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from features.profiles import profiles
from pipelines.interference import calibration, effects_fit, evaluate, share_scores
from pipelines.interference.calibration import possible_folds
from pipelines.interference.evaluate import (
    OUTER_FOLDS,
    Plan,
    evaluate_given_interference,
    evaluate_interference,
)
from pipelines.interference.few_pairs import measured_positions
from pipelines.interference.fit import ForestOptions
from pipelines.interference.gpu_models import gpu_model_worlds
from pipelines.interference.next_pairs import next_pairs
from pipelines.interference.share_scores import share_answers
from pipelines.interference.training_rows import known_runs, measured_labels
from pipelines.labelling.audit import audited
from pipelines.labelling.audit_rules import AuditRules
from pipelines.splits import Fold
from tests.pipelines.interference.programs import PROGRAMS, runs_of_five

QUICK = ForestOptions(trees=5, folds=2)
ANSWER = ["value", "lower", "upper", "in_domain"]
LOW = 0.925  # slowdown: below the floor of the runs as they are, above that of noisier ones


@pytest.fixture(scope="module")
def runs():
    """Really measured runs of five programs, alone and together."""
    return runs_of_five()


def one_fold(split: str, labels: pd.DataFrame, *asked: int) -> Fold:
    """Return a fold that holds out so many repeats that a change of them moves the noise."""
    folds = possible_folds(split, labels, *asked)
    return max(folds, key=lambda fold: len(fold.test)) if "pair" in split else folds[0]


@dataclass(frozen=True)
class World:
    """Runs, the labels that their audit keeps, and one fold of a split of these."""

    runs: pd.DataFrame
    labels: pd.DataFrame
    fold: Fold

    @classmethod
    def of(cls, runs: pd.DataFrame, split: str) -> "World":
        labels = audited(runs).labels.reset_index(drop=True)
        return cls(runs, labels, one_fold(split, labels, OUTER_FOLDS[split], 0))

    def shown(self, pairs: int) -> list[int]:
        return list(measured_positions(self.labels, self.fold, pairs, np.random.default_rng(0)))

    def unknown(self, pairs: int) -> list[str]:
        """Return the runs that are neither learnt from nor measured."""
        rest = set(range(len(self.labels))) - set(self.fold.train) - set(self.shown(pairs))
        return list(self.labels["run_id"].iloc[sorted(rest)])


def low_runs(world: World) -> pd.DataFrame:
    """Return the world's runs with one side of two pairs that are learnt from LOW."""
    labels = world.labels.iloc[world.fold.train]
    is_first = labels["job_key"] < labels["neighbour_key"]
    some = labels[is_first & ~labels.duplicated(["job_key", "neighbour_key"], keep=False)].head(2)
    factor = LOW / some.set_index("run_id")["slowdown"]
    jct = world.runs["jct_s"] * world.runs["run_id"].map(factor).fillna(1.0)
    return world.runs.assign(jct_s=jct)


def noisier(runs: pd.DataFrame, run_ids: list[str]) -> pd.DataFrame:
    """Return the runs, of which some took up to twice as long."""
    factor = pd.Series(np.random.default_rng(0).uniform(1, 2, len(run_ids)), index=run_ids)
    return runs.assign(jct_s=runs["jct_s"] * runs["run_id"].map(factor).fillna(1.0))


def held_out_answers(world: World, split: str, pairs: int) -> list[pd.DataFrame]:
    """Return what the evaluation answers about one fold's rows, by what was measured."""
    kept = []
    plan = Plan(sorted({0, pairs}))
    evaluate_interference(world.runs, [split], 0, QUICK, plan, keep=kept.append)
    return [judged.rows[ANSWER] for judged in kept]


@pytest.fixture
def only_one_fold(monkeypatch):
    """Make evaluations quick: one fold, one draw, kernels that are hardly learnt."""
    monkeypatch.setattr(evaluate, "possible_folds", lambda *asked: [one_fold(*asked)])
    monkeypatch.setattr(evaluate, "SEEDS", 1)
    monkeypatch.setattr(calibration, "DRAWS", 1)
    monkeypatch.setattr(evaluate, "KINDS", ("pair",))
    monkeypatch.setattr(effects_fit, "ITERATIONS", 2)


@pytest.mark.usefixtures("only_one_fold")
@pytest.mark.parametrize(
    ("split", "pairs"), [("pair", 0), ("family_pair", 0), ("configuration", 1), ("family", 1)]
)
def test_what_is_held_out_changes_no_answer_about_it(runs, split, pairs):
    world = World.of(low_runs(World.of(runs, split)), split)
    strange = World.of(noisier(world.runs, world.unknown(pairs)), split)
    # The audit of everything keeps two more rows, which others may learn from.
    assert len(strange.labels) == len(world.labels) + 2
    for before, after in zip(
        *(held_out_answers(each, split, pairs) for each in (world, strange)), strict=True
    ):
        assert len(before)
        assert np.array_equal(before, after)


def test_measured_labels_stand_by_what_is_known_then(runs):
    world = World.of(low_runs(World.of(runs, "family")), "family")
    known = known_runs(world.runs, world.labels, "family", world.fold)
    shown = world.labels.iloc[world.shown(1)]
    strange = noisier(world.runs, world.unknown(1))
    low = shown.head(1)["run_id"]
    floor = audited(known).noise.floor
    assert audited(strange).noise.floor < floor - 0.02
    factor = (floor - 0.02) / shown["slowdown"].iloc[0]
    for each in (world.runs, strange):
        lower = each.assign(jct_s=each["jct_s"] * np.where(each["run_id"].isin(low), factor, 1))
        found = measured_labels(lower, known, shown, AuditRules())
        assert found["run_id"].tolist() == shown["run_id"].iloc[1:].tolist()


@pytest.mark.usefixtures("only_one_fold")
def test_a_given_test_set_changes_no_answer_about_it(runs):
    asked = runs["neighbour_key"].notna() & runs["job_key"].eq(PROGRAMS[0])
    answers = []
    for test in (runs[asked], noisier(runs, list(runs.loc[asked, "run_id"]))[asked]):
        kept = []
        evaluate_given_interference(runs[~asked], test, 0, QUICK, keep=kept.append)
        answers.append(kept[0].rows[ANSWER])
    assert np.array_equal(*answers)


@pytest.mark.parametrize("pairs", [0, 1])
def test_another_gpu_model_is_learnt_from_as_far_as_it_was_measured(runs, pairs):
    other = runs.assign(
        run_id="x" + runs["run_id"],
        neighbour_run_id="x" + runs["neighbour_run_id"],
        gpu_model="gpu",
    )
    both = pd.concat([low_runs(World.of(runs, "pair")), other], ignore_index=True)
    labels = audited(both).labels.reset_index(drop=True)
    asked, learnt = next(gpu_model_worlds(both, labels, "gpu", pairs, 0))
    strange = noisier(both, list(asked["run_id"]))
    assert len(audited(strange).labels) > len(labels)
    _, again = next(gpu_model_worlds(strange, labels, "gpu", pairs, 0))
    pd.testing.assert_frame_equal(learnt.labels, again.labels, check_exact=True)
    assert (learnt.floor, bool(pairs)) == (again.floor, "gpu" in set(learnt.labels["gpu_model"]))


@pytest.mark.parametrize("with_pairs", [False, True])
def test_classes_of_a_family_change_none_that_is_told_of_it(monkeypatch, runs, with_pairs):
    monkeypatch.setattr(share_scores, "TREES", 20)
    table, labels = profiles(runs), audited(runs).labels if with_pairs else None
    shares = table[["job_key", "gpu_model"]]
    answers = [
        share_answers(shares.assign(share_label=[own, 1.0, 2.0, 0.0, 1.0]), table, labels, 0)
        for own in (0.0, 2.0)
    ]
    assert answers[0][0] == answers[1][0]


def test_pairs_are_chosen_without_what_they_will_show(runs):
    labels, table = audited(runs).labels, profiles(runs)
    known, left = labels.head(20), labels.tail(22)
    chosen = [
        next_pairs(known, table, 4, 0, left.assign(slowdown=left["slowdown"] * factor))
        for factor in (1.0, 3.0)
    ]
    pd.testing.assert_frame_equal(*chosen, check_exact=True)
