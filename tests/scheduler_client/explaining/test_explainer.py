import pytest

from data.domain import Estimate, Source
from data.errors import SettingError
from scheduler_client.explaining.explainer import Explainer
from scheduler_client.explaining.texts import placement_text, whatif_text, why_text
from scheduler_client.explaining.wait_book import WaitBook
from scheduler_client.loop import Cycle
from scheduler_client.policy.decide import PolicyRules
from scheduler_client.policy.decisions import Level
from scheduler_client.policy.policies import policy_named
from scheduler_client.policy.predictions import CardClass, Colocation, JobForecast
from scheduler_client.policy.view import ClusterView, Queue, RunningJob

POLICY = policy_named("colocate", PolicyRules())
QUEUES = (Queue("research", 4, "all"),)


def slow(value: float) -> Estimate:
    return Estimate(value, value, value, "m/1", Source.MODEL)


def forecast(slowdown: float) -> JobForecast:
    beside = {CardClass("A100", ("gan",)): Colocation(slow(slowdown), (slow(1.1),))}
    runtime = Estimate(100.0, 50.0, 200.0, "m/1", Source.CLUSTER_MODEL)
    return JobForecast(runtime, {}, beside, Level.MODEL)


@pytest.fixture
def busy(a_card):
    """Two cards: `gan` on one, two of them on the other."""
    cards = (a_card("gpu0", "gan", free_mem_mib=4096), a_card("gpu1", "gan", "gan"))
    running = tuple(
        RunningJob(r.job_id, "bob", "research", "gan", (card.card_id,), 0.0, runtime=slow(n))
        for n, card in zip((300.0, 900.0), cards, strict=True)
        for r in card.residents
    )
    return cards, running


def seen(explainer, cards, running, *pending, now=0.0, slowdown=1.7) -> Cycle:
    view = ClusterView(now, cards, pending, running, QUEUES)
    predictions = {p.job.job_id: forecast(slowdown) for p in pending}
    decision = POLICY.decide(view, predictions)
    cycle = Cycle(view, decision, len(running), (), cards, Level.MODEL, predictions)
    explainer.observe(cycle)
    return cycle


@pytest.fixture
def explainer():
    def forecasts(view, most_jobs):
        return {p.job.job_id: forecast(1.2) for p in view.pending}

    return Explainer(POLICY, forecasts, clock=lambda: 0.0)


def test_waits_are_not_estimated_all_the_time(busy, a_pending):
    """It took 2 s: in the next cycle there is no time for that, and 20 s later there is."""
    moments = iter([0.0, 2.0, 2.0, 3.0, 22.0, 24.0, 24.0])
    book = WaitBook()
    explainer = Explainer(POLICY, lambda view, most: {}, book, clock=lambda: next(moments))
    told = []
    for job_id in ("1", "2", "3"):
        seen(explainer, *busy, a_pending(job_id, gpu_mem_mib=8000), now=100.0)
        told.append(job_id not in book.due([job_id], 100.0))
    assert told == [True, False, True]


def test_before_the_first_cycle_nothing_is_known(explainer):
    assert explainer.why("7") is None
    assert explainer.placement("7") is None
    assert explainer.whatif({"user": "ada", "queue": "research", "job_key": "bert"}) is None


def test_why_gives_reason_evidence_step_and_wait(explainer, busy, a_pending):
    seen(explainer, *busy, a_pending("7", gpu_mem_mib=100), now=100.0)
    found = explainer.why("7")
    assert found["state"] == "waiting"
    assert found["waiting"]["reason"] == "tolerance"
    assert found["waiting"]["evidence"]["least_slowdown"] == 1.7
    assert "1.70" in found["waiting"]["next_step"]
    assert found["wait"]["value_s"] == 200.0
    assert "more than is tolerated" in why_text(found)


def test_the_wait_is_corrected_by_how_long_others_waited(explainer, busy, a_card, a_pending):
    def estimated(job_id):
        seen(explainer, *busy, a_pending(job_id, gpu_mem_mib=100), now=100.0)
        return explainer.why(job_id)["wait"]

    plain = estimated("0")
    for number in range(60):
        estimated(f"{number}")
        job = a_pending(f"{number}", gpu_mem_mib=100)
        seen(explainer, (a_card("gpu9"),), (), job, now=120.0)  # it starts
    found = estimated("last")
    assert (plain["calibrated_on"], found["calibrated_on"]) == (0, 60)
    assert plain["value_s"] == found["value_s"] == 200.0
    assert found["lower_s"] < 20.0 < found["upper_s"]
    assert "as 60 waits before went" in why_text(explainer.why("last"))
    asked_for = explainer.whatif(asked(gpu_mem_mib=8000))
    assert asked_for["wait"]["calibrated_on"] == 60


def test_history_tells_stretches_of_equal_reasons(explainer, busy, a_card, a_pending):
    cards, running = busy
    for now, slowdown in ((1.0, 1.7), (2.0, 1.8), (3.0, 1.8)):
        seen(explainer, cards, running, a_pending("7", gpu_mem_mib=100), now=now, slowdown=slowdown)
    seen(explainer, cards, running, a_pending("7", gpu_mem_mib=9000), now=4.0)
    history = explainer.why("7")["history"]
    assert [(s["reason"], s["first_time"], s["last_time"], s["cycles"]) for s in history] == [
        ("tolerance", 1.0, 3.0, 3),
        ("impossible", 4.0, 4.0, 1),
    ]
    assert explainer.why("7")["wait"] is None


def test_a_placement_is_explained_with_terms_next_best_and_why_not(
    explainer, busy, a_card, a_pending
):
    cards = (*busy[0], a_card("gpu2"), a_card("gpu3", is_healthy=False))
    seen(explainer, cards, busy[1], a_pending("7", gpu_mem_mib=100), slowdown=1.2)
    found = explainer.placement("7")
    assert found["card_ids"] == ["gpu2"]
    assert found["terms"]["slowdown"] == 1.0
    (second,) = found["next_best"]
    assert (second["card_id"], second["beside"]) == ("gpu0", ["gan"])
    assert second["score"] < found["terms"]["score"]
    assert second["worst_slowdown"] == 1.2
    assert found["why_not"] == {"health": 1, "card_full": 1}
    assert "next best: gpu0 beside gan" in placement_text(found)


def test_a_job_that_ended_is_still_explained(explainer, busy, a_card, a_pending):
    seen(explainer, (a_card(),), (), a_pending("7", gpu_mem_mib=100))
    seen(explainer, (a_card(),), ())
    assert explainer.why("7")["state"] == "ended"
    assert "on gpu0, alone" in why_text(explainer.why("7"))


def test_a_job_that_nobody_knows_is_not_explained(explainer, busy):
    seen(explainer, *busy)
    assert explainer.why("7") is None


def asked(**fields):
    return {"user": "ada", "queue": "research", "job_key": "bert", "gpu_mem_mib": 100, **fields}


def test_whatif_says_where_how_slow_and_what_it_does_to_others(explainer, busy):
    seen(explainer, *busy)
    found = explainer.whatif(asked())
    assert found["starts_now"]
    assert found["placement"]["card_ids"] == ["gpu0"]
    assert found["runtime_s"]["value"] == pytest.approx(120.0)
    (neighbour,) = found["others"]["slowed_down"]
    assert (neighbour["job_id"], neighbour["slowdown"]["value"]) == ("gpu0-0", 1.1)
    assert "it would start now" in whatif_text(found)


def test_whatif_says_who_would_have_to_wait(explainer, a_card, a_pending):
    pending = a_pending("7", gpu_mem_mib=8000, submit_time=5.0, limit_s=900.0)
    seen(explainer, (a_card(),), (), pending, now=10.0)
    found = explainer.whatif(asked(gpu_mem_mib=8000, priority=5))
    assert found["others"]["would_wait"] == ["7"]


def test_whatif_says_when_a_job_would_start(explainer, busy):
    seen(explainer, *busy, now=100.0)
    found = explainer.whatif(asked(gpu_mem_mib=8000))
    assert not found["starts_now"]
    assert found["waiting"]["reason"] == "memory"
    assert found["wait"]["value_s"] == 200.0
    assert "it would wait" in whatif_text(found)


def test_whatif_changes_nothing(explainer, busy, a_pending):
    cycle = seen(explainer, *busy, a_pending("7", gpu_mem_mib=100))
    before = explainer.why("7")
    explainer.whatif(asked())
    assert explainer.why("7") == before
    assert len(cycle.view.pending) == 1


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"user": "ada"}, "queue"),
        (asked(gpus=0), "gpus must be a whole number"),
        (asked(surprise=1), "surprise"),
        ([], "JSON object|list|Asked"),
    ],
)
def test_a_question_that_describes_no_job_is_refused(explainer, busy, document, said):
    seen(explainer, *busy)
    with pytest.raises(SettingError, match=said):
        explainer.whatif(document)
