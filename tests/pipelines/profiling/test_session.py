"""A whole profiling session with real, very short programs."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pandas as pd
import pytest
from click.testing import CliRunner

from data.domain import Outcome
from data.errors import ProfilerError
from data.schemas import PROFILING_RUNS, checked
from pipelines.commands.profile import command
from pipelines.profiling.plan import Plan
from pipelines.profiling.runs import Bench, exclusive_run, paired_runs
from pipelines.profiling.session import Session, profile
from pipelines.profiling.workloads import Workload
from scheduler_client.local.devices import discover

SLOT = discover(kind="cpu")[-1]


def python(name, source, **options):
    return Workload(name, name, (sys.executable, "-I", "-S", "-c", source), **options)


def sleeper(name, seconds):
    return python(name, f"import time; time.sleep({seconds})")


def until_size(name, path, size):
    """A program that ends once the file at `path` has `size` bytes."""
    source = (
        "import os, time\n"
        f"while not os.path.exists({str(path)!r}) or os.path.getsize({str(path)!r}) < {size}:\n"
        "    time.sleep(0.01)"
    )
    return python(name, source)


@pytest.fixture
def bench(tmp_path):
    return Bench(SLOT, tmp_path, timeout_s=20)


@pytest.fixture
def session(tmp_path):
    jobs = (sleeper("short", 0.05), sleeper("long", 0.1))
    return Session(jobs, SLOT, Plan(), tmp_path / "out")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """One whole session and its runs, for tests that only look."""
    jobs = (sleeper("short", 0.05), sleeper("long", 0.1))
    session = Session(jobs, SLOT, Plan(), tmp_path_factory.mktemp("profile") / "out")
    return session, profile(session)


def count(path):
    return len(path.read_text()) if path.exists() else 0


def test_a_session_measures_everything_once(measured):
    session, runs = measured
    assert len(runs) == 2 * 3 + 3 * 2
    assert (runs["outcome"] == "ok").all()
    assert set(runs.loc[runs["neighbour_key"].isna(), "job_key"]) == {"short", "long"}
    assert runs["run_id"].is_unique
    written = checked(pd.read_csv(session.out / "profiling_runs.csv"), PROFILING_RUNS, "written")
    pd.testing.assert_frame_equal(written, runs)


def test_a_finished_session_measures_nothing_again(measured):
    session, first = measured
    left = []
    again = profile(session, lambda measurements: left.extend(measurements) or iter(()))
    assert left == []
    pd.testing.assert_frame_equal(again, first)


def test_signals_belong_to_exclusive_runs_only(measured):
    _, runs = measured
    alone = runs["neighbour_key"].isna()
    assert runs.loc[alone, "gpu_mem_peak_mib"].gt(0).all()
    assert runs.loc[~alone, "gpu_mem_peak_mib"].isna().all()
    assert not runs.loc[~alone, "is_exclusive"].any()


def test_the_two_sides_of_a_pair_name_each_other(measured):
    runs = measured[1].dropna(subset="neighbour_key").set_index("run_id")
    neighbours = runs.loc[runs["neighbour_run_id"]]
    assert (neighbours["job_key"].to_numpy() == runs["neighbour_key"].to_numpy()).all()
    assert (neighbours["neighbour_run_id"].to_numpy() == runs.index).all()


def test_the_machine_is_described_without_its_name(measured):
    session, _ = measured
    facts = json.loads((session.out / "machine.json").read_text())
    assert {"cpu_model", "cores", "caches", "memory_mib", "kernel", "python"} <= set(facts)
    assert os.uname().nodename not in (session.out / "machine.json").read_text().split('"')


def test_parquet_is_written_where_wanted(session):
    runs = profile(session, lambda left: iter(left[:2]), suffix=".parquet")
    assert len(pd.read_parquet(session.out / "profiling_runs.parquet")) == len(runs)


def test_the_profiler_keeps_off_the_slot_and_comes_back(session):
    before, during = os.sched_getaffinity(0), []

    def watched(measurements):
        during.append(os.sched_getaffinity(0))
        return iter(measurements[:1])

    profile(session, watched)
    assert os.sched_getaffinity(0) == before
    assert during == [before - {SLOT.index} or before]


def test_an_interruption_keeps_what_was_measured(session):
    def interrupted(measurements):
        yield from measurements[:2]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        profile(session, interrupted)
    assert len(pd.read_csv(session.out / "profiling_runs.csv")) == 2
    assert len(profile(session)) == 12


def test_a_command_that_fails_alone_is_recorded_and_not_tried_in_pairs(tmp_path, caplog):
    jobs = (Workload("bad", "bad", ("false",)), sleeper("good", 0.02))
    runs = profile(Session(jobs, SLOT, Plan(), tmp_path))
    bad = runs[runs["job_key"] == "bad"]
    assert list(bad["outcome"]) == ["failed"] * 3
    assert bad["jct_s"].isna().all()
    assert "bad+good#0: left out, since bad failed alone" in caplog.text


def test_a_run_that_takes_too_long_is_a_timeout(tmp_path):
    session = Session((sleeper("slow", 60),), SLOT, Plan(pairs=0), tmp_path, timeout_s=0.2)
    assert set(profile(session)["outcome"]) == {"timeout"}


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, float("nan")])
def test_a_time_limit_that_is_none_is_refused(session, timeout_s):
    with pytest.raises(ProfilerError, match="timeout_s must be above 0"):
        profile(Session(session.workloads, SLOT, Plan(), session.out, timeout_s))


def test_a_folder_that_cannot_be_made_is_named(session, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ProfilerError, match="cannot be written"):
        profile(Session(session.workloads, SLOT, Plan(), tmp_path / "file"))


def test_the_shorter_side_is_restarted_until_the_longer_has_ended(bench, tmp_path):
    starts = tmp_path / "starts"
    source = f"import time; open({str(starts)!r}, 'a').write('x'); time.sleep(0.1)"
    short, long = paired_runs(python("short", source), until_size("long", starts, 3), bench)
    assert count(starts) >= 3
    assert short.runtime_s < long.runtime_s
    assert long.outcome is short.outcome is Outcome.OK
    assert short.overlap > 0.9
    assert 0 < long.overlap <= 1


def test_a_side_is_represented_by_its_median_run(bench, tmp_path):
    """Each start sleeps longer than the one before: 0.2, 0.4, 0.6 s, until the fourth begins."""
    starts = tmp_path / "starts"
    source = (
        f"import os, time; f = open({str(starts)!r}, 'a'); f.write('x'); f.close();"
        f"time.sleep(0.2 * os.path.getsize({str(starts)!r}))"
    )
    varying, _ = paired_runs(python("varying", source), until_size("long", starts, 4), bench)
    assert count(starts) == 4
    assert 0.4 <= varying.runtime_s < 0.6


def test_a_pair_in_which_one_side_fails_is_stopped(bench):
    begun_s = time.monotonic()
    bad, good = paired_runs(Workload("bad", "bad", ("false",)), sleeper("good", 60), bench)
    assert time.monotonic() - begun_s < 20
    assert (bad.outcome, good.outcome) == (Outcome.FAILED, Outcome.CANCELLED)


def test_a_pair_in_which_one_side_hangs_is_a_timeout(tmp_path):
    bench = Bench(SLOT, tmp_path, timeout_s=0.4)
    quick, hung = paired_runs(sleeper("quick", 0.05), sleeper("hung", 60), bench)
    assert hung.outcome is Outcome.TIMEOUT
    assert quick.outcome is Outcome.OK


def test_a_card_that_something_else_uses_is_not_exclusive(bench):
    pin = f"import os, time; os.sched_setaffinity(0, [{SLOT.index}]); print(flush=True)"
    spin = f"{pin}\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass"
    with subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        run = exclusive_run(sleeper("sleeper", 0.5), bench)
        other.kill()
    assert not run.is_exclusive


def test_the_command_measures_and_reports(tmp_path):
    path = tmp_path / "workloads.yaml"
    path.write_text("- {name: quick, family: f, command: ['true']}\n")
    arguments = [str(path), "--out", str(tmp_path / "out"), "--device", "cpu", "--pairs", "1"]
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert "5 runs (5 ok) on" in result.output
    again = CliRunner().invoke(command, [*arguments, "--force"], catch_exceptions=False)
    assert "5 runs (5 ok) on" in again.output


@pytest.mark.parametrize(
    ("options", "match"),
    [(["--slot", "4096"], "--slot must be in"), (["--repeats", "1"], "at least 3, got 1")],
)
def test_the_command_refuses_what_it_cannot_do(tmp_path, options, match):
    path = tmp_path / "workloads.yaml"
    path.write_text("- {name: quick, family: f, command: ['true']}\n")
    arguments = [str(path), "--out", str(tmp_path), "--device", "cpu", *options]
    with pytest.raises(ProfilerError, match=match):
        CliRunner().invoke(command, arguments, catch_exceptions=False)


@pytest.mark.parametrize(("pairs", "code"), [("none", 0), ("all", 0), ("some", 2)])
def test_pairs_are_all_none_or_a_number(tmp_path, pairs, code):
    path = tmp_path / "workloads.yaml"
    path.write_text("- {name: quick, family: f, command: ['true']}\n")
    arguments = [str(path), "--out", str(tmp_path), "--device", "cpu", "--pairs", pairs]
    assert CliRunner().invoke(command, arguments).exit_code == code


EIGHTH = """\
import os, time
open("starts", "a").write("x")
while os.path.getsize("starts") >= 8 and not os.path.exists("go"): time.sleep(0.01)
time.sleep(0.3)
"""
"""The eighth start waits: a warm-up, five runs and a pair, in any order, are at least eight."""


def heeding(arguments):
    """Return a command that heeds SIGINT, which a shell's background jobs and theirs ignore."""
    default = "signal.signal(signal.SIGINT, signal.SIG_DFL)"
    start = f"import os, signal, sys; {default}; os.execv(sys.argv[1], sys.argv[1:])"
    return [sys.executable, "-S", "-c", start, *arguments]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_session_that_is_killed_goes_on_where_it_stopped(tmp_path, number):
    starts, path, out = tmp_path / "starts", tmp_path / "workloads.yaml", tmp_path / "out"
    work = {"name": "one", "family": "f", "command": ["{python}", "-c", EIGHTH]}
    path.write_text(json.dumps([{**work, "cwd": str(tmp_path)}]))
    arguments = [sys.executable, "-m", "pipelines", "profile", str(path), "--out", str(out)]
    arguments += ["--device", "cpu", "--repeats", "5"]
    with subprocess.Popen(heeding(arguments), stderr=subprocess.PIPE) as child:
        reader = threading.Thread(target=child.stderr.read)
        reader.start()
        deadline = time.monotonic() + 60
        while count(starts) < 8 and time.monotonic() < deadline:
            time.sleep(0.01)
        child.send_signal(number)
        reader.join()
    (tmp_path / "go").touch()
    measured = _measured(out)
    assert 1 <= len(measured) < 6
    before = count(starts)
    result = subprocess.run(arguments, check=True, capture_output=True, text=True)
    assert "7 runs (7 ok)" in result.stdout
    # One warm-up, what was left, and a few restarts in the one pair.
    runs_left = 1 + 6 - len(measured) + ("one+one#0" not in measured)
    assert runs_left <= count(starts) - before <= runs_left + 4


def _measured(out):
    journal = out / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True) if journal.exists() else []
    entries = [json.loads(line) for line in lines if line.endswith(b"\n")]
    return {entry["measurement"] for entry in entries if "measurement" in entry}
