"""Jobs as processes: their end is exact, and nothing of them is ever left behind."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from data.domain import Outcome
from data.errors import ClusterError
from scheduler_client.local.devices import discover
from scheduler_client.local.processes import RunningProcess

SLOT = discover(kind="cpu")[-1]
DEADLINE_S = 20.0


def run_python(source, **options):
    return RunningProcess.start([sys.executable, "-I", "-c", source], SLOT, **options)


def eventually(fact):
    deadline = time.monotonic() + DEADLINE_S
    while not fact():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def is_gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def read_pid(path):
    assert eventually(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


def test_a_job_that_exits_with_zero_is_ok():
    process = run_python("import time; time.sleep(0.3)")
    assert process.poll() is None
    assert process.finished_time is None
    assert process.wait(DEADLINE_S) is Outcome.OK
    assert process.returncode == 0
    assert 0.3 < process.runtime_s < DEADLINE_S
    assert process.finished_time - process.started_time == pytest.approx(process.runtime_s)


def test_the_end_is_the_moment_it_ended_not_the_moment_it_was_polled():
    process = run_python("import time; print(time.monotonic())")
    assert eventually(lambda: process.poll() is not None)
    runtime_s = process.runtime_s
    time.sleep(0.1)
    assert process.poll() is Outcome.OK
    assert process.runtime_s == runtime_s


@pytest.mark.parametrize(
    "source", ["import sys; sys.exit(3)", "import os; os.kill(os.getpid(), 9)"]
)
def test_any_other_end_is_failed(source):
    assert run_python(source).wait(DEADLINE_S) is Outcome.FAILED


def test_a_command_that_does_not_exist_is_a_failed_run_with_a_reason():
    process = RunningProcess.start(["no-such-program"], SLOT)
    assert process.poll() is Outcome.FAILED
    assert "No such file" in process.failure
    assert process.returncode == 127


def test_a_folder_that_does_not_exist_is_a_failed_run(tmp_path):
    process = run_python("", cwd=tmp_path / "absent")
    assert process.poll() is Outcome.FAILED
    assert "absent" in process.failure


@pytest.mark.parametrize(
    ("command", "match"), [([], "empty command"), (["a\0b"], "cannot start 'a"), (["", "x"], None)]
)
def test_a_command_that_is_none_is_refused(command, match):
    if match is None:
        assert RunningProcess.start(command, SLOT).poll() is Outcome.FAILED
        return
    with pytest.raises(ClusterError, match=match):
        RunningProcess.start(command, SLOT)


def test_a_log_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(ClusterError, match="cannot start"):
        run_python("", log_path=tmp_path / "absent" / "job.log")


def test_a_job_is_pinned_has_its_environment_and_writes_its_log(tmp_path):
    source = (
        "import os, sys; print(os.sched_getaffinity(0), os.environ['OMP_NUM_THREADS'],"
        " os.environ['COLOUR'], os.getcwd(), sys.stdin.read() == '')"
    )
    log = tmp_path / "job.log"
    process = run_python(source, cwd=tmp_path, environment={"COLOUR": "blue"}, log_path=log)
    assert process.wait(DEADLINE_S) is Outcome.OK
    assert log.read_text() == f"{{{SLOT.index}}} 1 blue {tmp_path} True\n"


def test_usage_counts_cpu_time_memory_and_bytes():
    source = "x = bytearray(50 * 2**20)\nopen('/dev/null', 'wb').write(b'y' * 10**6)"
    process = run_python(source)
    process.wait(DEADLINE_S)
    assert process.usage.user_s + process.usage.system_s > 0
    assert 50 < process.usage.peak_rss_mib < 200
    assert process.usage.io_bytes > 10**6


def test_a_failed_allocation_is_out_of_memory(tmp_path):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**28, 2**28))"
    source = f"{limit}\nx = bytearray(2**30)"
    assert run_python(source, log_path=tmp_path / "log").wait(DEADLINE_S) is Outcome.OOM


def test_an_earlier_failed_allocation_in_the_same_log_is_not_ours(tmp_path):
    log = tmp_path / "log"
    log.write_text("MemoryError\n")
    assert run_python("import sys; sys.exit(1)", log_path=log).wait(DEADLINE_S) is Outcome.FAILED


def test_a_kill_by_the_kernel_for_memory_is_out_of_memory(monkeypatch):
    counts = iter([4, 5])
    monkeypatch.setattr("scheduler_client.local.processes._oom_kills", lambda: next(counts))
    assert run_python("import os; os.kill(os.getpid(), 9)").wait(DEADLINE_S) is Outcome.OOM


def test_termination_is_gentle_first(tmp_path):
    handler = "import signal, sys; signal.signal(15, lambda *_: sys.exit(0))"
    log = tmp_path / "log"
    process = run_python(f"{handler}\nprint(flush=True)\nsignal.pause()", log_path=log)
    assert eventually(lambda: log.stat().st_size > 0)
    assert process.terminate(DEADLINE_S) is Outcome.OK


def test_a_job_that_ignores_the_request_is_killed_and_says_what_was_asked():
    process = run_python("import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)")
    assert process.terminate(0.3, Outcome.PREEMPTED) is Outcome.PREEMPTED
    assert process.poll() is Outcome.PREEMPTED


def test_an_ended_job_is_not_terminated_again():
    process = run_python("")
    process.wait(DEADLINE_S)
    assert process.terminate(0.0, Outcome.TIMEOUT) is Outcome.OK
    process.send_signal(signal.SIGTERM)


@pytest.mark.parametrize("new_session", [False, True])
def test_what_a_job_left_in_the_background_ends_with_it(tmp_path, new_session):
    path = tmp_path / "pid"
    source = (
        "import subprocess\n"
        f"p = subprocess.Popen(['sleep', '60'], start_new_session={new_session})\n"
        f"open({str(path)!r}, 'w').write(f'{{p.pid}}\\n')"
    )
    assert run_python(source).wait(DEADLINE_S) is Outcome.OK
    assert eventually(lambda: is_gone(read_pid(path)))


def test_no_zombie_is_left():
    process = run_python("")
    process.wait(DEADLINE_S)
    assert eventually(lambda: not psutil.pid_exists(process.pid))
    me = psutil.Process()
    assert eventually(
        lambda: all(child.status() != psutil.STATUS_ZOMBIE for child in me.children())
    )


def test_a_job_does_not_outlive_a_scheduler_that_is_killed(tmp_path):
    path = tmp_path / "pid"
    scheduler = f"""
import time
from scheduler_client.local.devices import discover
from scheduler_client.local.processes import RunningProcess
source = "sleep 60 & echo $! > {path}; setsid sleep 61"
print(RunningProcess.start(["sh", "-c", source], discover(kind="cpu")[0]).pid, flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", scheduler], stdout=subprocess.PIPE) as child:
        job, background = int(child.stdout.readline()), read_pid(path)
        assert not is_gone(job)
        child.kill()
    assert eventually(lambda: is_gone(job))
    assert eventually(lambda: is_gone(background))


def test_a_job_does_not_outlive_its_supervisor_either():
    process = run_python("import time; time.sleep(60)")
    psutil.Process(process.pid).parent().kill()
    assert process.wait(DEADLINE_S) is Outcome.FAILED
    assert process.usage is None
    assert eventually(lambda: is_gone(process.pid))


def test_a_supervisor_that_cannot_watch_is_an_error(monkeypatch, tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("import sys; sys.exit(9)")
    monkeypatch.setattr("scheduler_client.local.supervisor.__file__", str(broken))
    with pytest.raises(ClusterError, match="its supervisor ended with 9"):
        run_python("")


def test_a_supervisor_of_a_scheduler_that_has_died_starts_nothing():
    from scheduler_client.local import supervisor

    command = [sys.executable, supervisor.__file__, str(os.getppid()), "", "", "true"]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, b"")
