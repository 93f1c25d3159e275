import pytest

from data.domain import Pair
from data.joblog import JobLog
from serving.champions.cache import ModelCache
from serving.metrics import Metrics
from serving.state import ServingState
from tests.serving.conftest import FolderChampions

NAME = "colocast-interference"
PAIRS = [Pair("k1", "k2", "v100"), Pair("k3", "k4", "v100")]


@pytest.fixture
def shadows(versions):
    return FolderChampions(versions)


@pytest.fixture
def state(champions, shadows, tmp_path):
    made = ServingState(
        champions,
        ModelCache(tmp_path / "cache"),
        lambda: JobLog(f"sqlite:///{tmp_path / 'joblog.db'}"),
        Metrics(),
    )
    made.shadow_by(shadows, ModelCache(tmp_path / "shadow"))
    made.refresh()
    yield made
    made.stop()


def test_the_shadow_answers_what_was_asked_and_nobody_sees_it(state, shadows):
    before = state.predictor().slowdowns(PAIRS)
    shadows.champions[NAME] = "2"
    state.follow_shadow()
    answers = state.predictor().slowdowns(PAIRS)
    assert answers == before
    assert {estimate.model_version for estimate in answers} == {f"{NAME}/1"}
    assert state._shadow.answer() == 2
    both = state._shadow._known["slowdown", ("k1", "k2", "v100")]
    assert both.champion == answers[0].value
    assert both.shadow == pytest.approx(both.champion + 0.25, abs=0.05)


def test_a_shadow_whose_alias_is_gone_or_moved_is_forgotten(state, shadows):
    shadows.champions[NAME] = "2"
    state.follow_shadow()
    state.predictor().slowdowns(PAIRS)
    state.follow_shadow()
    assert state._shadow._known
    del shadows.champions[NAME]
    state.follow_shadow()
    assert not state._shadow._known
    state.predictor().slowdowns(PAIRS)
    assert state._shadow.answer() == 0


def test_a_shadow_that_fails_its_checks_never_answers(state, shadows):
    shadows.champions[NAME] = "bad"
    state.follow_shadow()
    state.predictor().slowdowns(PAIRS)
    assert state._shadow.answer() == 0
    assert state.predictor().slowdowns(PAIRS)[0].model_version == f"{NAME}/1"


def test_a_registry_that_is_down_keeps_the_shadow(state, shadows):
    shadows.champions[NAME] = "2"
    state.follow_shadow()
    shadows.is_down = True
    state.follow_shadow()
    state.predictor().slowdowns(PAIRS)
    assert state._shadow.answer() == 2
