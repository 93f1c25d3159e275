import numpy as np
import pytest

from pipelines.registering.registry import Registry
from pipelines.retraining.challenge import answered
from pipelines.retraining.lessons import Answers
from pipelines.retraining.promotion import Promotions, promoted, shadowed
from tests.pipelines.retraining.test_challenge import NAMES, REPORT, ROWS, bundle, log_of


class Lesson:
    """Rows 1 to n; a model that is `x` off errs by about `x`, and covers below 1."""

    models = NAMES

    def __init__(self, n):
        self.sequences = np.arange(1, n + 1)
        self.groups = self.sequences.astype(np.str_)

    def answers(self, bundles, after):
        fresh = int((self.sequences > after).sum())
        off = float(bundles[0].predict(ROWS[:1])[0])
        noise = np.random.default_rng(int(off * 100)).uniform(0.9, 1.1, fresh)
        return Answers(off * noise, np.full(fresh, off < 1))


@pytest.fixture
def registry(settings):
    return Registry(settings.tracking_uri, settings.artifacts_path)


def registered(registry, error):
    return {name: registry.register(bundle(name, error), REPORT) for name in NAMES}


PROMOTIONS = Promotions(answered)


def settled(registry, n):
    return PROMOTIONS.settled(registry, Lesson(n), log_of(n))


def guarded(registry, n):
    return PROMOTIONS.guarded(registry, Lesson(n), log_of(n))


@pytest.fixture
def shadow(registry):
    def make(old, new):
        promoted(registry, registered(registry, old), 0)
        shadowed(registry, registered(registry, new), 10)

    return make


def test_a_shadow_that_is_no_worse_on_live_jobs_is_promoted(registry, shadow):
    shadow(0.5, 0.4)
    assert settled(registry, 17) == []  # seven rows since it began
    made = settled(registry, 18)
    assert [(c.stage, c.version, c.previous) for c in made] == [("promoted", "2", "1")] * 2
    for name in NAMES:
        assert (registry.champion(name), registry.previous(name)) == ("2", "1")
        assert registry.aliased(name, "shadow") is None
        assert registry.tags(name, "2")["colocast.shadow"] == "passed"
        assert registry.tags(name, "2")["colocast.promoted_at"] == "18"
    assert settled(registry, 30) == []


def test_a_shadow_that_is_worse_on_live_jobs_is_dropped_with_the_reason(registry, shadow):
    shadow(0.2, 0.4)
    made = settled(registry, 20)
    assert [c.stage for c in made] == ["kept"] * 2
    tags = registry.tags(NAMES[0], "2")
    assert tags["colocast.shadow"] == "refused"
    assert tags["colocast.shadow_reason"].startswith("worse on 10 rows")
    assert (registry.champion(NAMES[0]), registry.aliased(NAMES[0], "shadow")) == ("1", None)


def test_a_shadow_that_is_as_good_on_live_jobs_is_promoted(registry, shadow):
    shadow(0.4, 0.4)
    assert [c.stage for c in settled(registry, 20)] == ["promoted"] * 2


class Noisy(Lesson):
    """Each other row is answered three times worse by one model than by the other, in turn."""

    def answers(self, bundles, after):
        found = super().answers(bundles, after)
        is_new = float(bundles[0].predict(ROWS[:1])[0]) > 0.42
        turn = np.arange(len(found.errors)) % 2 == is_new
        return Answers(found.errors * np.where(turn, 3.0, 1.0), found.covered)


def test_a_shadow_is_not_dropped_for_what_few_live_jobs_show_by_chance(registry, shadow):
    shadow(0.4, 0.46)
    assert PROMOTIONS.settled(registry, Noisy(59), log_of(59)) == []  # 49 groups since it began
    made = PROMOTIONS.settled(registry, Noisy(60), log_of(60))
    assert [c.stage for c in made] == ["kept"] * 2
    assert made[0].verdict.reason.startswith("not better on 50 rows")


def test_a_champion_that_live_jobs_contradict_is_rolled_back_once(registry):
    promoted(registry, registered(registry, 0.2), 5)
    promoted(registry, registered(registry, 0.5), 10)
    assert guarded(registry, 25) == []  # fifteen rows since
    made = guarded(registry, 26)
    assert [(c.stage, c.version, c.previous) for c in made] == [("rolled_back", "1", "2")] * 2
    assert made[0].verdict.reason.startswith("worse than the version before on 16 live rows")
    for name in NAMES:
        assert (registry.champion(name), registry.previous(name)) == ("1", "2")
        assert registry.tags(name, "2")["colocast.rolled_back"] == made[0].verdict.reason
    assert guarded(registry, 60) == []


class Overconfident(Lesson):
    """The better a model is here, the less its intervals hold."""

    def answers(self, bundles, after):
        found = super().answers(bundles, after)
        return Answers(found.errors, np.full(len(found.errors), bool(found.errors.mean() > 0.45)))


def test_a_champion_whose_intervals_miss_live_jobs_is_rolled_back(registry):
    promoted(registry, registered(registry, 0.5), 5)
    promoted(registry, registered(registry, 0.4), 10)
    made = PROMOTIONS.guarded(registry, Overconfident(30), log_of(30))
    assert made[0].verdict.reason == "coverage 0.00 on 20 groups of live rows is below 0.60"
    assert registry.champion(NAMES[0]) == "1"


class OneBatch(Overconfident):
    """All its rows are of one batch."""

    def __init__(self, n):
        super().__init__(n)
        self.groups = np.zeros(n, dtype=np.str_)


def test_one_missed_batch_is_too_little_for_a_rollback(registry):
    promoted(registry, registered(registry, 0.5), 5)
    promoted(registry, registered(registry, 0.4), 10)
    assert PROMOTIONS.guarded(registry, OneBatch(30), log_of(30)) == []
    assert registry.champion(NAMES[0]) == "2"


def test_a_good_champion_or_the_only_one_stays(registry):
    promoted(registry, registered(registry, 0.5), 5)
    assert guarded(registry, 60) == []
    promoted(registry, registered(registry, 0.4), 10)
    assert guarded(registry, 60) == []
    assert registry.champion(NAMES[0]) == "2"
