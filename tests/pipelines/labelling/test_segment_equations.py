"""Planted slowdowns, found again from runs whose neighbours changed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.labelling.segment_equations import Equations, Prior, learnt_prior, solved

NOISE = 0.03
WORK_S = 1000.0


def planted(seed, runs, slowdowns, alone=5, noise=NOISE, crowd=None):
    """Runs of one job: each alone for a part, and beside some neighbours, one after the other."""
    rng = np.random.default_rng(seed)
    names = [(f"n{i}",) for i in range(len(slowdowns))]
    together = ((), *names, *([("n0", "n1")] if crowd else []))
    true = np.array([1.0, *slowdowns, *([crowd] if crowd else [])])
    rows = np.zeros((alone + runs, len(together)))
    rows[:alone, 0] = WORK_S * np.exp(rng.normal(0, noise, alone))
    for row in rows[alone:]:
        who = rng.choice(len(together), rng.integers(2, 4), replace=False)
        work = WORK_S * np.exp(rng.normal(0, noise)) * rng.dirichlet(np.ones(len(who)))
        row[who] = work * true[who]
    return Equations(together, rows), np.log(true[1:])


def estimates(found, equations):
    met = equations.together[1:]
    return (np.array([table[m] for m in met]) for table in (found.log_slowdown, found.log_sd))


def test_planted_slowdowns_are_found_within_their_stated_noise():
    misses, errors = [], []
    for seed in range(20):
        slowdowns = np.exp(np.random.default_rng(seed).uniform(0, 0.7, 6))
        equations, true = planted(seed, 30, slowdowns)
        found, sd = estimates(solved(equations, Prior(noise_sd=NOISE)), equations)
        misses += list((found - true) / sd)
        errors += list(abs(found - true))
    assert np.median(errors) < NOISE
    assert 0.8 < np.std(misses) < 1.25  # 1 if the deviations are honest
    assert np.abs(misses).max() < 4


def test_more_runs_tell_more():
    slowdowns = [1.1, 1.4, 1.8, 1.2]
    sds = []
    for runs in (4, 40, 400):
        equations, _ = planted(1, runs, slowdowns)
        _, sd = estimates(solved(equations, Prior(noise_sd=NOISE)), equations)
        sds.append(sd.mean())
    assert sds[0] > 2 * sds[1] > 4 * sds[2]


def test_what_no_run_tells_apart_stays_as_assumed_and_says_so():
    # Always beside both for the same share of its time: only their mixture is known.
    rows = np.array([[100.0, 0, 0]] * 5 + [[0.0, 70, 70]] * 50)
    equations = Equations(((), ("a",), ("b",)), rows)
    found = solved(equations, Prior(noise_sd=NOISE))
    assert found.known[("a",)] < 0.75
    assert found.log_slowdown[("a",)] == pytest.approx(found.log_slowdown[("b",)])
    assert np.exp(found.log_slowdown[("a",)]) == pytest.approx(1.4, rel=0.05)


def test_a_run_that_did_other_work_does_not_pull_the_others():
    equations, true = planted(2, 40, [1.3, 1.6])
    spoilt = equations.seconds.copy()
    spoilt[-1] *= 10
    found = solved(Equations(equations.together, spoilt), Prior(noise_sd=NOISE))
    values, _ = estimates(found, equations)
    np.testing.assert_allclose(values, true, atol=0.1)
    assert abs(found.residuals[-1]) > 30


def test_a_crowd_has_a_slowdown_of_its_own_near_the_sum_of_its_members():
    equations, true = planted(3, 60, [1.3, 1.5], crowd=2.3)
    found = solved(equations, Prior(noise_sd=NOISE))
    assert found.log_slowdown[("n0", "n1")] == pytest.approx(true[2], abs=0.1)
    alone = planted(3, 60, [1.3, 1.5])[0]
    never = Equations((*alone.together, ("n0", "n1")), np.pad(alone.seconds, ((0, 0), (0, 1))))
    unmet = solved(never, Prior(noise_sd=NOISE))
    both = unmet.log_slowdown[("n0",)] + unmet.log_slowdown[("n1",)]
    assert unmet.log_slowdown[("n0", "n1")] == pytest.approx(both)
    assert unmet.log_sd[("n0", "n1")] > 0.2


def test_a_job_that_was_only_ever_alone_has_its_baseline():
    found = solved(Equations(((),), np.array([[90.0], [100.0], [110.0]])), Prior())
    assert np.exp(found.log_baseline) == pytest.approx(100, rel=0.01)
    assert found.log_slowdown == {(): 0.0}


def test_the_prior_learns_from_all_pairs_and_keeps_the_noise():
    solutions = []
    for seed in range(10):
        slowdowns = np.exp(np.random.default_rng(seed).normal(0.5, 0.1, 4))
        solutions.append(solved(planted(seed, 40, slowdowns)[0], Prior(noise_sd=NOISE)))
    prior = learnt_prior(Prior(noise_sd=NOISE), solutions)
    assert prior.mean == pytest.approx(0.5, abs=0.08)
    assert prior.sd == pytest.approx(0.1, abs=0.05)
    assert prior.noise_sd == NOISE
    assert learnt_prior(prior, []) == prior


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.01, 100.0))
def test_the_unit_of_time_and_the_order_of_runs_do_not_matter(seed, factor):
    equations, _ = planted(seed, 8, [1.2, 1.5, 1.9])
    prior = Prior(noise_sd=NOISE)
    one = solved(equations, prior)
    order = np.random.default_rng(seed).permutation(len(equations.seconds))
    other = solved(Equations(equations.together, equations.seconds[order] * factor), prior)
    for met, value in one.log_slowdown.items():
        assert other.log_slowdown[met] == pytest.approx(value, abs=1e-4)
        assert other.log_sd[met] == pytest.approx(one.log_sd[met], rel=1e-3)
    assert other.log_baseline == pytest.approx(one.log_baseline + np.log(factor), abs=1e-4)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 30))
def test_work_is_shared_out_whole_and_nothing_is_known_better_than_certain(seed, runs):
    found = solved(planted(seed, runs, [1.2, 1.5, 1.9])[0], Prior(noise_sd=NOISE))
    np.testing.assert_allclose(found.work.sum(axis=1), 1.0)
    assert all(0 <= known <= 1 for known in found.known.values())
    assert all(sd >= 0 for sd in found.log_sd.values())


SECONDS = st.one_of(st.just(0.0), st.floats(1e-3, 1e7))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(SECONDS, SECONDS, SECONDS, SECONDS).filter(any), max_size=8),
    st.lists(st.floats(1e-3, 1e7), min_size=1, max_size=4),
)
def test_whatever_the_record_says_the_answer_is_finite(mixed, alone):
    rows = np.array([*([seconds, 0.0, 0.0, 0.0] for seconds in alone), *mixed])
    found = solved(Equations(((), ("a",), ("b",), ("a", "b")), rows), Prior())
    numbers = [*found.log_slowdown.values(), *found.log_sd.values(), *found.known.values()]
    assert np.isfinite([found.log_baseline, *numbers]).all()
    assert np.isfinite(found.work).all()
