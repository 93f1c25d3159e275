import threading

import numpy as np
import pandas as pd
import pytest

from data.dcgm import GPU_UTIL, SM_ACTIVE
from data.domain import FinishedJob, ModelStructure, Outcome, Segment
from data.errors import TelemetryError
from data.joblog import JobLog
from data.joblog_signals import SignalTable
from data.prometheus.config import TelemetryConfig
from data.prometheus.job_signals import NO_ALLOCATION, JobSignals, Sharing
from data.schemas import PROFILING_RUNS
from data.settings import Settings
from pipelines.retraining.duties import LESSONS
from pipelines.retraining.finished_jobs import FinishedJobs
from pipelines.retraining.production import production_runs
from pipelines.retraining.state import is_evidence
from pipelines.telemetry.check import checked_cards, checked_text
from pipelines.telemetry.enriched import with_telemetry
from pipelines.telemetry.profiles import profiles_by_sharing, profiles_text, stored_profiles
from pipelines.telemetry.pull import Pulled, follow, pull
from tests.data.prometheus.memory_source import MemorySource, held, series

CONFIG = TelemetryConfig(delay_s=0.0, longest_gap_s=15.0, settle_s=60.0)
T = np.arange(0, 1001, 10.0)


def job(job_id, start, *stretches, key="ncf", **more):
    at, segments = start, []
    for seconds, *neighbours in stretches:
        segments.append(Segment(at, at + seconds, "g0", "A100", tuple(neighbours)))
        at += seconds
    facts = (job_id, 1, "ada", "q", key, 1, 0.0, start, at, Outcome.OK, tuple(segments))
    return FinishedJob(*facts, **more)


JOBS = [job("1", 0.0, (100,)), job("2", 100.0, (60,), (40, "x")), job("3", 200.0, (100,))]


def tenant(job_id, start, finish):
    times = T[(start <= T) & (finish > T)]
    return held(times, job_id=job_id)


def source():
    busy = np.select([T <= 100, T <= 160, T <= 200], [20, 40, 70], 50)
    usage = series(GPU_UTIL, T, busy, UUID="GPU-1")
    return MemorySource(tenant("1", 0, 100), tenant("2", 100, 200), usage)


@pytest.fixture
def table(tmp_path):
    url = f"sqlite:///{tmp_path / 'joblog.db'}"
    with JobLog(url) as log:
        log.append(JOBS)
    with SignalTable(url) as table:
        table.url = url
        yield table


def test_every_settled_job_is_looked_up_once(table):
    done = pull(table, source(), CONFIG, now=310.0)
    assert (done.measured, done.light, done.later, done.without) == (2, 1, 1, {})
    later = pull(table, source(), CONFIG, now=400.0)
    assert (later.measured, later.without) == (0, {NO_ALLOCATION: 1})
    again = pull(table, source(), CONFIG, now=400.0)
    assert again == Pulled()
    assert "1 without signals: the scheduler's allocation series" in later.text()


def test_a_pass_that_breaks_off_goes_on_from_there(table):
    class Broken(MemorySource):
        def samples(self, selector, start_time, finish_time):
            if '"2"' in selector:
                raise TelemetryError("out of reach")
            return super().samples(selector, start_time, finish_time)

    with pytest.raises(TelemetryError, match="out of reach"):
        pull(table, Broken(*source().found), CONFIG, now=400.0)
    assert pull(table, source(), CONFIG, now=400.0).measured == 1
    assert len({(one.job_id, one.attempt) for one in table.all()}) == 3


def test_what_is_found_reaches_what_is_trained_from(table):
    pull(table, source(), CONFIG, now=400.0)
    own = [{"gpu_util_mean": 0.9, "gpu_util_std": 0.0}, {}, {}]
    jobs = [job(j.job_id, j.start_time, (100,), signals=s) for j, s in zip(JOBS, own, strict=True)]
    found = with_telemetry(table.url, FinishedJobs("log", [1, 2, 3], jobs)).jobs
    assert [one.signals.get("gpu_util_mean") for one in found] == [0.9, pytest.approx(0.4), None]
    some = with_telemetry(table.url, FinishedJobs("log", [3], jobs[2:])).jobs
    assert [one.signals for one in some] == [{}]
    nothing = FinishedJobs("log", [], [])
    assert with_telemetry(table.url, nothing) is nothing


def test_profiles_keep_exclusive_and_light_sharing_apart(table):
    pull(table, source(), CONFIG, now=400.0)
    rows = stored_profiles(table.url)
    assert rows["sharing"].tolist() == ["exclusive", "light"]
    assert rows["runs"].tolist() == [2, 1]
    assert rows["gpu_util_mean"].tolist() == [pytest.approx(0.3), pytest.approx(0.7)]
    assert rows["signal_spread"].iloc[0] == pytest.approx(0.2)
    assert rows["newest_time"].tolist() == [200.0, 200.0]
    text = profiles_text(rows, now=200.0 + 86_400)
    assert text.splitlines()[1].split()[:4] == ["ncf", "A100", "exclusive", "2"]
    assert text.splitlines()[1].split()[-1] == "1.0"


def test_without_any_there_are_no_profiles():
    rows = profiles_by_sharing(JOBS, [])
    assert rows.empty
    assert profiles_text(rows, 0.0).startswith("no profile yet")


def test_dropped_samples_are_told_with_the_likely_reason():
    text = Pulled(dropped={"out of range": 3}).text()
    assert "3 samples dropped: out of range" in text
    assert "is a percent configured as a ratio?" in text


def test_following_survives_an_outage(caplog):
    stop, answers = threading.Event(), [TelemetryError("out of reach"), Pulled(measured=2)]

    def once():
        answer = answers.pop(0)
        if not answers:
            stop.set()
        if isinstance(answer, Exception):
            raise answer
        return answer

    with caplog.at_level("INFO", logger="colocast.telemetry"):
        follow(once, stop, 0.01)
    assert [record.message.split()[0] for record in caplog.records] == [
        "event=outage",
        "event=pulled",
    ]


def test_a_check_says_what_there_is_now_and_what_is_missing():
    usage = [series(GPU_UTIL, T, T / 10, UUID=f"GPU-{n}") for n in (1, 2)]
    percent = series(SM_ACTIVE, T, T / 10 + 20, UUID="GPU-1")
    found = checked_cards(MemorySource(*usage, percent, held(T)), CONFIG, 1000.0)
    assert found.is_usable
    assert (found.allocations, found.joined) == (1, 1)
    lines = checked_text(found).splitlines()
    assert lines[0] == f"gpu_util          2 cards, {GPU_UTIL} (percent)"
    assert lines[1] == "sm_active         none, 31 samples out of range"
    assert lines[-1] == "allocations       1 cards of running jobs, 1 of them joined by UUID"


@pytest.mark.parametrize(("uuid", "usable"), [("GPU-1", True), ("GPU-9", False)])
def test_jobs_whose_cards_are_not_measured_are_no_use(uuid, usable):
    usage = series(GPU_UTIL, T, T / 20, UUID="GPU-1")
    found = checked_cards(MemorySource(usage, held(T, uuid)), CONFIG, 1000.0)
    assert found.is_usable == usable


def test_without_jobs_or_without_samples_a_check_says_what_to_do():
    usage = series(GPU_UTIL, T, T / 20, UUID="GPU-1")
    idle = checked_cards(MemorySource(usage), CONFIG, 1000.0)
    assert idle.is_usable
    assert "is the scheduler's /metrics scraped?" in checked_text(idle)
    assert not checked_cards(MemorySource(), CONFIG, 1000.0).is_usable


def test_jobs_that_only_prometheus_measured_teach_memory_and_count_as_evidence(table, tmp_path):
    structure = ModelStructure("dlrm", 512, embedding_rows=10**6)
    described = [job(j.job_id, j.start_time, (100,), structure=structure) for j in JOBS]
    assert all(is_evidence(one, "memory") for one in described)
    assert not is_evidence(JOBS[0], "memory")
    table.put([JobSignals("1", 1, Sharing.EXCLUSIVE, 9.0, 3, {"gpu_mem_peak_mib": 4000.0})])
    settings = Settings.from_mapping({"COLOCAST_JOBLOG_URL": table.url}, tmp_path)
    lesson, _ = LESSONS["memory"](settings)(FinishedJobs("log", [1, 2, 3], described))
    assert lesson.sequences.tolist() == [1]


def test_a_job_that_shared_its_cards_without_its_scheduler_knowing_is_no_baseline(table):
    stranger = held(T[3:6], job_id="elsewhere")
    pull(table, MemorySource(*source().found, stranger), CONFIG, now=400.0)
    jobs = [job("1", 0.0, (100,), signals={"gpu_util_mean": 0.4}), *JOBS[1:]]
    found = with_telemetry(table.url, FinishedJobs("log", [1, 2, 3], jobs)).jobs
    assert [s.neighbour_keys for s in found[0].segments] == [("unknown",)]
    assert found[0].signals == {}
    assert found[1].segments == jobs[1].segments
    nothing = pd.DataFrame(columns=PROFILING_RUNS.names)
    runs = production_runs(found, nothing)
    assert not runs["is_exclusive"].iloc[0]
    assert runs["neighbour_overlap"].iloc[0] == 0  # quarantined: nobody knows beside whom
