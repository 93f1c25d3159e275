from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from data.domain import PROFILE_COLUMNS, Estimate, Outcome, Segment, Source
from data.finished import checked_job
from scheduler_client.clusters import EndedRun
from scheduler_client.jobs.finishing import finished_job, lost_run
from scheduler_client.jobs.placement_note import PlacementNote, read_note
from scheduler_client.jobs.spool import SpooledJob
from scheduler_client.jobs.submission import Submission
from scheduler_client.policy.decisions import Level

JOB = SpooledJob("1", 2, 100.0, 110.0, Submission("ada", "research", "bert", ("true",), gpus=2))
SLOW = Estimate(1.2, 1.1, 1.3, "colocast-interference/4", Source.MODEL)
LONG = Estimate(60.0, 30.0, 90.0, "colocast-runtime-cluster/2", Source.USER_MODEL)
NOTE = PlacementNote("colocate", ("gpu0",), (100,), Level.MODEL, "beside gan", True, SLOW, LONG)
NUMBERS = st.floats(allow_nan=True, allow_infinity=True)
MOMENTS = st.floats(0, 300)


def test_it_says_what_was_predicted_and_by_which_model():
    run = EndedRun("1", 2, Outcome.OK, 110.0, 120.0, ())
    job = finished_job(JOB, run, NOTE)
    assert (job.job_id, job.attempt, job.gpus, job.user) == ("1", 2, 2, "ada")
    assert (job.predicted_slowdown, job.predicted_runtime_s) == (1.2, 60.0)
    assert (job.prediction_source, job.model_version) == (Source.MODEL, "colocast-interference/4")


def test_without_a_decision_nothing_was_predicted():
    job = finished_job(JOB, EndedRun("1", 2, Outcome.OK, 110.0, 120.0, ()), None)
    assert job.predicted_slowdown is job.model_version is job.prediction_source is None


@given(
    moments=st.tuples(MOMENTS, MOMENTS),
    segments=st.lists(st.tuples(MOMENTS, MOMENTS), max_size=4),
    signals=st.dictionaries(st.sampled_from([*PROFILE_COLUMNS, "other"]), NUMBERS),
)
def test_whatever_a_cluster_measured_the_log_accepts(moments, segments, signals):
    kept = tuple(Segment(*sorted(pair), "gpu0", "A100") for pair in segments)
    run = EndedRun("1", 2, Outcome.FAILED, *moments, kept, signals)
    job = finished_job(JOB, run, NOTE)
    assert checked_job(job) is job


def test_a_lost_run_ended_when_its_scheduler_was_last_seen():
    run = lost_run(JOB, 130.0)
    assert (run.start_time, run.finish_time, run.outcome) == (110.0, 130.0, Outcome.NODE_FAIL)
    assert lost_run(JOB, 50.0).finish_time == 110.0
    assert lost_run(replace(JOB, start_time=None), 50.0).start_time == 50.0


def test_a_note_is_read_as_it_was_written():
    assert read_note(NOTE.to_json()) == NOTE
    assert read_note({"unknown": 1}) is None
    assert read_note(None) is None
