import numpy as np
import pytest

from pipelines.retraining.watch import MONTH_S, Observations, WatchRules, drifts

HOUR_S = 3600.0


def stream(errors, seed=0, **more):
    n = len(errors)
    rng = np.random.default_rng(seed)
    users = rng.choice(["ada", "bob", "eve"], n)
    models = rng.choice(["A100", "V100"], n)
    return Observations(
        np.arange(1, n + 1),
        np.arange(n) * HOUR_S,
        {"error": np.asarray(errors, dtype=np.float64)},
        {"user": users, "gpu_model": models},
        **more,
    )


def test_a_month_without_a_change_raises_less_than_the_promised_alarms():
    months = 60
    hours = int(MONTH_S / HOUR_S)
    rng = np.random.default_rng(5)
    alarms = sum(len(drifts(stream(rng.exponential(1, hours), at))) > 0 for at in range(months))
    assert alarms / months <= 0.25


def test_a_change_of_one_user_names_that_user_and_when_it_began():
    seen = stream(np.random.default_rng(2).exponential(1, 700))
    late = (np.arange(700) >= 500) & (seen.labels["user"] == "bob")
    seen.signals["error"][late] += 5
    found = drifts(seen)
    assert "error of user=bob" in {drift.stream for drift in found}
    first = found[0]
    assert 500 <= first.sequence < 560
    assert 480 <= first.since <= 510  # every third observation is his
    assert first.reason.startswith(f"{first.stream} changed {first.rows} observations ago")


def test_a_batch_is_one_observation():
    errors = np.random.default_rng(3).exponential(1, 300)
    errors[200:] = 50.0  # one user's hundred jobs of a minute
    batches = np.append(np.arange(200), np.full(100, 999))
    assert drifts(stream(errors))
    assert not drifts(stream(errors, batches=batches))
    assert len(stream(errors, batches=batches).merged()) == 201


def test_what_was_not_observed_is_left_out_of_a_batch_and_of_a_stream():
    seen = Observations(
        np.arange(3), np.arange(3.0), {"slower": np.array([np.nan, 2.0, np.nan])},
        batches=np.array(["a", "a", "b"]),
    )  # fmt: skip
    np.testing.assert_array_equal(seen.merged().signals["slower"], [2.0, np.nan])


def test_too_few_observations_are_no_stream():
    assert drifts(stream([1.0] * 5 + [99.0] * 6), WatchRules(fewest=12)) == []


@pytest.mark.parametrize("few", [0.05, 0.25, 1.0])
def test_fewer_false_alarms_need_more_evidence(few):
    errors = np.append(np.random.default_rng(4).random(300), np.full(60, 2.0))
    found = drifts(stream(errors), WatchRules(false_alarms_a_month=few))
    first = next(drift for drift in found if drift.stream == "error of all")
    assert first.evidence >= first.threshold
    assert first.threshold == pytest.approx(6 * 720 / few, rel=0.01)
