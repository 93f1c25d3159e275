from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from data.domain import FinishedJob, Outcome, Segment
from data.jobs_frame import jobs_frame
from data.schemas import JOBS, PROFILING_RUNS, checked
from pipelines.interference.lesson import InterferenceLesson
from pipelines.retraining import once as module
from pipelines.retraining.finished_jobs import FinishedJobs
from pipelines.retraining.once import Once, RowsOnce
from pipelines.retraining.run_rows import RunMemory
from pipelines.retraining.speeds import RelativeTimes, relative_times
from pipelines.runtime.lesson import RuntimeLesson

NO_RUNS = checked(pd.DataFrame(columns=PROFILING_RUNS.names), PROFILING_RUNS, "none")
NO_JOBS = checked(pd.DataFrame(columns=JOBS.names), JOBS, "none")
KEYS = {"bert": 100.0, "ncf": 300.0, "vgg": 60.0, "never-shared": 900.0}
CUTS = (0, 40, 41, 90, 90, 60, 160)


def a_log(seed=0, count=160):
    """Jobs alone, beside one, and beside some who came and went; a driver slows the last half."""
    random = np.random.default_rng(seed)
    jobs = []
    for n in range(count):
        key = str(random.choice(list(KEYS)))
        others = [name for name in KEYS if name not in {key, "never-shared"}]
        beside = [] if key == "never-shared" else list(random.choice(others, random.integers(0, 3)))
        start = at = 1000.0 * n
        work_s = KEYS[key] * random.lognormal(0, 0.02) * (1.15 if n >= count // 2 else 1.0)
        parts = [(), *((str(name),) for name in beside)] if random.random() < 0.5 else [
            (str(name),) for name in beside[:1]
        ]  # fmt: skip
        segments = []
        for met in parts or [()]:
            seconds = work_s / len(parts or [()]) * (1.4 if met else 1.0)
            segments.append(Segment(at, at + seconds, "g0", "A100", met))
            at += seconds
        outcome = Outcome.FAILED if random.random() < 0.05 else Outcome.OK
        facts = (key, 1, start - 30, start, at, outcome, tuple(segments))
        signals = {} if beside else {"sm_active_mean": round(float(random.random()), 3)}
        jobs.append(FinishedJob(f"j{n}", 1, f"user-{n % 3}", "q", *facts, signals=signals))
    return jobs


def log_of(jobs):
    return FinishedJobs("log", list(range(1, len(jobs) + 1)), jobs)


def test_what_is_known_of_a_log_is_not_made_again():
    jobs, asked = a_log(), []
    once = Once(lambda: lambda job: asked.append(job.job_id) or len(asked))
    assert [once.of(jobs[:cut])[-1:] for cut in CUTS] == [[], [40], [41], [90], [90], [60], [160]]
    assert asked == [job.job_id for job in jobs]


def test_another_log_or_a_longer_one_than_is_kept_is_gone_through_anew(monkeypatch):
    jobs = a_log()
    once = Once(lambda: RelativeTimes().of)
    once.of(jobs)
    np.testing.assert_array_equal(once.of(jobs[7:]), relative_times(jobs[7:]))
    monkeypatch.setattr(module, "MOST", 100)
    np.testing.assert_array_equal(once.of(jobs), relative_times(jobs))


def test_what_broke_off_midway_is_begun_anew():
    jobs, broken = a_log(), ["j50"]

    def begin():
        seen = []

        def make(job):
            if job.job_id in broken:
                raise ValueError(job.job_id)
            seen.append(job)
            return len(seen)

        return make

    once = Once(begin)
    once.of(jobs[:40])
    with pytest.raises(ValueError, match="j50"):
        once.of(jobs)
    broken.clear()
    assert once.of(jobs) == list(range(1, len(jobs) + 1))


def test_rows_are_made_anew_from_the_first_job_that_differs():
    jobs, begun = a_log(), []
    rows = RowsOnce()

    def told(given):
        return rows.of(given, lambda start: begun.append(start) or jobs_frame(given[start:]))

    later = [*jobs[:50], replace(jobs[50], signals={"sm_active_mean": 0.5}), *jobs[51:]]
    for given in (jobs[:60], jobs, later, later[:20]):
        pd.testing.assert_frame_equal(told(given), jobs_frame(given))
    assert begun == [0, 60, 50]


@pytest.mark.parametrize("seed", range(5))
def test_lessons_that_remember_equal_lessons_from_scratch(seed):
    jobs = a_log(seed)
    runs, rows = RunMemory(), RowsOnce()
    for cut in CUTS:
        mine = InterferenceLesson(NO_RUNS, log_of(jobs[:cut]), 1, runs)
        fresh = InterferenceLesson(NO_RUNS, log_of(jobs[:cut]), 1)
        pd.testing.assert_frame_equal(mine._labels, fresh._labels, check_exact=True)
        np.testing.assert_array_equal(mine.groups, fresh.groups)
        mine = RuntimeLesson(NO_JOBS, log_of(jobs[:cut]), 1, rows)
        fresh = RuntimeLesson(NO_JOBS, log_of(jobs[:cut]), 1)
        pd.testing.assert_frame_equal(mine._logged, fresh._logged, check_exact=True)
        np.testing.assert_array_equal(mine.sequences, fresh.sequences)


def test_signals_that_telemetry_brings_later_are_seen():
    jobs, runs = a_log(), RunMemory()
    runs.described(jobs)
    later = [replace(job, signals={"sm_active_mean": 0.25}) for job in jobs]
    pd.testing.assert_frame_equal(runs.described(later).rows, RunMemory().described(later).rows)
