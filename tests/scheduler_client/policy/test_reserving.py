from dataclasses import replace

import pytest

from data.domain import Estimate, Source
from scheduler_client.policy.decide import PolicyRules, decide
from scheduler_client.policy.decisions import Level, Reason
from scheduler_client.policy.predictions import CardClass, Colocation, JobForecast
from scheduler_client.policy.reserving import ReservationRules
from scheduler_client.policy.view import ClusterView, Queue, Reservation, RunningJob

RULES = PolicyRules(reservation=ReservationRules(after_s=60.0))
NOW = 1000.0


def seconds(value: float, lower: float | None = None, upper: float | None = None) -> Estimate:
    return Estimate(value, lower or value, upper or value, "m/1", Source.MODEL)


def runs_for(estimate: Estimate, *beside: str) -> JobForecast:
    light = Estimate(1.05, 1.0, 1.1, "m/1", Source.MODEL)
    known = {CardClass("A100", (key,)): Colocation(light, (light,)) for key in beside}
    return JobForecast(estimate, {}, known, Level.MODEL)


@pytest.fixture
def view(a_card, a_pending):
    """Two cards, one of them busy; a gang of two has waited for long."""
    cards = (a_card("gpu0", "gan", free_mem_mib=6000), a_card("gpu1"))
    running = (
        RunningJob(
            "gpu0-0",
            "bob",
            "lab",
            "gan",
            ("gpu0",),
            NOW - 100,
            runtime=seconds(300.0, 250.0, 400.0),
        ),
    )
    gang = a_pending("gang", gpus=2, queue="lab", submit_time=0.0)
    return ClusterView(NOW, cards, (gang,), running, (Queue("lab", 4),))


def with_small(view, a_pending, **fields) -> ClusterView:
    small = a_pending("small", queue="lab", submit_time=NOW, gpu_mem_mib=10, **fields)
    return replace(view, pending=(*view.pending, small))


def reserved(view) -> ClusterView:
    return replace(view, reservations=decide(view, {}, RULES).reservations)


def test_a_gang_that_has_waited_long_gets_a_reservation(view):
    (reservation,) = decide(view, {}, RULES).reservations
    assert reservation == Reservation("gang", NOW)


def test_a_gang_that_has_just_come_gets_none(view):
    patient = replace(RULES, reservation=ReservationRules(after_s=2000.0))
    assert decide(view, {}, patient).reservations == ()


def test_a_gang_that_its_quota_forbids_gets_none(view):
    assert decide(replace(view, queues=(Queue("lab", 1),)), {}, RULES).reservations == ()


def test_a_reserved_card_is_kept_from_a_stream_of_small_jobs(view, a_pending):
    later = with_small(reserved(view), a_pending)
    decision = decide(later, {"small": runs_for(seconds(1000.0), "gan")}, RULES)
    assert decision.admissions == ()
    assert {w.job_id: w.reason for w in decision.waiting} == {
        "gang": Reason.GANG,
        "small": Reason.RESERVED,
    }
    assert decision.reservations == later.reservations


def test_a_job_that_ends_in_time_is_backfilled(view, a_pending):
    # The busy card is free in 150 s at the earliest; 90 s, slowed down by 1.5, end before.
    later = with_small(reserved(view), a_pending)
    decision = decide(later, {"small": runs_for(seconds(60.0, 30.0, 90.0))}, RULES)
    assert [a.job_id for a in decision.admissions] == ["small"]


@pytest.mark.parametrize("upper", [110.0, 1000.0])
def test_a_job_that_may_end_too_late_is_not(view, a_pending, upper):
    later = with_small(reserved(view), a_pending)
    assert decide(later, {"small": runs_for(seconds(60.0, 30.0, upper))}, RULES).admissions == ()


def test_a_limit_is_as_good_as_a_prediction(view, a_pending):
    later = with_small(reserved(view), a_pending, limit_s=100.0)
    assert [a.job_id for a in decide(later, {}, RULES).admissions] == ["small"]


def test_a_job_of_unknown_length_is_not_backfilled(view, a_pending):
    assert decide(with_small(reserved(view), a_pending), {}, RULES).admissions == ()


def test_the_gang_starts_as_soon_as_its_cards_are_free(view, a_card, a_pending):
    free = replace(reserved(view), cards=(a_card("gpu0"), a_card("gpu1")), running=())
    decision = decide(with_small(free, a_pending), {}, RULES)
    assert decision.admissions[0].job_id == "gang"
    assert decision.reservations == ()


def test_a_reservation_takes_no_more_cards_than_the_gang_needs(view, a_card, a_pending):
    later = with_small(reserved(view), a_pending)
    later = replace(later, cards=(*later.cards, a_card("gpu2", "gan"), a_card("gpu3", "gan")))
    decision = decide(later, {"small": runs_for(seconds(9e9), "gan")}, RULES)
    (admission,) = decision.admissions
    assert admission.card_ids[0] in {"gpu2", "gpu3"}


def test_a_reservation_of_a_job_that_is_gone_is_dropped(view):
    gone = replace(reserved(view), pending=())
    assert decide(gone, {}, RULES).reservations == ()


def test_sick_cards_are_not_kept(view, a_pending):
    sick = replace(reserved(view), cards=tuple(replace(c, is_healthy=False) for c in view.cards))
    decision = decide(with_small(sick, a_pending), {}, RULES)
    assert {w.reason for w in decision.waiting} == {Reason.HEALTH}


def test_a_card_that_is_kept_twice_is_kept_for_whom_it_was_first(view, a_pending):
    kept = (Reservation("gang", 1.0, ("gpu1",)), Reservation("small", 2.0, ("gpu1",)))
    later = replace(with_small(view, a_pending), reservations=kept)
    assert decide(later, {}, RULES).admissions == ()


def test_freed_cards_are_not_chosen_for_an_older_reservation(view, a_card, a_pending):
    cards = (a_card("gpu0"), a_card("gpu1"))
    kept = (Reservation("gang", 1.0), Reservation("small", 2.0, ("gpu1",)))
    later = replace(with_small(view, a_pending), cards=cards, running=(), reservations=kept)
    assert [a.job_id for a in decide(later, {}, RULES).admissions] == ["small"]
