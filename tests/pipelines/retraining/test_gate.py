import numpy as np
import pytest

from data.errors import SettingError
from pipelines.retraining.gate import verdict
from pipelines.retraining.gate_terms import Evidence, GateRules, undecided

RANDOM = np.random.default_rng(3)
NOISE = RANDOM.exponential(0.1, 60)
ALL = np.ones(60, dtype=bool)


def test_a_better_challenger_is_promoted_even_against_an_old_champion():
    found = verdict(Evidence(NOISE, ALL, champion_errors=NOISE + 0.05, champion_seen=10**6))
    assert found.promote
    assert found.reason.startswith("better on 60 rows: mean error 0.1")
    assert found.gain == pytest.approx(0.05)


def test_a_worse_challenger_is_refused_even_against_a_young_champion():
    found = verdict(Evidence(NOISE + 0.05, ALL, champion_errors=NOISE))
    assert not found.promote
    assert found.reason.startswith("worse on 60 rows")


@pytest.mark.parametrize(("learns", "promote"), [(0, False), (1249, False), (1250, True)])
def test_a_tie_goes_to_the_challenger_that_will_know_a_quarter_more(learns, promote):
    shuffled = np.random.default_rng(1).permutation(NOISE)
    found = verdict(
        Evidence(NOISE, ALL, champion_errors=shuffled, champion_seen=1000, challenger_seen=learns)
    )
    assert found.promote is promote


@pytest.mark.parametrize(("known", "promote"), [(0, True), (20, True), (21, False)])
def test_a_tie_goes_to_the_challenger_that_will_know_a_gpu_model_much_better(known, promote):
    shuffled = np.random.default_rng(1).permutation(NOISE)
    found = verdict(
        Evidence(
            NOISE, ALL, champion_errors=shuffled, champion_seen=1000,
            part_seen={"A100": (980, 990), "H100": (known, 30), "rare": (0, 5)},
        )
    )  # fmt: skip
    assert found.promote is promote


@pytest.mark.parametrize(("seen", "promote"), [(0, True), (199, True), (200, False)])
def test_a_tie_within_the_noise_depends_on_what_the_champion_has_seen(seen, promote):
    shuffled = np.random.default_rng(1).permutation(NOISE)
    found = verdict(Evidence(NOISE, ALL, champion_errors=shuffled, champion_seen=seen))
    assert found.gain_low < 0 < found.gain_high
    assert found.promote is promote
    assert ("saw only" if promote else "not better") in found.reason


@pytest.mark.parametrize(("factor", "promote"), [(1.04, True), (1.06, False)])
def test_a_tie_that_looks_worse_is_none(factor, promote):
    shuffled = np.random.default_rng(1).permutation(NOISE)
    found = verdict(Evidence(factor * NOISE, ALL, champion_errors=shuffled))
    assert found.gain_low < 0 < found.gain_high
    assert found.promote is promote


def test_the_interval_is_wider_where_rows_repeat_one_group():
    challenger, champion = np.repeat(NOISE[:6], 10), np.repeat(NOISE[6:12], 10)
    apart = verdict(Evidence(challenger, ALL, champion))
    together = verdict(Evidence(challenger, ALL, champion, groups=np.arange(60) // 10))
    assert together.gain == apart.gain
    assert together.gain_high - together.gain_low > 2 * (apart.gain_high - apart.gain_low)


def test_low_coverage_is_refused_however_good_the_values_are():
    covered = np.arange(60) >= 20
    found = verdict(Evidence(NOISE, covered, champion_errors=NOISE + 1))
    assert (found.promote, found.reason) == (False, "coverage 0.67 on 60 groups is below 0.75")
    assert verdict(Evidence(NOISE, covered), GateRules(coverage_floor=0.6)).promote


def test_a_batch_that_is_missed_as_a_whole_is_missed_once():
    groups = np.minimum(
        np.arange(60) // 2, 20
    )  # twenty pairs of rows, and twenty rows of one batch
    evidence = Evidence(NOISE, groups < 20, champion_errors=NOISE + 1, groups=groups)
    found = verdict(evidence)
    assert (found.promote, found.coverage) == (True, pytest.approx(20 / 21))
    alone = verdict(Evidence(NOISE, groups < 20, champion_errors=NOISE + 1))
    assert alone.reason == "coverage 0.67 on 60 groups is below 0.75"


def test_without_a_champion_coverage_alone_decides():
    found = verdict(Evidence(NOISE, ALL))
    assert found.promote
    assert found.reason.startswith("the first version: mean error 0.1")
    assert np.isnan([found.champion_error, found.gain, found.gain_low]).all()


@pytest.mark.parametrize("rows", [0, 7])
def test_few_rows_decide_nothing(rows):
    found = verdict(Evidence([0.0] * rows, [True] * rows, champion_errors=[1.0] * rows))
    assert (found.promote, found.rows) == (False, rows)
    assert found.reason == f"only {rows} new rows to judge by, wanted 8"


def test_few_groups_decide_nothing():
    found = verdict(Evidence(NOISE, ALL, NOISE + 1, groups=np.arange(60) % 2))
    assert (found.promote, found.groups) == (False, 2)
    assert found.reason == "only 2 groups of new rows to judge by, wanted 3"


def test_the_same_evidence_gets_the_same_verdict():
    evidence = Evidence(NOISE, ALL, champion_errors=np.roll(NOISE, 1))
    assert repr(verdict(evidence)) == repr(verdict(evidence))  # what was not judged is NaN


@pytest.mark.parametrize(
    ("evidence", "match"),
    [
        (Evidence([1.0, np.nan], [True] * 2), "challenger_errors must be finite .*, got nan"),
        (Evidence([-1.0], [True]), r"challenger_errors must be finite and not negative, got -1\.0"),
        (Evidence([1.0], [True] * 2), r"covered must have 1 rows, got shape \(2,\)"),
        (Evidence([1.0], [True], [1.0, 2.0]), r"champion_errors must have 1 rows"),
        (Evidence([1.0], [True], [1.0], groups=["a", "b"]), r"groups must have 1 rows"),
    ],
)
def test_evidence_that_does_not_fit_is_refused(evidence, match):
    with pytest.raises(SettingError, match=match):
        verdict(evidence)


def test_where_nothing_could_be_compared_the_champion_stays():
    found = undecided(3, "no labels")
    assert (found.promote, found.rows, found.reason) == (False, 3, "no labels")
    assert np.isnan(found.coverage)
