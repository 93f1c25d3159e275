import json
import logging
import signal
import subprocess
import sys
from dataclasses import replace
from threading import Event, Thread

import pytest

from data.domain import FinishedJob, Outcome, Segment
from data.errors import JobLogError, RegistryError, ServiceStartError, SettingError
from data.joblog import JobLog
from pipelines.retraining.duties import tell_services
from pipelines.retraining.gate import verdict
from pipelines.retraining.gate_terms import Evidence
from pipelines.retraining.retrainer import Challenge, Duty, Retrainer, Watched, only_one
from pipelines.retraining.state import KINDS, RetrainRules, load_state
from pipelines.retraining.watch import Drift

JOB = FinishedJob(
    "1", 1, "ada", "q", "bert", 1, 0.0, 0.0, 9.0, Outcome.OK,
    segments=(Segment(0.0, 9.0, "g0", "A100", ("ncf",)),),
)  # fmt: skip
RULES = RetrainRules(min_jobs=3, min_evidence=2, cooldown_s=60)
GOOD = verdict(Evidence([0.1] * 9, [True] * 9, champion_errors=[0.2] * 9))


def jobs(count, start=0):
    return [replace(JOB, job_id=f"j{start + i}") for i in range(count)]


class Fake:
    """A challenger that remembers what it was given, and may fail."""

    def __init__(self, name):
        self.name, self.given, self.failures, self.causes = name, [], [], []

    def __call__(self, finished, cause):
        assert len(finished.sequences) == len(finished.jobs)
        self.given.append(list(finished.sequences))
        if self.failures:
            raise self.failures.pop(0)
        self.causes.append(cause)
        return [Challenge(f"colocast-{self.name}", "2", "1", GOOD, "promoted")]


class World:
    """A job log, a state file, fake challengers and a clock."""

    def __init__(self, folder):
        self.url, self.path = f"sqlite:///{folder}/joblog.db", folder / "retrain.json"
        self.log, self.now = JobLog(self.url), 1000.0
        self.fakes = {kind: Fake(kind) for kind in KINDS}
        self.opened, self.watchers = [], {}

    def retrainer(self, url=None, rules=RULES):
        clock = lambda: self.now  # noqa: E731
        duties = {kind: Duty(fake, self.watchers.get(kind)) for kind, fake in self.fakes.items()}
        made = Retrainer(url or self.url, self.path, duties, rules, clock)
        self.opened.append(made)
        return made

    def given(self):
        return {kind: fake.given for kind, fake in self.fakes.items()}


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    for retrainer in made.opened:
        retrainer.close()
    made.log.close()


def test_enough_new_jobs_lead_to_one_attempt_of_each_kind_that_has_evidence(world, caplog):
    caplog.set_level(logging.INFO, "colocast.retrain")
    retrainer = world.retrainer()
    world.log.append(jobs(2))
    assert retrainer.step() == []
    world.log.append(jobs(1, start=2))
    assert [made.model for made in retrainer.step()] == [
        "colocast-interference",
        "colocast-runtime",
    ]
    assert world.given() == {"interference": [[1, 2, 3]], "runtime": [[1, 2, 3]], "memory": []}
    assert retrainer.step() == []
    assert (
        "event=promoted model=colocast-runtime version=2 previous=1 reason=better on 9 rows"
        in caplog.text
    )
    assert "event=retraining kind=runtime jobs=3 evidence=3 since=0 until=3" in caplog.text


def test_a_new_cause_waits_for_the_cooldown_and_sees_all_jobs(world):
    retrainer = world.retrainer()
    world.log.append(jobs(3))
    retrainer.step()
    world.log.append(jobs(3, start=3))
    assert retrainer.step() == []
    world.now += 60
    retrainer.step()
    assert world.given()["runtime"] == [[1, 2, 3], [1, 2, 3, 4, 5, 6]]


def test_a_restart_neither_forgets_counts_nor_repeats_attempts(world):
    world.log.append(jobs(2))
    world.retrainer().step()
    world.log.append(jobs(1, start=2))
    world.retrainer().step()
    world.retrainer().step()
    assert world.given()["runtime"] == [[1, 2, 3]]


def test_another_job_log_is_read_from_its_beginning(world, tmp_path):
    world.log.append(jobs(5))
    world.retrainer().step()
    with JobLog(f"sqlite:///{tmp_path}/other.db") as other:
        other.append(jobs(3))
    world.retrainer(f"sqlite:///{tmp_path}/other.db").step()
    assert world.given()["runtime"] == [[1, 2, 3, 4, 5], [1, 2, 3]]


def test_only_the_newest_jobs_are_given(world, monkeypatch):
    monkeypatch.setattr("pipelines.retraining.retrainer.WINDOW_JOBS", 4)
    world.log.append(jobs(9))
    world.retrainer().step()
    assert world.given()["runtime"] == [[6, 7, 8, 9]]


def test_a_registry_that_is_down_puts_the_attempt_off_and_loses_no_cause(world):
    world.log.append(jobs(3))
    world.fakes["interference"].failures = [RegistryError("MLflow is down")] * 5
    retrainer = world.retrainer()
    for _ in range(5):
        with pytest.raises(RegistryError, match="MLflow is down"):
            retrainer.step()
    assert [made.model for made in retrainer.step()] == [
        "colocast-interference",
        "colocast-runtime",
    ]
    assert len(world.given()["interference"]) == 6


def test_being_asked_to_end_while_training_puts_the_attempt_off(world):
    world.log.append(jobs(3))
    world.fakes["interference"].failures = [SystemExit(0)] * 3
    for _ in range(3):
        with pytest.raises(SystemExit):
            world.retrainer().step()
    assert [made.model for made in world.retrainer().step()] == [
        "colocast-interference",
        "colocast-runtime",
    ]


def test_jobs_that_cannot_be_trained_from_use_their_cause_up(world, caplog):
    world.log.append(jobs(3))
    world.fakes["interference"].failures = [SettingError("only 3 labels, wanted 20")]
    retrainer = world.retrainer()
    assert [made.model for made in retrainer.step()] == ["colocast-runtime"]
    assert "event=untrainable kind=interference reason=only 3 labels" in caplog.text
    assert retrainer.step() == []


def test_a_kind_that_kills_the_process_twice_is_left_until_new_jobs_came(world, caplog):
    world.log.append(jobs(3))
    world.fakes["interference"].failures = [KeyboardInterrupt(), KeyboardInterrupt()]
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            world.retrainer().step()
    assert [made.model for made in world.retrainer().step()] == ["colocast-runtime"]
    assert "event=fatal kind=interference" in caplog.text
    world.log.append(jobs(3, start=3))
    world.now += 60
    assert "colocast-interference" in [made.model for made in world.retrainer().step()]


def test_an_outage_of_the_job_log_only_makes_it_wait(world, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("pipelines.retraining.retrainer.FIRST_PAUSE_S", 0.01)
    url = f"sqlite:///{tmp_path}/later/joblog.db"
    (tmp_path / "later").touch()  # no folder can be there yet
    stop, waiting, retrainer = Event(), Event(), world.retrainer(url)
    monkeypatch.setattr(world.fakes["runtime"], "given", Notifying(stop))
    handler = Notified(waiting)
    logging.getLogger("colocast.retrain").addHandler(handler)
    thread = Thread(target=retrainer.run, args=(0.01, stop))
    thread.start()
    assert waiting.wait(20)
    (tmp_path / "later").unlink()
    with JobLog(url) as log:
        log.append(jobs(3))
    assert stop.wait(20)
    thread.join(20)
    logging.getLogger("colocast.retrain").removeHandler(handler)
    assert "event=outage retry_s=0.01 reason=job log" in caplog.text


class Notifying(list):
    """A list that sets an event when something is appended."""

    def __init__(self, event):
        super().__init__()
        self.event = event

    def append(self, item):
        super().append(item)
        self.event.set()


class Notified(logging.Handler):
    """Sets an event on the first warning."""

    def __init__(self, event):
        super().__init__(logging.WARNING)
        self.event = event

    def emit(self, record):
        self.event.set()


def test_a_state_that_cannot_be_saved_is_an_error_and_the_count_is_repeated(world, monkeypatch):
    world.log.append(jobs(3))
    retrainer = world.retrainer()
    world.path.mkdir()  # where the file belongs
    with pytest.raises(JobLogError, match=r"retrain\.json"):
        retrainer.step()
    world.path.rmdir()
    retrainer.step()
    assert load_state(world.path).kinds["runtime"].attempted_sequence == 3
    assert world.given()["runtime"] == [[1, 2, 3]]


def test_a_second_retrainer_is_refused_until_the_first_has_ended(tmp_path):
    lock = tmp_path / "retrain.lock"
    with only_one(lock), pytest.raises(ServiceStartError, match="another retrainer runs on"):
        only_one(lock).__enter__()
    with only_one(lock):
        pass
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from pipelines.retraining.retrainer import only_one\n"
        "with only_one(Path(sys.argv[1])):\n    os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(lock)], check=False)
    assert done.returncode == -signal.SIGKILL
    with only_one(lock):
        assert lock.exists()


DRIFT = Drift("error of all", sequence=4, since=3, rows=2, evidence=9e5, threshold=1e4)


def test_a_drift_leads_to_one_attempt_that_knows_since_when(world, caplog):
    asked = []

    def watcher(finished, since):
        asked.append((list(finished.sequences), since))
        return Watched(DRIFT if len(asked) == 1 else None)

    world.watchers["runtime"] = watcher
    rules = RetrainRules(min_jobs=99, min_evidence=3, cooldown_s=0, watch_jobs=2)
    retrainer = world.retrainer(rules=rules)
    world.log.append(jobs(4))
    assert retrainer.step() == []  # two rows since it began, three are wanted
    assert "event=drift kind=runtime reason=error of all changed 2 observations ago" in caplog.text
    world.log.append(jobs(1, start=4))
    assert [made.model for made in retrainer.step()] == ["colocast-runtime"]
    (cause,) = world.fakes["runtime"].causes
    assert (cause.since, cause.reason) == (3, DRIFT.reason)
    world.log.append(jobs(2, start=5))
    assert retrainer.step() == []
    assert asked == [([1, 2, 3, 4], 0), ([1, 2, 3, 4, 5, 6, 7], 5)]


def test_what_is_known_well_needs_more_new_evidence(world):
    rules = RetrainRules(min_jobs=1, min_evidence=2, cooldown_s=0, growth=0.5)
    retrainer = world.retrainer(rules=rules)
    world.log.append(jobs(10))
    retrainer.step()
    world.log.append(jobs(4, start=10))
    assert retrainer.step() == []
    world.log.append(jobs(1, start=14))
    assert [made.model for made in retrainer.step()] == [
        "colocast-interference",
        "colocast-runtime",
    ]
    assert world.fakes["runtime"].causes[-1].reason == "5 new jobs to learn from, wanted 5"


def test_a_refused_challenger_makes_the_next_wait_for_twice_as_much(world):
    rules = RetrainRules(min_jobs=1, min_evidence=2, cooldown_s=0, growth=0.5)
    world.fakes["runtime"].failures = [SettingError("nothing to learn")]
    retrainer = world.retrainer(rules=rules)
    world.log.append(jobs(10))
    retrainer.step()
    world.log.append(jobs(5, start=10))
    assert [made.model for made in retrainer.step()] == ["colocast-interference"]
    world.log.append(jobs(5, start=15))
    assert "colocast-runtime" in [made.model for made in retrainer.step()]


def test_what_a_watcher_settled_is_told(world, caplog):
    caplog.set_level(logging.INFO, "colocast.retrain")
    undone = Challenge("colocast-runtime", "1", "2", GOOD, "rolled_back")
    world.watchers["runtime"] = lambda finished, since: Watched(settled=[undone])
    world.log.append(jobs(2))
    assert world.retrainer(rules=RetrainRules(watch_jobs=2)).step() == [undone]
    assert "event=rolled_back model=colocast-runtime version=1 previous=2" in caplog.text


def test_jobs_that_cannot_be_watched_do_not_stop_the_loop(world, caplog):
    def watcher(finished, since):
        raise SettingError("no profile")

    world.watchers["runtime"] = watcher
    world.log.append(jobs(3))
    assert len(world.retrainer(rules=replace(RULES, watch_jobs=1)).step()) == 2
    assert "event=unwatchable kind=runtime reason=no profile" in caplog.text


def test_a_promotion_is_followed_by_what_was_asked_for(world):
    given = []
    world.log.append(jobs(3))
    retrainer = world.retrainer()
    retrainer.after_promotion = given.append
    retrainer.step()
    retrainer.step()
    assert [list(finished.sequences) for finished in given] == [[1, 2, 3]]


def pushed_names(push_receiver):
    return [json.loads(body)["name"] for _, _, body in push_receiver.taken]


def test_services_are_told_of_promotions_and_rollbacks_and_of_nothing_else(
    world, push_environ, push_receiver
):
    stages = ("rolled_back", "promoted", "kept", "shadow")
    settled = [Challenge(f"colocast-{stage}", "1", "2", GOOD, stage) for stage in stages]
    world.watchers["runtime"] = lambda finished, since: Watched(settled=settled)
    world.log.append(jobs(3))
    retrainer = world.retrainer(rules=replace(RULES, watch_jobs=1))
    retrainer.champion_changed = tell_services(push_environ)
    retrainer.step()
    told = ["rolled_back", "promoted", "interference", "runtime"]
    assert pushed_names(push_receiver) == [f"colocast-{name}" for name in told]


def test_services_are_told_before_the_next_kind_meets_an_outage(world, push_environ, push_receiver):
    world.fakes["runtime"].failures = [RegistryError("down")]
    world.log.append(jobs(3))
    retrainer = world.retrainer()
    retrainer.champion_changed = tell_services(push_environ)
    with pytest.raises(RegistryError, match="down"):
        retrainer.step()
    assert pushed_names(push_receiver) == ["colocast-interference"]


@pytest.mark.parametrize(
    "spoilt",
    [
        {"COLOCAST_PUSH_URLS": "http://127.0.0.1:9"},
        {"COLOCAST_PUSH_SECRET_FILE": "/nowhere/secret"},
    ],
)
def test_services_that_cannot_be_told_hold_nothing_up(world, push_environ, caplog, spoilt):
    world.log.append(jobs(3))
    retrainer = world.retrainer()
    retrainer.champion_changed = tell_services({**push_environ, **spoilt})
    assert [made.stage for made in retrainer.step()] == ["promoted", "promoted"]
    assert caplog.text.count("event=not_pushed model=colocast-") == 2
