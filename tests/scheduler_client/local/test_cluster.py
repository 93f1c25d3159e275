"""Real processes on this machine's CPU slots."""

import sys

import pytest

from data.domain import Outcome
from data.errors import ClusterError
from scheduler_client.clusters import EndedRun, Launch
from scheduler_client.local.cluster import GangDevice, LocalCluster
from scheduler_client.local.devices import Device

WAIT = "import signal, sys; signal.signal(signal.SIGTERM, lambda *a: sys.exit(0)); signal.pause()"
SPIN = "import time; end = time.time() + 0.4\nwhile time.time() < end: pass"


@pytest.fixture
def slots() -> tuple[Device, ...]:
    """Two slots on one core, so that this runs on any machine."""
    return tuple(Device(f"cpu{n}", "cpu", 0, "cpu", 1000, f"cpu{n}") for n in (0, 1))


@pytest.fixture
def cluster(slots, tmp_path):
    cluster = LocalCluster(slots, tmp_path / "jobs", sample_period_s=0.1)
    yield cluster
    cluster.stop([r.job_id for card in cluster.cards() for r in card.residents], Outcome.OK, 0.0)


@pytest.fixture
def await_runs(cluster, eventually):
    def wait(number: int) -> dict[str, EndedRun]:
        runs: dict[str, EndedRun] = {}

        def polled() -> bool:
            runs.update({run.job_id: run for run in cluster.poll()})
            return len(runs) >= number

        eventually(polled, 20.0)
        return runs

    return wait


def launch(job_id: str, *command: str, cards: tuple[str, ...] = ("cpu0",), **fields) -> Launch:
    words = command or (sys.executable, "-c", "print('hello')")
    return Launch(job_id, 1, f"key-{job_id}", words, cards, (100,) * len(cards), **fields)


def test_a_command_runs_with_its_marks_and_its_log(cluster, await_runs, tmp_path):
    show = "import os; print(os.environ['COLOCAST_JOB_ID'], os.environ['SEED'], os.getcwd())"
    command = (sys.executable, "-c", show)
    start_time = cluster.start(
        launch("1", *command, working_directory=str(tmp_path), environment={"SEED": "7"})
    )
    run = await_runs(1)["1"]
    assert (run.outcome, run.start_time) == (Outcome.OK, start_time)
    assert run.finish_time > run.start_time
    assert (tmp_path / "jobs" / "1.1.log").read_text() == f"1 7 {tmp_path}\n"
    assert [(s.card_id, s.neighbour_keys) for s in run.segments] == [("cpu0", ())]


@pytest.mark.parametrize("command", [("/bin/false",), ("/no/such/program",)])
def test_a_command_that_fails_is_an_outcome(cluster, await_runs, command):
    cluster.start(launch("1", *command))
    assert await_runs(1)["1"].outcome is Outcome.FAILED


def test_signals_are_kept_over_exclusive_intervals_only(cluster, await_runs):
    cluster.start(launch("1", sys.executable, "-c", SPIN))
    cluster.start(launch("2", sys.executable, "-c", WAIT, cards=("cpu1",)))
    cluster.start(launch("3", sys.executable, "-c", SPIN, cards=("cpu1",)))
    runs = await_runs(2)
    assert runs["1"].signals["gpu_util_mean"] > 0
    assert set(runs["3"].signals) == {"gpu_mem_peak_mib"}
    assert runs["3"].segments[0].neighbour_keys == ("key-2",)


def test_neighbours_are_recorded_on_both_sides(cluster, await_runs):
    cluster.start(launch("1", "/bin/sleep", "2"))
    cluster.start(launch("2", "/bin/sleep", "0.1"))
    runs = await_runs(2)
    first, second = runs["1"], runs["2"]
    assert [s.neighbour_keys for s in first.segments] == [(), ("key-2",), ()]
    assert first.segments[1].start_time == second.start_time
    assert first.segments[1].finish_time == second.finish_time
    assert [s.neighbour_keys for s in second.segments] == [("key-1",)]


def test_a_job_over_its_limit_is_ended(cluster, await_runs):
    cluster.start(launch("1", "/bin/sleep", "60", limit_s=0.2))
    run = await_runs(1)["1"]
    assert run.outcome is Outcome.TIMEOUT
    assert run.finish_time - run.start_time < 10


def test_a_job_that_is_stopped_counts_so_whatever_it_answers(
    cluster, await_runs, eventually, tmp_path
):
    ready = "print('ready', flush=True)"
    cluster.start(
        launch("1", sys.executable, "-c", WAIT.replace("signal.pause", ready + "; signal.pause"))
    )
    log = tmp_path / "jobs" / "1.1.log"
    eventually(lambda: "ready" in log.read_text())
    cluster.stop(["1"], Outcome.PREEMPTED, 5.0)
    assert await_runs(1)["1"].outcome is Outcome.PREEMPTED


def test_a_job_that_ignores_sigterm_is_killed_after_the_grace(cluster, await_runs):
    deaf = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: signal.pause()"
    )
    cluster.start(launch("1", sys.executable, "-c", deaf))
    cluster.stop(["1"], Outcome.CANCELLED, 0.2)
    assert await_runs(1)["1"].outcome is Outcome.CANCELLED


def test_a_gang_holds_all_its_cards_with_one_process(cluster, await_runs):
    cluster.start(launch("1", "/bin/sleep", "0.1", cards=("cpu0", "cpu1")))
    assert all(card.residents for card in cluster.cards())
    run = await_runs(1)["1"]
    assert {segment.card_id for segment in run.segments} == {"cpu0", "cpu1"}
    assert not any(card.residents for card in cluster.cards())


def test_a_gang_of_slots_has_all_their_cores():
    members = tuple(Device(f"cpu{n}", "cpu", n, "cpu", 10, f"cpu{n}") for n in (2, 5))
    gang = GangDevice("cpu2+cpu5", "cpu", 2, "cpu", 20, "cpu2,cpu5", members)
    assert gang.cores == (2, 5)


def test_a_card_that_cannot_start_anything_rests(slots, tmp_path):
    (tmp_path / "file").write_text("")
    cluster = LocalCluster(slots, tmp_path / "file" / "jobs")
    with pytest.raises(ClusterError, match="cannot be made"):
        cluster.start(launch("1"))
    assert [card.is_healthy for card in cluster.cards()] == [False, True]
    assert not cluster.cards()[0].residents
    assert cluster.cards()[0].free_mem_mib == 1000


def test_a_job_says_that_its_work_is_saved_by_touching_a_file(cluster, eventually):
    touch = "import os, pathlib; pathlib.Path(os.environ['COLOCAST_CHECKPOINT']).touch()\n"
    start_time = cluster.start(launch("1", sys.executable, "-c", touch + WAIT))
    cluster.start(launch("2", sys.executable, "-c", WAIT, cards=("cpu1",)))
    eventually(lambda: "1" in cluster.saved_times(), 20.0)
    (saved,) = cluster.saved_times().values()
    assert saved >= start_time
