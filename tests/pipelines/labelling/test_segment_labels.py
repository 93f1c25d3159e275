import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.labelling import segment_labels as module
from pipelines.labelling.segment_labels import NOISIEST, SegmentedRun, segment_labels

NOISE = 0.03
TRUE = {"a": 1.2, "b": 1.5, "c": 1.9, "d": 1.05}


def alone(n, seconds=1000.0, key="job"):
    return SegmentedRun(f"alone-{n}", key, "A100", {(): seconds})


def mixed(rng, n, shares=None, noise=NOISE, key="job"):
    """A run that was alone for a while and beside some of `TRUE`, one after the other."""
    who = list(shares or rng.choice(list(TRUE), rng.integers(2, 4), replace=False))
    parts = list(shares.values()) if shares else rng.dirichlet(np.ones(len(who)))
    work = 1000.0 * np.exp(rng.normal(0, noise))
    seconds = {(k,): p * work * TRUE[k] for k, p in zip(who, parts, strict=True)}
    return SegmentedRun(f"mixed-{n}", key, "A100", seconds, is_asked=True)


def runs(seed, count, baseline=5, noise=NOISE):
    rng = np.random.default_rng(seed)
    exclusive = [alone(n, 1000.0 * np.exp(rng.normal(0, noise))) for n in range(baseline)]
    return [*exclusive, *(mixed(rng, n, noise=noise) for n in range(count))]


def test_planted_slowdowns_come_back_as_labels_within_their_noise():
    misses = []
    for seed in range(10):
        misses += [
            np.log(label.slowdown / TRUE[label.neighbour_key]) / label.log_sd
            for label in segment_labels(runs(seed, 60), NOISE)
        ]
    assert len(misses) > 200
    assert np.std(misses) < 1.2
    assert np.abs(misses).max() < 4.5


def test_no_label_is_noisier_than_a_plain_one_may_be():
    labels = segment_labels(runs(1, 60), NOISE)
    assert max(label.log_sd for label in labels) <= NOISIEST * NOISE


def test_without_a_baseline_there_is_no_label():
    assert segment_labels(runs(1, 60, baseline=0), NOISE) == []
    elsewhere = [SegmentedRun("x", "job", "V100", {(): 1000.0}), *runs(1, 60, baseline=0)]
    assert segment_labels(elsewhere, NOISE) == []


def test_one_run_beside_two_strangers_tells_nothing():
    rng = np.random.default_rng(0)
    one = mixed(rng, 0, {"a": 0.5, "b": 0.5})
    assert segment_labels([*(alone(n) for n in range(5)), one], NOISE) == []


def test_runs_with_no_main_neighbour_tell_their_pairs_once_and_together():
    rng = np.random.default_rng(4)
    thirds = [dict.fromkeys(who, 1 / 3) for who in ("abc", "abd", "acd", "bcd")] * 6
    found = segment_labels(
        [*(alone(n) for n in range(20)), *(mixed(rng, n, s) for n, s in enumerate(thirds))], NOISE
    )
    joint = [label for label in found if label.is_joint]
    assert sorted(label.neighbour_key for label in joint) == list("abcd")
    assert len({label.run_id for label in found}) == len(found)
    for label in joint:
        assert label.slowdown == pytest.approx(TRUE[label.neighbour_key], rel=0.12)


def test_a_pair_that_a_plain_run_tells_is_not_filed_again():
    rng = np.random.default_rng(4)
    thirds = [dict.fromkeys(who, 1 / 3) for who in ("abc", "abd", "acd", "bcd")] * 6
    plain = SegmentedRun("plain", "job", "A100", {("a",): 1200.0})
    found = segment_labels(
        [*(alone(n) for n in range(20)), plain, *(mixed(rng, n, s) for n, s in enumerate(thirds))],
        NOISE,
    )
    assert "a" not in {label.neighbour_key for label in found if label.is_joint}


def test_a_run_that_did_other_work_has_no_label():
    everything = runs(3, 40)
    odd = everything[-1]
    tenfold = {met: 10 * seconds for met, seconds in odd.seconds.items()}
    spoilt = [*everything[:-1], SegmentedRun("odd", "job", "A100", tenfold, is_asked=True)]
    labels = segment_labels(spoilt, NOISE)
    assert labels
    assert "odd" not in {label.run_id for label in labels}


def test_labels_are_of_the_job_whose_runs_they_come_from():
    other = [alone(100 + n, 10.0, "other") for n in range(5)]
    labels = segment_labels([*other, *runs(6, 30)], NOISE)
    only = segment_labels(runs(6, 30), NOISE)
    assert {label.run_id for label in labels} == {label.run_id for label in only}


def test_only_the_newest_runs_are_solved(monkeypatch):
    monkeypatch.setattr(module, "MOST_RUNS", 40)
    labels = segment_labels(runs(2, 100, baseline=30), NOISE)
    numbers = [int(label.run_id.split("-")[1]) for label in labels]
    assert numbers
    assert min(numbers) >= 70


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 25), st.integers(0, 4))
def test_at_most_one_label_a_run_and_only_of_whom_it_met(seed, count, baseline):
    everything = runs(seed, count, baseline)
    by_id = {run.run_id: run for run in everything}
    labels = segment_labels(everything, NOISE)
    assert len({label.run_id for label in labels}) == len(labels)
    for label in labels:
        assert (label.neighbour_key,) in by_id[label.run_id].seconds
        assert by_id[label.run_id].is_asked
        assert label.slowdown > 0
