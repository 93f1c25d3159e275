"""Measured pairs move the answers of their jobs at once."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from data.domain import FinishedJob, Outcome, Segment
from data.sample_data import sample_runs
from features.profiles import profiles
from pipelines.interference.fit import ForestOptions, InterferenceData, uncalibrated_bundle
from pipelines.labelling.audit import audited
from serving.inference.interference import PROFILES_TABLE, novelty, slowdown_estimates
from serving.inference.known_jobs import KnownJobs
from serving.inference.slowdowns import Live, Slowdowns
from serving.live.adaptation import PAIR, adapted_bundle
from serving.live.colocations import LiveColocations, live_slowdowns

NEW = "recommender"


@pytest.fixture(scope="module")
def labels():
    return audited(sample_runs()).labels


@pytest.fixture(scope="module")
def bundle(labels):
    """Learnt from every family but one."""
    learnt = labels[(labels["family"] != NEW) & (labels["neighbour_family"] != NEW)]
    data = InterferenceData(learnt, profiles(sample_runs()), 0.9)
    return uncalibrated_bundle(data, ForestOptions(trees=20), seed=0)


@pytest.fixture(scope="module")
def fresh(labels):
    """Pairs in which a job of the new family is slowed by another."""
    return labels[(labels["family"] == NEW) & (labels["neighbour_family"] != NEW)]


def test_without_measured_pairs_it_is_the_plain_model(bundle, labels):
    adapted = adapted_bundle(bundle, labels.head(0))
    plain, same = (slowdown_estimates(each, labels)["value"] for each in (bundle, adapted))
    assert np.abs(plain - same).max() < 1e-12


def test_measured_pairs_of_a_new_job_better_its_other_pairs(bundle, fresh):
    key = fresh["job_key"].mode()[0]
    own = fresh[fresh["job_key"] == key]
    shown, rest = own.iloc[:3], own.iloc[3:]
    plain = slowdown_estimates(bundle, rest)["value"]
    adapted = slowdown_estimates(adapted_bundle(bundle, shown), rest)["value"]
    error = [np.abs(np.log(value / rest["slowdown"])).mean() for value in (plain, adapted)]
    assert error[1] < error[0]


def test_repeats_of_a_pair_count_as_their_median(bundle, fresh):
    one = fresh.head(1)
    thrice, wild = pd.concat([one, one, one]), pd.concat([one, one, one.assign(slowdown=50.0)])
    asked = fresh.iloc[1:]
    answers = [slowdown_estimates(adapted_bundle(bundle, each), asked) for each in (thrice, wild)]
    assert np.allclose(answers[0]["value"], answers[1]["value"])


def test_a_pair_that_was_measured_often_is_answered_by_its_own_runs(bundle, fresh):
    one = fresh.head(1).assign(slowdown=fresh["slowdown"].iloc[0] * 1.3)
    told = [
        slowdown_estimates(adapted_bundle(bundle, pd.concat([one] * runs)), one)["value"].iloc[0]
        for runs in (1, 12)
    ]
    missed = np.abs(np.log(np.array(told) / one["slowdown"].iloc[0]))
    assert missed[1] < missed[0] < 0.1


def test_a_learnt_pair_that_is_measured_anew_counts_once(bundle):
    rows = bundle.tables["effect_rows"]
    jobs = bundle.tables["effect_jobs"]
    job, neighbour = (jobs["job_key"].iloc[rows[side].iloc[0]] for side in ("job", "neighbour"))
    again = pd.DataFrame(
        [(job, neighbour, jobs["gpu_model"].iloc[0], 1.5)], columns=[*PAIR, "slowdown"]
    )
    assert len(adapted_bundle(bundle, again).tables["effect_rows"]) == len(rows)


def test_a_job_without_a_profile_is_answered_by_what_was_measured_on_its_gpu_model(bundle, fresh):
    shown = fresh.drop_duplicates(PAIR).head(3)
    there = bundle.tables[PROFILES_TABLE].assign(gpu_model="new")
    profiled = pd.concat([bundle.tables[PROFILES_TABLE], there], ignore_index=True)
    known = replace(bundle, tables={**bundle.tables, PROFILES_TABLE: profiled})
    measured = adapted_bundle(known, shown.assign(gpu_model="new", slowdown=[2.0, 2.5, 4.0]))
    stranger = pd.DataFrame([("stranger", "nobody", "new")], columns=PAIR)
    assert slowdown_estimates(measured, stranger)["value"].tolist() == pytest.approx([2.5])


def test_the_quick_way_answers_measured_pairs_alike(bundle, fresh):
    adapted = adapted_bundle(bundle, pd.concat([fresh.head(6)] * 4))
    asked = fresh.head(9).drop_duplicates(PAIR)
    slow = slowdown_estimates(adapted, asked)["value"]
    quick = KnownJobs(adapted).estimates([tuple(pair) for pair in asked[PAIR].to_numpy()])
    assert [each.value for each in quick] == pytest.approx(slow.tolist(), rel=1e-9)


def test_a_pair_with_an_unprofiled_job_teaches_nothing(bundle, fresh):
    assert adapted_bundle(bundle, fresh.head(3).assign(neighbour_key="nobody")) is bundle


def test_intervals_are_those_of_new_jobs_measured_as_often(bundle, fresh):
    key = fresh["job_key"].mode()[0]
    own = fresh[fresh["job_key"] == key].drop_duplicates("neighbour_key")
    table = bundle.tables[PROFILES_TABLE]
    at = np.flatnonzero(table["job_key"] == key)
    pair = np.column_stack([at, at])
    kinds = [novelty(adapted_bundle(bundle, own.head(n)), pair)[0] for n in (0, 1, 2, 3)]
    assert kinds == ["family", "few_measured", "few_measured", "measured"]


def finished(job_key, neighbour, runtime_s, alone_s=0.0):
    segments = (Segment(alone_s, runtime_s, "c", "cpu", (neighbour,)),)
    if alone_s:
        segments = (Segment(0.0, alone_s, "c", "cpu"), *segments)
    return FinishedJob("1", 1, "u", "q", job_key, 1, 0.0, 0.0, runtime_s, Outcome.OK, segments)


def test_a_finished_job_changes_the_next_answer_for_its_key(bundle, fresh):
    job, neighbour = fresh.iloc[0][["job_key", "neighbour_key"]]
    baseline_s = bundle.tables[PROFILES_TABLE].set_index("job_key")["exclusive_jct_s"][job]
    live = LiveColocations()
    live.observe([finished(job, neighbour, 3 * baseline_s)])
    nobody = bundle.tables[PROFILES_TABLE].head(0)
    before, after = Slowdowns(bundle), Slowdowns(bundle, Live(nobody, live.latest))
    others = [(job, key, "cpu") for key in fresh["neighbour_key"].unique() if key != neighbour]
    values = [[each.value for each in model.estimates(others)] for model in (before, after)]
    assert np.mean(values[1]) > 1.1 * np.mean(values[0])


def test_time_alone_is_work_done(bundle, fresh):
    job, neighbour = fresh.iloc[0][["job_key", "neighbour_key"]]
    baseline_s = bundle.tables[PROFILES_TABLE].set_index("job_key")["exclusive_jct_s"][job]
    live = LiveColocations()
    live.observe([finished(job, neighbour, 1.7 * baseline_s, alone_s=0.3 * baseline_s)])
    assert live_slowdowns(live.latest, bundle)["slowdown"].tolist() == pytest.approx([2.0])


@pytest.mark.parametrize("factor", [0.2, 1e4])
def test_a_run_that_did_other_work_teaches_nothing(bundle, fresh, factor):
    job, neighbour = fresh.iloc[0][["job_key", "neighbour_key"]]
    baseline_s = bundle.tables[PROFILES_TABLE].set_index("job_key")["exclusive_jct_s"][job]
    live = LiveColocations()
    live.observe([finished(job, neighbour, factor * baseline_s)])
    assert live_slowdowns(live.latest, bundle).empty


def test_what_ran_on_is_news_only_when_it_doubles():
    live, seen = LiveColocations(), []
    for _ in range(5):
        live.observe([finished("a", "b", 10.0)])
        seen.append(len(live.latest))
    assert seen == [1, 2, 2, 4, 4]


@pytest.mark.parametrize(
    "segments",
    [
        (Segment(0.0, 10.0, "c", "cpu"),),
        (Segment(0.0, 10.0, "c", "cpu", ("b", "d")),),
        (Segment(0.0, 5.0, "c", "cpu", ("b",)), Segment(5.0, 10.0, "c", "cpu", ("d",))),
    ],
)
def test_only_a_single_neighbour_is_remembered(segments):
    live = LiveColocations()
    live.observe([FinishedJob("1", 1, "u", "q", "a", 1, 0.0, 0.0, 10.0, Outcome.OK, segments)])
    assert live.latest == ()
