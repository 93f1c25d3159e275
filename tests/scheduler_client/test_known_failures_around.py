"""What users complained about beside the policy itself, by the thread: asking, memory, the loop.

The policy's own are in ``policy/test_known_failures.py``.
"""

import json
import logging
from dataclasses import replace

import numpy as np
import pytest

from data.domain import Estimate, Outcome, Source
from data.errors import ClusterError, SettingError
from scheduler_client.clusters import EndedRun
from scheduler_client.config import config_from
from scheduler_client.explaining.explainer import Explainer
from scheduler_client.jobs.spool import JobState
from scheduler_client.local import nvml
from scheduler_client.loop import Cycle
from scheduler_client.policy.decide import PolicyRules, decide
from scheduler_client.policy.policies import policy_named
from scheduler_client.policy.predictions import JobForecast
from scheduler_client.policy.view import ClusterView, Queue
from scheduler_client.replay.live import LivePolicy, PairForecasts
from tests.scheduler_client.test_loop import Bench

POLICY = policy_named("colocate", PolicyRules())
QUEUES = (Queue("research", 4, "all"),)
WANTED = {"user": "ada", "queue": "research", "job_key": "bert", "gpu_mem_mib": 8000}


def memory_of(value: float) -> JobForecast:
    return JobForecast(None, {"A100": Estimate(value, value, value, "m/1", Source.MODEL)})


def explained(view: ClusterView) -> Explainer:
    explainer = Explainer(POLICY, lambda view, most: {})
    explainer.observe(Cycle(view, POLICY.decide(view, {}), 0, (), view.cards))
    return explainer


@pytest.fixture
def bench(tmp_path, a_card, caplog):
    caplog.set_level(logging.INFO, logger="colocast.scheduler")
    bench = Bench(tmp_path, a_card)
    yield bench
    bench.close()


def test_kueue_4580_nobody_submits_a_dummy_job_to_find_out(a_card):
    view = ClusterView(0.0, (a_card("gpu0"), a_card("gpu1", "gan")), (), (), QUEUES)
    explainer = explained(view)
    assert explainer.whatif(WANTED)["placement"]["card_ids"] == ["gpu0"]
    assert explainer.why("what-if") is None
    assert view.pending == ()


@pytest.mark.parametrize("gpus", [1, 2, 3])
def test_kueue_4157_and_volcano_4738_a_dry_run_says_what_the_scheduler_then_does(
    a_card, a_pending, gpus
):
    cards = tuple(a_card(f"gpu{n}") for n in range(2))
    said = explained(ClusterView(0.0, cards, (), (), QUEUES)).whatif({**WANTED, "gpus": gpus})
    real = a_pending("7", gpus=gpus, gpu_mem_mib=8000)
    decision = decide(ClusterView(0.0, cards, (real,), (), QUEUES), {}, PolicyRules())
    assert said["starts_now"] == bool(decision.admissions)
    if decision.admissions:
        assert tuple(said["placement"]["card_ids"]) == decision.admissions[0].card_ids
    else:
        assert said["waiting"]["reason"] == decision.waiting[0].reason


def test_kueue_10168_and_15614_the_simulator_is_the_scheduler(toy_replay):
    """What a replay decides is decided by the very object that the loop asks."""
    asked = []

    class Watched:
        name, asks, max_jobs_per_card = "colocate", True, 2

        def decide(self, view, predictions):
            asked.append(view)
            return POLICY.decide(view, predictions)

    slow = [[1.05]]
    forecasts = PairForecasts(("a",), np.array(slow), np.array(slow), (1000,), 8000)
    simulation = toy_replay([(0, 10, 1, 0, 0), (1, 10, 1, 0, 0)], cards=1, slowdown=slow)
    simulation.run(LivePolicy(Watched(), forecasts))
    assert [len(view.pending) for view in asked] == [1, 1]


def test_cook_201_and_skypilot_10677_reasons_are_kept_as_a_series(a_card, a_pending):
    explainer = Explainer(POLICY, lambda view, most: {})
    full, empty = a_card("gpu0", "gan", "gan"), a_card("gpu0")
    held = (Queue("research", 4, "all", is_held=True),)
    for now, card, queues in ((1.0, full, QUEUES), (2.0, full, QUEUES), (3.0, empty, held)):
        view = ClusterView(now, (card,), (a_pending("7", gpu_mem_mib=100),), (), queues)
        explainer.observe(Cycle(view, POLICY.decide(view, {}), 0, (), view.cards))
    spans = explainer.why("7")["history"]
    assert [(s["reason"], s["first_time"], s["cycles"]) for s in spans] == [
        ("card_full", 1.0, 2),
        ("held", 3.0, 1),
    ]


def test_kueue_13607_a_full_kind_of_card_does_not_starve_who_would_take_another(a_card, a_pending):
    cards = (a_card("gpu0", "gan", "gan"), a_card("gpu1", gpu_model="T4"))
    view = ClusterView(0.0, cards, (a_pending("7", gpu_mem_mib=100),), (), QUEUES)
    assert [a.card_ids for a in POLICY.decide(view, {}).admissions] == [("gpu1",)]


def test_kai_49_what_a_job_is_known_to_use_counts_not_what_it_asks(a_card, a_pending):
    """A "4,000 MiB" job that uses 7,000 gets 7,000, or waits."""
    job = a_pending("7", gpu_mem_mib=4000)
    roomy = ClusterView(0.0, (a_card(free_mem_mib=8192),), (job,), (), QUEUES)
    (admission,) = POLICY.decide(roomy, {"7": memory_of(7000.0)}).admissions
    assert admission.mem_mib == (7000,)
    beside = ClusterView(0.0, (a_card("gpu0", "gan", free_mem_mib=5000),), (job,), (), QUEUES)
    assert POLICY.decide(beside, {"7": memory_of(7000.0)}).admissions == ()


def test_kai_49_a_job_that_used_more_than_was_reserved_raises_an_alarm(bench, caplog, monkeypatch):
    bench.submit(gpu_mem_mib=100)
    bench.loop.cycle()
    run = EndedRun("", 1, Outcome.OK, 0.0, 1e10, (), {"gpu_mem_peak_mib": 5000.0})
    (job_id,) = bench.loop.running
    monkeypatch.setattr(bench.cluster, "poll", lambda: (replace(run, job_id=job_id),))
    bench.loop.collect()
    said = [json.loads(record.getMessage()) for record in caplog.records]
    (alarm,) = [event for event in said if event["event"] == "memory_overshoot"]
    assert (alarm["reserved_mib"], alarm["peak_mib"]) == (100, 5000)


def test_kai_848_a_run_that_is_lost_is_not_started_for_ever(bench, monkeypatch):
    bench.submit()

    def lost(launch):
        raise ClusterError("no process can be started")

    monkeypatch.setattr(bench.cluster, "start", lost)
    for _ in range(20):
        bench.loop.cycle()
    outcomes = [attempt.finished.outcome for attempt in bench.spool.attempts()]
    assert outcomes == [Outcome.NODE_FAIL] * bench.config.settings.max_attempts
    assert bench.spool.jobs(JobState.PENDING) == ()


@pytest.mark.parametrize("used", [17 * 2**40, -1, float("nan"), 2**64 - 1])
def test_hami_952_a_reading_that_cannot_be_is_none(used):
    assert nvml.within(used, 80 * 2**30) is None


def test_hami_2242_a_quota_of_memory_is_refused_by_name_not_ignored():
    resources = ["nvidia.com/gpu", "nvidia.com/gpumem"]
    group = {"coveredResources": resources, "flavors": []}
    document = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "research"},
        "spec": {"resourceGroups": [group]},
    }
    with pytest.raises(SettingError, match=r"coveredResources: found .*gpumem"):
        config_from([document], "q.yaml")
