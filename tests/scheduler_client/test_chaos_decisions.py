"""Ten thousand decisions while the service dies, freezes, drips, lies and comes back."""

import itertools
import time
from collections import Counter
from dataclasses import dataclass, field

import pytest

from scheduler_client.config import PredictionSettings, SchedulerSettings
from scheduler_client.forecast.breaker import BreakerRules
from scheduler_client.forecast.client import PredictorClient
from scheduler_client.forecast.degrade import Forecaster
from scheduler_client.forecast.profiles import ProfileBook
from scheduler_client.policy.decisions import Level
from scheduler_client.policy.policies import policy_named
from scheduler_client.policy.view import ClusterView, Queue

pytestmark = pytest.mark.chaos

DECISIONS = 10_000
DEADLINE_S = 0.4
FRESH_S = 0.02  # so soon every answer must be asked for again
SETTINGS = SchedulerSettings(prediction=PredictionSettings(DEADLINE_S, FRESH_S, 60.0))
BREAKER = BreakerRules(failures_to_open=2, rest_s=0.05, longest_rest_s=1.0)
WRONGS = (
    "killed",
    "frozen",
    "slow",
    "garbage",
    "nan",
    "trickle_body",
    "error500",
    "trickle_headers",
    "busy",
    "unordered",
    "hang_up",
)
A_PHASE = 250  # decisions


@dataclass
class Made:
    """What came of the decisions."""

    levels: Counter = field(default_factory=Counter)
    late_s: list[float] = field(default_factory=list)
    lost: int = 0


@pytest.fixture
def view(a_pending, a_card):
    """Two kinds of pending jobs; a card that is free, and one that is shared."""
    pending = tuple(a_pending(str(n), job_key=key) for n, key in enumerate(("bert", "dlrm")))
    cards = (a_card("gpu0"), a_card("gpu1", "gan"))
    return ClusterView(0.0, cards, pending, queues=(Queue("research", 4.0),))


@pytest.fixture
def client(mortal_service):
    client = PredictorClient(mortal_service.url, DEADLINE_S, breaker=BREAKER)
    yield client
    client.close()


@pytest.fixture
def decide(client, view):
    """Make one decision, and note what came of it."""
    forecaster = Forecaster(client, SETTINGS.prediction, ProfileBook())
    policy = policy_named("colocate", SETTINGS.rules)
    wanted = {pending.job.job_id for pending in view.pending}

    def one(made: Made) -> Level:
        started_s = time.monotonic()
        predictions = forecaster.forecast(view, policy.max_jobs_per_card)
        decision = policy.decide(view, predictions)
        made.late_s.append(time.monotonic() - started_s - DEADLINE_S)
        placed = {admission.job_id for admission in decision.admissions}
        made.lost += predictions.keys() != wanted or not placed or not placed <= wanted
        made.levels[forecaster.level] += 1
        return forecaster.level

    return one


def begin(wrong: str, service) -> None:
    actions = {"killed": service.kill, "frozen": service.freeze}
    actions.get(wrong, lambda: service.mode(wrong))()


def end(wrong: str, service) -> None:
    actions = {"killed": service.start, "frozen": service.thaw}
    actions.get(wrong, lambda: service.mode("ok"))()


def until(level: Level, decide, made: Made, wrong: str) -> None:
    """Decide until decisions are made at a level; the loop would go on just so."""
    deadline = time.monotonic() + 20.0
    while decide(made) is not level:
        assert time.monotonic() < deadline, f"{wrong}: never at level {level} again"
        time.sleep(0.01)


def test_of_ten_thousand_decisions_none_is_lost_and_none_late(decide, mortal_service):
    made = Made()
    for wrong in itertools.cycle(WRONGS):
        until(Level.MODEL, decide, made, wrong)
        begin(wrong, mortal_service)
        until(Level.LAST_GOOD, decide, made, wrong)
        for _ in range(A_PHASE):
            decide(made)
        end(wrong, mortal_service)
        until(Level.MODEL, decide, made, wrong)
        for _ in range(A_PHASE):
            decide(made)
        if len(made.late_s) >= DECISIONS:
            break
    assert len(made.late_s) >= DECISIONS
    assert made.lost == 0
    assert max(made.late_s) <= DEADLINE_S, sorted(made.late_s)[-5:]
    assert made.levels[Level.MODEL] > DECISIONS / 3
    assert made.levels[Level.LAST_GOOD] > DECISIONS / 3
