from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from data.domain import FinishedJob, ModelStructure, Outcome, Segment
from data.schemas import PROFILING_RUNS, checked
from features.profiles import profiles
from pipelines.labelling.audit import audited
from pipelines.labelling.labels import slowdown_labels
from pipelines.retraining.production import production_memory_runs, production_runs
from pipelines.retraining.run_rows import run_id

NOTHING = checked(pd.DataFrame(columns=PROFILING_RUNS.names), PROFILING_RUNS, "none")
SIGNALS = {"sm_active_mean": 0.5, "gpu_mem_peak_mib": 4000.0}


def job(name, *stretches, key="ncf", outcome=Outcome.OK, model="A100", **more):
    """A job that runs from 100 on, by stretches of (seconds, *neighbours)."""
    at, segments = 100.0, []
    for seconds, *neighbours in stretches:
        segments.append(Segment(at, at + seconds, "g0", model, tuple(neighbours)))
        at += seconds
    facts = ("ada", "q", key, 1, 50.0, 100.0, at, outcome, tuple(segments))
    return FinishedJob(name, 1, *facts, signals=SIGNALS, **more)


ALONE = job("alone", (10,))


def row(finished, *before, known=NOTHING):
    return production_runs([*before, finished], known).iloc[-1]


def test_a_job_that_met_nobody_is_a_proven_exclusive_run_with_its_signals():
    found = row(ALONE)
    assert pd.isna(found["neighbour_key"])
    assert found["is_exclusive"]
    assert (found["jct_s"], found["sm_active_mean"], found["outcome"]) == (10.0, 0.5, "ok")
    assert (found["run_id"], found["start_time"]) == ("job:alone:1", 100.0)


def test_a_job_with_one_neighbour_throughout_is_a_colocated_run_without_signals():
    found = row(job("1", (15, "bert")))
    assert (found["neighbour_key"], found["neighbour_overlap"]) == ("bert", 1.0)
    assert found["jct_s"] == 15.0
    assert not found["is_exclusive"]
    assert np.isnan(found["sm_active_mean"])


def test_time_alone_is_subtracted_as_work_done():
    # 4 of 10 s of work alone, the other 6 s took 12 s: slowed down by 2.
    found = row(job("1", (4,), (12, "bert")), ALONE)
    assert (found["jct_s"], found["neighbour_overlap"]) == (20.0, 1.0)
    labels = slowdown_labels(production_runs([ALONE, job("1", (4,), (12, "bert"))], NOTHING))
    assert labels[["neighbour_key", "slowdown"]].to_numpy().tolist() == [["bert", 2.0]]


def test_the_baseline_may_come_from_earlier_runs():
    known = production_runs([ALONE, replace(ALONE, job_id="b", finish_time=112.0)], NOTHING)
    found = row(job("1", (2,), (18, "bert")), known=known)
    assert found["jct_s"] == pytest.approx(18 / (10 - 2) * 10)


@pytest.mark.parametrize(
    ("stretches", "before", "neighbour", "overlap"),
    [
        ([(4,), (12, "bert")], [], "bert", 0.75),  # no baseline
        ([(6,), (6, "bert")], [ALONE], "bert", 0.5),  # too little shared work
        ([(30,), (10, "bert")], [ALONE], "bert", 0.25),  # more alone than the baseline
        ([(5, "bert"), (15, "ncf")], [ALONE], "ncf", 0.75),  # two neighbours in turn
        ([(12, "bert"), (4, "bert", "ncf")], [ALONE], "bert", 0.75),  # two at once
        ([(16, "bert", "ncf")], [ALONE], None, 0.0),  # never with one alone
    ],
)
def test_what_cannot_be_separated_stays_as_it_was_with_its_overlap(
    stretches, before, neighbour, overlap
):
    finished = job("1", *stretches)
    found = row(finished, *before)
    assert found["neighbour_overlap"] == overlap
    assert found["neighbour_key"] in ([neighbour] if neighbour else ["bert", "ncf"])
    assert found["jct_s"] == finished.runtime_s


def test_a_gap_in_the_record_proves_nothing():
    gap = replace(ALONE, segments=(Segment(100, 105, "g0", "A100"),))
    assert not row(gap)["is_exclusive"]
    assert not row(replace(ALONE, segments=()))["is_exclusive"]
    shared = replace(
        job("1", (4,), (12, "bert")),
        segments=(Segment(100, 102, "g0", "A100"), Segment(104, 116, "g0", "A100", ("bert",))),
    )
    assert row(shared, ALONE)["neighbour_overlap"] == 0.75


def test_a_gang_on_cards_of_two_models_has_no_baseline_on_either():
    cards = tuple(Segment(100, 110, f"g{m}", m, ("bert",)) for m in ("A100", "V100"))
    found = row(replace(ALONE, job_id="1", segments=cards), ALONE)
    assert found["gpu_model"] == "A100+V100"


@pytest.mark.parametrize("outcome", [o for o in Outcome if o != Outcome.OK])
def test_other_outcomes_are_recorded_but_make_no_label_and_no_baseline(outcome):
    runs = production_runs(
        [replace(ALONE, job_id="x", outcome=outcome), job("1", (15, "b"), outcome=outcome)],
        NOTHING,
    )
    assert runs["outcome"].tolist() == [outcome, outcome]
    assert slowdown_labels(runs).empty
    assert profiles(runs).empty


def test_every_job_becomes_one_row_in_order_and_none_is_dropped():
    jobs = [job("b c/1", (0,)), job("a", (5, "x")), job("z", (1,), outcome=Outcome.FAILED)]
    runs = production_runs(jobs, NOTHING)
    assert runs["run_id"].tolist() == [run_id(j) for j in jobs]
    assert " " not in runs.loc[0, "run_id"]
    assert not runs.loc[0, "is_exclusive"]  # nothing is proven by a run of no length
    assert production_runs([], NOTHING).empty


def test_families_come_from_earlier_runs_then_the_structure_then_the_key():
    known = production_runs([ALONE], NOTHING).assign(family="recommender")
    structure = ModelStructure("transformer", 8)
    jobs = [
        job("1", (5,)),
        job("2", (5,), key="bert", structure=structure),
        job("3", (5,), key="k"),
    ]
    assert production_runs(jobs, known)["family"].tolist() == ["recommender", "transformer", "k"]


def test_memory_runs_need_a_structure_a_peak_and_a_run_watched_for_the_most_part():
    structure = ModelStructure("dlrm", 512, embedding_rows=10**6, gpus=2)
    watched = job("1", (8,), (7, "bert"), structure=structure)
    jobs = [
        watched,
        job("2", (3,), (9, "bert"), structure=structure),
        job("3", (8,)),
        replace(watched, job_id="4", signals={"sm_active_mean": 0.5}),
        replace(watched, job_id="5", outcome=Outcome.OOM),
    ]
    found = production_memory_runs(jobs)
    assert found["run_id"].tolist() == ["job:1:1", "job:5:1"]
    first = found.iloc[0]
    assert (first["dataset"], first["configuration"], first["gpu_model"]) == (
        "production", "ncf", "A100",
    )  # fmt: skip
    assert (first["gpus"], first["embedding_rows"], first["gpu_mem_peak_mib"]) == (2, 1e6, 4000)
    assert found["outcome"].tolist() == ["ok", "oom"]
    assert production_memory_runs([]).empty


def test_a_shared_run_that_was_mostly_alone_keeps_the_signals_of_that_time():
    mostly, hardly = job("1", (8,), (7, "bert")), job("2", (3,), (9, "bert"))
    runs = production_runs([mostly, hardly], NOTHING)
    assert runs["exclusive_s"].tolist()[0] == 8
    assert runs["sm_active_mean"].isna().tolist() == [False, True]
    (row,) = profiles(runs).to_dict("records")
    assert (row["sm_active_mean"], row["runs"]) == (0.5, 1)


TRUE = {"a": 1.2, "b": 1.5, "c": 1.9}


def shared_jobs(count, rng, noise=0.03):
    """Jobs of 100 s alone that meet two or three neighbours, one after the other."""
    for n in range(count):
        who = rng.choice(list(TRUE), rng.integers(2, 4), replace=False)
        work = 100 * np.exp(rng.normal(0, noise)) * rng.dirichlet(np.ones(len(who)))
        stretches = [(w * TRUE[k], k) for k, w in zip(who, work, strict=True)]
        yield job(f"shared-{n}", *stretches)


def test_jobs_whose_neighbours_changed_teach_what_was_planted():
    rng = np.random.default_rng(1)
    alone = [job(f"alone-{n}", (100 * np.exp(rng.normal(0, 0.03)),)) for n in range(10)]
    runs = production_runs([*alone, *shared_jobs(60, rng)], NOTHING)
    labels = audited(runs).labels
    assert len(labels) >= 20  # before: none, where no neighbour was there for nine tenths
    miss = np.log(labels["slowdown"] / labels["neighbour_key"].map(TRUE))
    assert np.abs(miss).median() < 0.06
    assert np.abs(miss).max() < 0.3


def test_jobs_whose_neighbours_changed_teach_nothing_without_a_baseline():
    rng = np.random.default_rng(1)
    runs = production_runs(list(shared_jobs(20, rng)), NOTHING)
    assert audited(runs).labels.empty
    assert (runs["neighbour_overlap"] < 1).all()


def test_runs_from_before_tell_of_neighbours_too():
    before = [job(f"alone-{n}", (100,)) for n in range(10)]
    before += [job(f"{key}-{n}", (100 * TRUE[key], key)) for key in "abc" for n in range(3)]
    known = production_runs(before, NOTHING)
    one = job("1", (60 * TRUE["a"], "a"), (40 * TRUE["c"], "c"))
    found = row(one, known=known)
    assert (found["neighbour_key"], found["neighbour_overlap"]) == ("a", 1.0)
    assert found["jct_s"] == pytest.approx(120, rel=0.05)
