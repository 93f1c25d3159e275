"""The real loop with real processes, while its service dies, freezes, lies and comes back."""

import json
import logging
import sys
import threading
import time
from collections import Counter

import pytest

from scheduler_client.config import PredictionSettings, SchedulerConfig, SchedulerSettings
from scheduler_client.forecast.breaker import BreakerRules
from scheduler_client.forecast.client import PredictorClient
from scheduler_client.forecast.degrade import Forecaster
from scheduler_client.forecast.remembered import Remembered
from scheduler_client.jobs.delivery import Delivery
from scheduler_client.jobs.outbox import Outbox
from scheduler_client.jobs.spool import Spool
from scheduler_client.jobs.submission import Submission
from scheduler_client.local.cluster import LocalCluster
from scheduler_client.local.devices import Device
from scheduler_client.loop import LoopParts, SchedulerLoop
from scheduler_client.policy.policies import policy_named
from scheduler_client.run import RunRules, run

SETTINGS = SchedulerSettings(prediction=PredictionSettings(0.3, 0.0, 60.0))
BREAKER = BreakerRules(failures_to_open=2, rest_s=0.05, longest_rest_s=0.2)
COMMANDS = (("/bin/sleep", "0.05"), (sys.executable, "-I", "-c", "sum(range(100_000))"))


class LiveLoop:
    """A loop in a thread of its own, against a fake service."""

    def __init__(self, folder, service) -> None:
        self.spool = Spool(folder / "spool.db")
        self.outbox = Outbox(folder / "outbox.db")
        self.client = PredictorClient(service.url, 0.3, breaker=BREAKER)
        remembered = Remembered(self.spool, 3600.0, time.time())
        devices = [Device(f"cpu{n}", "cpu", 0, "cpu", 1000, f"cpu{n}") for n in (0, 1)]
        parts = LoopParts(
            spool=self.spool,
            cluster=LocalCluster(devices, folder / "jobs"),
            policy=policy_named("colocate", SETTINGS.rules),
            forecaster=Forecaster(self.client, SETTINGS.prediction, remembered.profiles),
            delivery=Delivery(self.spool, self.outbox, self.client),
            remembered=remembered,
            config=SchedulerConfig(settings=SETTINGS),
        )
        self.stop = threading.Event()
        loop, rules = SchedulerLoop(parts), RunRules(cycle_s=0.02, grace_s=1.0)
        self.thread = threading.Thread(target=lambda: run(loop, parts, rules, self.stop))
        self.submitted: list[str] = []
        self.thread.start()

    def submit(self) -> None:
        for command in COMMANDS:
            job = Submission("ada", "ada", command[0], command, gpu_mem_mib=100)
            self.submitted.append(self.spool.submit(job))

    def close(self) -> None:
        self.stop.set()
        self.thread.join()
        for part in (self.spool, self.outbox, self.client):
            part.close()


@pytest.fixture
def live(mortal_service, tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="colocast.scheduler")
    live = LiveLoop(tmp_path, mortal_service)
    yield live
    live.close()


@pytest.fixture
def said(caplog):
    def names() -> list[str]:
        return [json.loads(record.getMessage())["event"] for record in list(caplog.records)]

    return names


def outage(name: str, service) -> None:
    actions = {"killed": service.kill, "frozen": service.freeze}
    actions.get(name, lambda: service.mode(name))()


def repair(name: str, service) -> None:
    actions = {"killed": service.start, "frozen": service.thaw}
    actions.get(name, lambda: service.mode("ok"))()


def asked_until_recovered(live: LiveLoop, said: list[str]) -> bool:
    """Return whether every question is answered again; only a waiting job makes the loop ask."""
    has_recovered = said.count("recovered") == said.count("degraded")
    if not has_recovered and not live.spool.unfinished():
        live.submit()
    return has_recovered


@pytest.mark.parametrize(
    "wrongs",
    [("killed", "frozen"), ("garbage", "nan", "error500"), ("slow", "trickle_body", "no_champion")],
    ids=" ".join,
)
def test_the_loop_goes_on_says_so_and_loses_no_job(live, mortal_service, eventually, said, wrongs):
    live.submit()
    eventually(lambda: len(mortal_service.delivered()) == len(live.submitted), 20.0)
    for number, wrong in enumerate(wrongs, 1):
        outage(wrong, mortal_service)
        live.submit()
        eventually(lambda: live.spool.unfinished() == 0, 20.0)
        eventually(lambda number=number: said().count("degraded") >= number, 20.0)
        repair(wrong, mortal_service)
        eventually(lambda: asked_until_recovered(live, said()), 20.0)
        eventually(lambda: len(mortal_service.delivered()) == len(live.submitted), 20.0)
    delivered = Counter((job["job_id"], job["attempt"]) for job in mortal_service.delivered())
    assert delivered == Counter((job_id, 1) for job_id in live.submitted)
    assert {job["outcome"] for job in mortal_service.delivered()} == {"ok"}
    assert live.thread.is_alive()
