"""Any part of the loop is killed: no finished job is lost, none is counted twice."""

import os
import random
import signal
import time
from dataclasses import replace

import pytest

from data.domain import FinishedJob, Outcome
from data.errors import JobLogError
from data.joblog import JobLog, tail
from data.settings import Settings
from pipelines.retraining.state import RetrainState, load_state
from pipelines.services import parts as up
from pipelines.services.processes import ServiceGroup
from scheduler_client.forecast.client import PredictorClient
from scheduler_client.jobs.delivery import Delivery
from scheduler_client.jobs.outbox import Outbox
from tests.ports import free_port
from tests.postgres import postgresql

JOBS, A_TURN = 400, 8
KILLED = ("service", "mlflow", "retrainer", "postgresql")
TURNS_DOWN = 3
LONGEST_S = 240.0


def job(number: int) -> FinishedJob:
    start, seconds = 60.0 * number, (30.0, 200.0, 900.0)[number % 3]
    facts = ("q", f"k{number % 3}", 1, start, start, start + seconds, Outcome.OK)
    return FinishedJob(f"j{number}", 1, f"u{number % 2}", *facts)


class NoSpool:
    """Nothing waits before the outbox here."""

    def on_their_way(self, most):
        return []


class Chaos:
    """Kills one part after the other, each at a random turn, and starts it again a little later."""

    def __init__(self, group: ServiceGroup, server, seed: int) -> None:
        self.group, self.server = group, server
        turns = sorted(random.Random(seed).sample(range(4, JOBS // A_TURN - 4), len(KILLED)))
        self.plan = dict(zip(turns, random.Random(seed).sample(KILLED, len(KILLED)), strict=True))
        self.down: dict[str, int] = {}
        self.killed: list[str] = []

    def turn(self, number: int) -> None:
        name = self.plan.get(number)
        if name is not None:
            self.killed.append(name)
            self.down[name] = number
            self._kill(name)
        for each, since in list(self.down.items()):
            if number - since >= TURNS_DOWN:
                del self.down[each]
                if each == "postgresql":
                    self.server.start()
        if not self.down:
            self.group.keep_up()

    def _kill(self, name: str) -> None:
        if name == "postgresql":
            self.server.stop()
            return
        process = self.group.processes[name]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.chaos
def test_no_finished_job_is_lost_or_counted_twice_whatever_is_killed(tmp_path):
    ports = {f"COLOCAST_{name}_PORT": str(free_port()) for name in ("MLFLOW", "SERVICE")}
    with postgresql() as server, ServiceGroup(tmp_path / "logs") as group:
        environ = {"COLOCAST_HOME": str(tmp_path), "COLOCAST_JOBLOG_URL": server.url, **ports}
        settings = Settings.from_mapping(environ, tmp_path)
        plan = up.Plan(retrain_after=60, min_evidence=16, shadow_jobs=4, watch_jobs=50)
        service = up.prediction_service(settings, os.environ)
        # It need not predict, for no version has been trained yet.
        alive = replace(service, ready_url=f"{settings.service_url}/livez")
        parts = (up.mlflow_service(settings, os.environ), alive)
        up.start(group, *(replace(part, ready_timeout_s=LONGEST_S) for part in parts))
        up.start(group, up.retrainer(settings, os.environ, plan))
        chaos, outbox = Chaos(group, server, seed=6), Outbox(tmp_path / "outbox.db")
        client = PredictorClient(settings.service_url, deadline_s=2.0)
        delivery = Delivery(NoSpool(), outbox, client)
        for number in range(JOBS // A_TURN):
            for each in range(number * A_TURN, (number + 1) * A_TURN):
                outbox.put(job(each))
            delivery.send(within_s=0.3)
            chaos.turn(number)
        assert sorted(chaos.killed) == sorted(KILLED)
        _until(lambda: delivery.send(within_s=2.0) or (outbox.backlog() == 0), group)
        delivery.send(within_s=1.0)
        with JobLog(server.url) as log:
            entries = list(tail(log, 0))
        _until(lambda: _is_done(load_state(settings.retrain_path)), group)
        state = load_state(settings.retrain_path)
        client.close()
        outbox.close()
    assert [number for number, _ in entries] == list(range(1, JOBS + 1))
    assert {each.job_id for _, each in entries} == {f"j{n}" for n in range(JOBS)}
    runtime = state.kinds["runtime"]
    # Every job is evidence of a runtime: each was counted once, by an attempt or since the last.
    assert runtime.learnt + runtime.evidence == JOBS


def _is_done(state: RetrainState) -> bool:
    """All jobs were counted, and there was an attempt since the last kill or before."""
    return state.sequence == JOBS and state.kinds["runtime"].learnt > 0


def _until(holds, group: ServiceGroup) -> None:
    deadline = time.monotonic() + LONGEST_S
    while True:
        try:
            if holds():
                return
        except JobLogError:
            pass
        assert time.monotonic() < deadline, "it did not come back in time"
        group.keep_up()
        time.sleep(0.2)
