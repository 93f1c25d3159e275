from dataclasses import replace

import pytest

from data.domain import FinishedJob, ModelStructure, Outcome, Segment
from data.errors import JobLogError
from pipelines.retraining.state import (
    KINDS,
    Cause,
    KindState,
    RetrainRules,
    RetrainState,
    begun,
    drifted,
    due,
    ended,
    fatal,
    is_evidence,
    load_state,
    observed,
    save_state,
    to_watch,
    watched,
    withdrawn,
)

JOB = FinishedJob(
    "1", 1, "ada", "q", "bert", 1, 0.0, 0.0, 9.0, Outcome.OK,
    segments=(Segment(0.0, 9.0, "g0", "A100", ("ncf",)),),
    structure=ModelStructure("bert", 8), signals={"gpu_mem_peak_mib": 5.0},
)  # fmt: skip
RULES = RetrainRules(min_jobs=3, min_evidence=2, cooldown_s=60)


def state(*jobs, start=None):
    start = start or RetrainState()
    numbered = enumerate(jobs, start=start.sequence + 1)
    return observed(start, numbered)


def test_each_kind_counts_the_jobs_that_may_teach_it():
    alone = replace(JOB, segments=(Segment(0.0, 9.0, "g0", "A100"),))
    failed = replace(JOB, outcome=Outcome.FAILED)
    unknown = replace(JOB, structure=None)
    unmeasured = replace(JOB, signals={})
    after = state(JOB, alone, failed, unknown, unmeasured)
    assert after.sequence == 5
    assert {name: kind.evidence for name, kind in after.kinds.items()} == {
        "interference": 3, "runtime": 4, "memory": 2,
    }  # fmt: skip
    assert {kind.jobs for kind in after.kinds.values()} == {5}
    assert is_evidence(JOB, "memory")


def test_a_kind_is_due_when_jobs_evidence_and_time_suffice():
    assert due(state(JOB, JOB), RULES, now=1000) == {}
    assert due(state(JOB, JOB, JOB), RULES, now=1000).keys() == set(KINDS)
    poor = state(JOB, replace(JOB, structure=None, segments=()), replace(JOB, outcome=Outcome.OOM))
    assert list(due(poor, RULES, now=1000)) == ["runtime"]


def test_a_cause_is_used_up_by_one_attempt():
    first = ended(state(JOB, JOB, JOB), "runtime", now=1000)
    assert list(due(first, RULES, now=9999)) == ["interference", "memory"]
    assert first.kinds["runtime"] == KindState(0, 0, 3, 1000, learnt=3)
    again = state(JOB, JOB, JOB, start=first)
    assert "runtime" not in due(again, RULES, now=1059)
    assert "runtime" in due(again, RULES, now=1060)


def test_half_as_much_again_on_a_gpu_model_as_was_learnt_there_is_a_cause():
    rules = RetrainRules(min_jobs=500, min_evidence=4, cooldown_s=0)
    there = replace(JOB, segments=(Segment(0.0, 9.0, "g1", "H100", ("ncf",)),))
    known = ended(state(*[JOB] * 100), "interference", now=0)
    assert due(state(*[JOB] * 49, *[there] * 3, start=known), rules, now=1) == {}
    first = state(*[there] * 4, start=known)
    reason = "4 new jobs to learn from on H100, 0 were learnt from"
    assert due(first, rules, now=1) == {"interference": Cause(reason)}
    again = state(*[there] * 4, start=ended(first, "interference", now=1))
    assert due(again, rules, now=2).keys() == {"interference"}
    assert again.kinds["interference"].learnt_gpu_models == {"A100": 100, "H100": 4}


def test_a_kind_is_not_looked_at_again_while_nothing_that_teaches_it_came():
    rules = RetrainRules(watch_jobs=4, watch_evidence=2)
    alone = replace(JOB, segments=(Segment(0.0, 9.0, "g0", "A100"),), structure=None)
    assert to_watch(state(*[alone] * 4), rules) == ("runtime",)
    seen = state(*[alone] * 4, JOB, JOB)
    assert to_watch(seen, rules) == ("interference", "runtime", "memory")
    looked = watched(seen, "interference")
    assert "interference" not in to_watch(state(*[alone] * 9, JOB, start=looked), rules)
    assert "interference" in to_watch(state(*[alone] * 9, JOB, JOB, start=looked), rules)


def test_refused_challengers_make_the_next_attempt_wait_for_more_until_something_drifts():
    rules = RetrainRules(min_jobs=1, min_evidence=2, cooldown_s=0, growth=0.1)
    known = ended(state(*[JOB] * 100), "runtime", now=0, is_refused=True)
    assert "runtime" not in due(state(*[JOB] * 19, start=known), rules, now=1)
    more = state(*[JOB] * 20, start=known)
    assert due(more, rules, now=1)["runtime"] == Cause("20 new jobs to learn from, wanted 20")
    again = more
    for _ in range(5):
        again = ended(again, "runtime", now=1, is_refused=True)
    assert "runtime" not in due(state(*[JOB] * 23, start=again), rules, now=2)
    assert "runtime" in due(state(*[JOB] * 24, start=again), rules, now=2)
    promoted = ended(again, "runtime", now=2)
    assert "runtime" in due(state(*[JOB] * 12, start=promoted), rules, now=3)
    changed = drifted(state(*[JOB] * 2, start=again), "runtime", Cause("drift", since=120), rows=2)
    assert due(changed, rules, now=3)["runtime"].reason == "drift"


def test_an_attempt_that_never_ends_is_told_apart_from_one_that_was_put_off():
    twice = begun(begun(state(JOB), "memory"), "memory")
    assert fatal(twice) == ("memory",)
    assert fatal(withdrawn(twice, "memory")) == ()
    assert fatal(ended(twice, "memory", now=1)) == ()


def test_the_state_is_found_again(tmp_path):
    path = tmp_path / "home" / "retrain.json"
    assert load_state(path) == RetrainState()
    saved = ended(state(JOB, JOB), "runtime", now=12.5)
    save_state(saved, path)
    save_state(saved, path)
    assert load_state(path) == saved
    assert [found.name for found in path.parent.iterdir()] == ["retrain.json"]


def test_a_damaged_state_is_named_with_the_next_step(tmp_path):
    (tmp_path / "retrain.json").write_text('{"sequence": "x"}')
    with pytest.raises(JobLogError, match=r"retrain\.json: sequence: found a text .* remove it"):
        load_state(tmp_path / "retrain.json")


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(JobLogError, match=r"retrain\.json: .*free space or give"):
        save_state(RetrainState(), tmp_path / "file" / "retrain.json")
