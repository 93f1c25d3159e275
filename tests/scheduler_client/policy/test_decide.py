from dataclasses import replace

import pytest

from data.domain import Estimate, Resident, Source
from scheduler_client.policy.decide import PolicyRules, decide
from scheduler_client.policy.decisions import Level, Reason
from scheduler_client.policy.predictions import CardClass, Colocation, JobForecast
from scheduler_client.policy.scoring import Bound
from scheduler_client.policy.tolerance import Direction, ToleranceRule
from scheduler_client.policy.view import ClusterView, Queue, RunningJob

RESEARCH = Queue("research", 4, "all")
RULES = PolicyRules()


def estimate(value: float, upper: float | None = None, **fields) -> Estimate:
    return Estimate(value, value, upper or value, "m/1", Source.MODEL, **fields)


def forecast(mine: float, theirs: float, beside: str = "gan", **fields) -> JobForecast:
    colocation = Colocation(estimate(mine), (estimate(theirs),))
    return JobForecast(colocations={CardClass("A100", (beside,)): colocation}, **fields)


def view_of(cards, pending, queues=(RESEARCH,), now=0.0) -> ClusterView:
    running = tuple(
        RunningJob(r.job_id, "bob", "research", r.job_key, (card.card_id,), 0.0)
        for card in cards
        for r in card.residents
    )
    return ClusterView(now, tuple(cards), tuple(pending), running, tuple(queues))


@pytest.fixture
def busy(a_card):
    """A card where ``gan`` has reserved half the memory."""
    return a_card("gpu0", "gan", free_mem_mib=4096)


def test_a_job_goes_to_the_empty_card(busy, a_card, a_pending):
    view = view_of([busy, a_card("gpu1")], [a_pending(gpu_mem_mib=100)])
    (admission,) = decide(view, {"1": forecast(1.05, 1.05)}, RULES).admissions
    assert admission.card_ids == ("gpu1",)
    assert admission.slowdown.source is Source.EXCLUSIVE
    assert admission.reason == "alone"


def test_a_job_shares_where_slowdowns_are_tolerated(busy, a_pending):
    view = view_of([busy], [a_pending(gpu_mem_mib=100)])
    (admission,) = decide(view, {"1": forecast(1.2, 1.3, level=Level.MODEL)}, RULES).admissions
    assert admission.level is Level.MODEL
    assert admission.slowdown.value == 1.2
    assert [(job_id, e.value) for job_id, e in admission.neighbours] == [("gpu0-0", 1.3)]
    assert admission.reason == "beside gan"
    assert dict(admission.evidence)["worst_slowdown"] == 1.3


@pytest.mark.parametrize("listed", [("gpu1", "gpu2", "gpu3"), ("gpu3", "gpu2", "gpu1")])
def test_the_next_best_of_equal_score_are_ranked_by_their_ids(a_card, a_pending, listed):
    models = {"gpu1": "A100", "gpu2": "V100", "gpu3": "P100"}
    cards = [a_card(card_id, gpu_model=models[card_id]) for card_id in listed]
    view = view_of(cards, [a_pending(gpu_mem_mib=100)])
    (admission,) = decide(view, {"1": JobForecast(level=Level.MODEL)}, RULES).admissions
    chosen = [*admission.card_ids, *(found.card_id for found in admission.runners_up)]
    assert chosen == ["gpu2", "gpu1", "gpu3"]  # of equal gangs the later model's


@pytest.mark.parametrize(("mine", "theirs"), [(1.6, 1.0), (1.0, 1.6)])
def test_nobody_may_be_slowed_down_beyond_tolerance(busy, a_pending, mine, theirs):
    view = view_of([busy], [a_pending(gpu_mem_mib=100)])
    (waiting,) = decide(view, {"1": forecast(mine, theirs)}, RULES).waiting
    assert waiting.reason is Reason.TOLERANCE
    assert dict(waiting.evidence) == {
        "gpus": 1,
        "cards_fitting": 0,
        "cards_tolerance": 1,
        "tolerance": 1.5,
        "least_slowdown": 1.6,
    }


def test_the_upper_bound_counts_unless_configured_otherwise(busy, a_pending):
    view = view_of([busy], [a_pending(gpu_mem_mib=100)])
    wide = Colocation(estimate(1.2, 1.9), (estimate(1.1),))
    predictions = {"1": JobForecast(colocations={CardClass("A100", ("gan",)): wide})}
    assert decide(view, predictions, RULES).waiting[0].reason is Reason.TOLERANCE
    assert decide(view, predictions, replace(RULES, bound=Bound.VALUE)).admissions


def test_outside_what_was_learnt_the_upper_bound_counts_always(busy, a_pending):
    view = view_of([busy], [a_pending(gpu_mem_mib=100)])
    strange = Colocation(estimate(1.2, 1.9, in_domain=False), (estimate(1.1),))
    predictions = {"1": JobForecast(colocations={CardClass("A100", ("gan",)): strange})}
    decision = decide(view, predictions, replace(RULES, bound=Bound.VALUE))
    assert decision.waiting[0].reason is Reason.TOLERANCE


def test_an_unpredicted_neighbour_is_never_harmless(busy, a_pending):
    view = view_of([busy], [a_pending(gpu_mem_mib=100)])
    (waiting,) = decide(view, {}, RULES).waiting
    assert waiting.reason is Reason.NO_PREDICTION


def test_a_job_of_unknown_memory_gets_a_card_of_its_own(busy, a_card, a_pending):
    view = view_of([busy], [a_pending()])
    assert decide(view, {"1": forecast(1.0, 1.0)}, RULES).waiting[0].reason is Reason.MEMORY
    (admission,) = decide(view_of([a_card()], [a_pending()]), {}, RULES).admissions
    assert admission.mem_mib == (8192,)


def test_memory_is_compared_in_whole_mib(a_card, a_pending):
    card = a_card("gpu0", free_mem_mib=1000)
    assert decide(view_of([card], [a_pending(gpu_mem_mib=1000)]), {}, RULES).admissions
    (waiting,) = decide(view_of([card], [a_pending(gpu_mem_mib=1001)]), {}, RULES).waiting
    assert waiting.reason is Reason.MEMORY
    assert dict(waiting.evidence)["needed_mem_mib"] == 1001
    assert dict(waiting.evidence)["best_free_mem_mib"] == 1000


def test_the_upper_memory_bound_is_reserved(a_card, a_pending):
    predictions = {"1": JobForecast(memory={"A100": estimate(2000.0, 2500.4)})}
    (admission,) = decide(view_of([a_card()], [a_pending()]), predictions, RULES).admissions
    assert admission.mem_mib == (2501,)


def test_no_estimate_makes_a_job_unplaceable(a_card, a_pending):
    predictions = {"1": JobForecast(memory={"A100": estimate(2000.0, 999_999.0)})}
    (admission,) = decide(view_of([a_card()], [a_pending()]), predictions, RULES).admissions
    assert admission.mem_mib == (8192,)


def test_a_guess_yields_to_a_request(a_card, a_pending):
    guess = Estimate(7000.0, 10.0, 8000.0, "none", Source.COLD_START)
    predictions = {"1": JobForecast(memory={"A100": guess})}
    view = view_of([a_card()], [a_pending(gpu_mem_mib=300)])
    (admission,) = decide(view, predictions, RULES).admissions
    assert admission.mem_mib == (300,)


@pytest.mark.parametrize("gpus", [3, 5])
def test_gang_that_fits_starts_whole(a_card, a_pending, gpus):
    cards = [a_card(f"gpu{n}") for n in range(gpus)]
    view = view_of(cards, [a_pending(gpus=gpus)], [Queue("research", 8)])
    (admission,) = decide(view, {}, RULES).admissions
    assert sorted(admission.card_ids) == [card.card_id for card in cards]


def test_gang_that_fits_too_few_cards_waits(a_card, a_pending):
    cards = [a_card("gpu0"), a_card("gpu1", "gan", "gan")]
    (waiting,) = decide(view_of(cards, [a_pending(gpus=2)]), {}, RULES).waiting
    assert waiting.reason is Reason.GANG
    assert dict(waiting.evidence)["cards_fitting"] == 1


def test_gang_takes_cards_of_one_model(a_card, a_pending):
    cards = [a_card("gpu0"), a_card("gpu1", gpu_model="T4"), a_card("gpu2")]
    (admission,) = decide(view_of(cards, [a_pending(gpus=2)]), {}, RULES).admissions
    assert sorted(admission.card_ids) == ["gpu0", "gpu2"]


def test_while_a_gang_waits_empty_cards_are_kept_for_it(busy, a_card, a_pending):
    cards = [busy, a_card("gpu1")]
    pending = [a_pending("1", gpu_mem_mib=10), a_pending("2", gpus=2, gpu_model="A100")]
    decision = decide(view_of(cards, pending), {"1": forecast(1.05, 1.05)}, RULES)
    (admission,) = decision.admissions
    assert (admission.job_id, admission.card_ids) == ("1", ("gpu0",))


def test_a_later_job_of_the_cycle_sees_the_earlier_one(a_card, a_pending):
    pending = [a_pending("1", job_key="gan", gpu_mem_mib=10), a_pending("2", gpu_mem_mib=10)]
    decision = decide(view_of([a_card()], pending), {"2": forecast(1.1, 1.2)}, RULES)
    first, second = decision.admissions
    assert first.neighbours == ()
    assert second.neighbours[0][0] == "1"


def test_model_that_is_asked_for_is_given(a_card, a_pending):
    cards = [a_card("gpu0"), a_card("gpu1", gpu_model="T4")]
    (admission,) = decide(view_of(cards, [a_pending(gpu_model="T4")]), {}, RULES).admissions
    assert admission.card_ids == ("gpu1",)


def test_sick_card_is_avoided(a_card, a_pending):
    (waiting,) = decide(view_of([a_card(is_healthy=False)], [a_pending()]), {}, RULES).waiting
    assert waiting.reason is Reason.HEALTH


def test_full_card_is_full(a_card, a_pending):
    (waiting,) = decide(view_of([a_card("gpu0", "gan", "gan")], [a_pending()]), {}, RULES).waiting
    assert waiting.reason is Reason.CARD_FULL


@pytest.mark.parametrize(
    ("fields", "queues", "reason"),
    [
        ({"gpus": 2}, [RESEARCH], Reason.IMPOSSIBLE),
        ({"gpu_model": "H200"}, [RESEARCH], Reason.IMPOSSIBLE),
        ({"gpu_mem_mib": 9000}, [RESEARCH], Reason.IMPOSSIBLE),
        ({"queue": "nowhere"}, [RESEARCH], Reason.UNKNOWN_QUEUE),
        ({}, [replace(RESEARCH, is_held=True)], Reason.HELD),
        ({}, [Queue("research", 0)], Reason.QUOTA),
    ],
)
def test_a_job_that_cannot_start_says_why(a_card, a_pending, fields, queues, reason):
    (waiting,) = decide(view_of([a_card()], [a_pending(**fields)], queues), {}, RULES).waiting
    assert waiting.reason is reason


def test_a_job_that_cannot_start_is_passed(a_card, a_pending):
    pending = [a_pending("1", gpus=2, priority=9), a_pending("2")]
    decision = decide(view_of([a_card()], pending), {}, RULES)
    assert [a.job_id for a in decision.admissions] == ["2"]


def test_a_queue_borrows_what_others_leave_and_is_then_best_effort(a_card, a_pending):
    queues = [Queue("research", 1, "all"), Queue("other", 1, "all")]
    cards = [a_card("gpu0"), a_card("gpu1")]
    decision = decide(view_of(cards, [a_pending("1"), a_pending("2")], queues), {}, RULES)
    assert [a.is_guaranteed for a in decision.admissions] == [True, False]


def test_a_full_quota_still_lets_a_queue_pack_its_own_card(busy, a_pending):
    view = view_of([busy], [a_pending(gpu_mem_mib=10)], [Queue("research", 1)])
    assert decide(view, {"1": forecast(1.1, 1.1)}, RULES).admissions


def test_sharing_in_a_full_cohort_takes_nothing_from_it(busy, a_pending):
    queues = [Queue("research", 0.5, "all"), Queue("other", 0.5, "all")]
    pending = [a_pending(gpu_mem_mib=10, queue="other")]
    assert decide(view_of([busy], pending, queues), {"1": forecast(1.1, 1.1)}, RULES).admissions


def test_the_sources_rule_shares_less_on_a_busy_cluster(busy, a_pending):
    rules = replace(RULES, tolerance=ToleranceRule(Direction.FALLING))
    view = view_of([busy], [a_pending(gpu_mem_mib=10)])
    assert decide(view, {"1": forecast(1.2, 1.2)}, RULES).admissions
    assert decide(view, {"1": forecast(1.2, 1.2)}, rules).waiting[0].reason is Reason.TOLERANCE


def test_residents_of_nobodys_do_no_harm(a_card, a_pending):
    card = a_card().with_resident(Resident("foreign", "gan"), 100)
    view = ClusterView(0.0, (card,), (a_pending(gpu_mem_mib=10),), (), (RESEARCH,))
    assert decide(view, {"1": forecast(1.1, 1.1)}, RULES).admissions
