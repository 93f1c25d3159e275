import pytest

from data.domain import (
    Card,
    Estimate,
    FinishedJob,
    JobRequest,
    Outcome,
    Pair,
    Placement,
    Resident,
    Segment,
    Source,
)
from data.errors import NoChampionError
from serving.live.shadow import Overheard, Shadow

REQUEST = JobRequest("j1", "ada", "q", "ncf", 0.0)
PAIR = Pair("ncf", "bert", "A100")
CARD = Card("g0", "A100", 1000, (Resident("j2", "bert"),))
EMPTY = Card("g1", "A100", 1000)


class Fixed:
    """Answers every question with one number."""

    def __init__(self, value):
        self.value = value

    def estimate(self):
        return Estimate(self.value, 0.0, 99.0, "v", Source.MODEL)

    def runtimes(self, jobs, running=()):
        return tuple(self.estimate() for _ in jobs)

    def slowdowns(self, pairs):
        return tuple(self.estimate() for _ in pairs)

    def placements(self, job, cards):
        one = self.estimate()
        return tuple(Placement(c.card_id, one, (), one, True, 0.0) for c in cards)

    def memories(self, structures):
        return ("memory", self.value)


class Broken(Fixed):
    def runtimes(self, jobs, running=()):
        raise NoChampionError("none")


class Told(list):
    def shadow(self, *facts):
        self.append(facts)


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def shadowed(told):
    def make(champion, challenger):
        shadow = Shadow(lambda: challenger, lambda *key: 10.0, told)
        return Overheard(champion, shadow), shadow

    return make


def finished(job_id, seconds, *beside, outcome=Outcome.OK):
    parts = (Segment(0.0, seconds, "g0", "A100", beside),)
    return FinishedJob(job_id, 1, "ada", "q", "ncf", 1, 0.0, 0.0, seconds, outcome, parts)


def test_only_the_champion_answers_and_nobody_waits_for_the_shadow(shadowed):
    overheard, shadow = shadowed(Fixed(10.0), Fixed(20.0))
    assert [e.value for e in overheard.runtimes([REQUEST])] == [10.0]
    assert overheard.memories([]) == ("memory", 10.0)
    assert shadow.answer() == 1
    assert shadow.answer() == 0


def test_errors_are_compared_when_the_job_has_finished(shadowed, told):
    overheard, shadow = shadowed(Fixed(10.0), Fixed(20.0))
    overheard.runtimes([REQUEST])
    shadow.answer()
    shadow.observe([finished("other", 5.0), finished("j1", 20.0), finished("j1", 20.0)])
    assert told == [("runtime", 1, pytest.approx(0.693, abs=1e-3), 0.0)]


@pytest.mark.parametrize("asks", ["slowdowns", "placements"])
def test_slowdowns_are_compared_when_a_job_ran_beside_that_neighbour(shadowed, told, asks):
    overheard, shadow = shadowed(Fixed(1.5), Fixed(3.0))
    if asks == "slowdowns":
        overheard.slowdowns([PAIR])
    else:
        assert len(overheard.placements(REQUEST, [EMPTY, CARD])) == 2
    assert shadow.answer() == 1
    shadow.observe([finished("any", 30.0, "bert"), finished("any", 30.0, "resnet")])
    assert told == [("slowdown", 1, pytest.approx(0.693, abs=1e-3), 0.0)]


def test_a_job_that_failed_says_nothing(shadowed, told):
    overheard, shadow = shadowed(Fixed(10.0), Fixed(20.0))
    overheard.runtimes([REQUEST])
    shadow.answer()
    shadow.observe([finished("j1", 1.0, outcome=Outcome.FAILED)])
    assert told == []


def test_a_shadow_that_fails_or_is_gone_is_not_felt(shadowed, told, caplog):
    overheard, shadow = shadowed(Fixed(10.0), Broken(1.0))
    assert overheard.runtimes([REQUEST])[0].value == 10.0
    assert shadow.answer() == 0
    assert "the shadow cannot answer" in caplog.text
    gone, nobody = shadowed(Fixed(10.0), None)
    gone.runtimes([REQUEST])
    assert nobody.answer() == 0


def test_where_it_falls_behind_it_skips_requests(shadowed):
    overheard, shadow = shadowed(Fixed(10.0), Fixed(20.0))
    for _ in range(1000):
        overheard.runtimes([REQUEST])
    assert shadow.answer() == 256


def test_other_versions_begin_anew(shadowed):
    overheard, shadow = shadowed(Fixed(10.0), Fixed(20.0))
    overheard.runtimes([REQUEST])
    shadow.answer()
    shadow.observe([finished("j1", 20.0)])
    assert shadow.errors()["runtime"].count == 1
    shadow.forget()
    assert shadow.errors() == {}
