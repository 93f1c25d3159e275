import json
import logging
from dataclasses import replace

import pytest

from data.domain import FinishedJob, Outcome, Segment
from scheduler_client.forecast.remembered import KEEP_S, Remembered
from scheduler_client.jobs.spool import Spool
from scheduler_client.policy.view import ClusterView, Queue, RunningJob


@pytest.fixture
def spool(tmp_path):
    spool = Spool(tmp_path / "spool.db")
    yield spool
    spool.close()


def view_at(now: float) -> ClusterView:
    return ClusterView(now, ())


def test_what_is_held_becomes_history(spool):
    remembered = Remembered(spool, half_life_s=100.0, now=0.0)
    assert remembered.with_history(view_at(10.0)).history_gpus == {}
    remembered.holds({("q", "ada"): 2.0})
    history = remembered.with_history(view_at(110.0)).history_gpus
    assert history["q", "ada"] == pytest.approx(1.0)


def test_history_and_profiles_come_back_after_a_restart(spool):
    remembered = Remembered(spool, 100.0, now=0.0)
    remembered.holds({("q", "ada"): 1.0})
    remembered.with_history(view_at(100.0))
    segment = Segment(0.0, 1.0, "gpu0", "A100")
    remembered.learn(
        FinishedJob(
            "1",
            1,
            "ada",
            "q",
            "bert",
            1,
            0.0,
            0.0,
            1.0,
            Outcome.OK,
            (segment,),
            signals={"gpu_util_mean": 0.5},
        )
    )
    remembered.keep(100.0)
    again = Remembered(spool, 100.0, now=150.0)
    assert again.last_seen_time == 100.0
    assert again.profiles.signals("bert", "A100") == {"gpu_util_mean": 0.5}
    assert again.with_history(view_at(200.0)).history_gpus["q", "ada"] == pytest.approx(0.25)


def test_what_a_queue_borrowed_is_remembered_until_its_quota_would_have_given_it(spool):
    queues = (Queue("q", 1.0, "all"),)
    job = RunningJob("7", "ada", "q", "bert", ("gpu0", "gpu1", "gpu2"), 0.0)
    remembered = Remembered(spool, 100.0, now=0.0)
    remembered.with_history(ClusterView(0.0, (), running=(job,), queues=queues))
    idle = ClusterView(60.0, (), queues=queues)
    assert remembered.with_history(idle).ahead_gpu_s == {"q": 120.0}
    remembered.keep(60.0)
    again = Remembered(spool, 100.0, now=90.0)
    assert again.with_history(replace(idle, now=100.0)).ahead_gpu_s == {"q": 80.0}
    assert again.with_history(replace(idle, now=180.0)).ahead_gpu_s == {}


def test_it_is_not_written_in_every_cycle(spool):
    remembered = Remembered(spool, 100.0, now=0.0)
    remembered.keep(0.0)
    remembered.keep(KEEP_S - 0.1)
    assert spool.noted("last_seen_time") == 0.0
    remembered.keep(KEEP_S)
    assert spool.noted("last_seen_time") == KEEP_S


def test_what_cannot_be_read_any_more_is_forgotten_and_said(spool, caplog):
    caplog.set_level(logging.INFO, logger="colocast.scheduler")
    spool.note("usage", {"other": 1})
    spool.note("profiles", [1, 2])
    remembered = Remembered(spool, 100.0, now=5.0)
    assert remembered.with_history(view_at(6.0)).history_gpus == {}
    said = [json.loads(record.getMessage())["event"] for record in caplog.records]
    assert said == ["usage_forgotten", "profiles_forgotten"]


def test_a_scheduler_cannot_have_been_seen_in_the_future(spool):
    spool.note("last_seen_time", 1e12)
    assert Remembered(spool, 100.0, now=5.0).last_seen_time == 5.0
