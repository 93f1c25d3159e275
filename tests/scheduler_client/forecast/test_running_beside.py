import pytest

from data.domain import ModelStructure
from features.started_jobs import STARTED_WINDOW
from scheduler_client.forecast.running_beside import MOST_RUNNING, NEWEST, running_beside
from scheduler_client.policy.view import RunningJob
from serving.web.limits import LIMITS

NOW = 1000.0


@pytest.fixture
def a_running(a_job):
    """Make a running job with its request; fields as of a request."""

    def make(job_id: str, start_time: float, **fields: object) -> RunningJob:
        asked = a_job(job_id, **fields)
        return RunningJob(
            job_id, asked.user, asked.queue, asked.job_key, (), start_time, request=asked
        )

    return make


def ids(found) -> list[str]:
    return [job.job_id for job in found]


def test_running_jobs_of_the_same_user_are_told_with_their_age(a_job, a_running):
    structure = ModelStructure("cnn", 32)
    running = [a_running("1", 900.0, structure=structure), a_running("2", 990.0, user="bob")]
    (told,) = running_beside([a_job("7")], running, NOW)
    assert (told.job_id, told.elapsed_s, told.structure) == ("1", 100.0, None)


def test_a_clock_that_was_set_back_makes_no_negative_age(a_job, a_running):
    (told,) = running_beside([a_job("7")], [a_running("1", NOW + 5)], NOW)
    assert told.elapsed_s == 0.0


def test_a_job_whose_request_nobody_knows_is_left_out(a_job):
    running = [RunningJob("1", "ada", "research", "bert", (), 0.0)]
    assert running_beside([a_job("7")], running, NOW) == ()


def test_of_a_user_only_the_newest_are_told(a_job, a_running):
    running = [a_running(str(n), float(n)) for n in range(NEWEST + 5)]
    told = ids(running_beside([a_job("7")], running, NOW))
    assert told == [str(n) for n in range(NEWEST + 4, 4, -1)]


def test_the_very_same_request_is_told_behind_any_number_of_others(a_job, a_running):
    others = [a_running(str(n), 500.0 + n) for n in range(2 * NEWEST)]
    alike = a_running("alike", 1.0, job_key="gan")
    assert "alike" in ids(running_beside([a_job("7", job_key="gan")], [alike, *others], NOW))
    assert "alike" not in ids(running_beside([a_job("7")], [alike, *others], NOW))


def test_a_question_is_bounded_and_each_user_keeps_the_newest(a_job, a_running):
    users = [f"user{n}" for n in range(100)]
    running = [a_running(f"{u}-{n}", float(n), user=u) for u in users for n in range(30)]
    told = running_beside([a_job(user=u) for u in users], running, NOW)
    assert len(told) == MOST_RUNNING
    assert {sum(job.user == user for job in told) for user in users} == {20}
    assert min(int(job.job_id.split("-")[1]) for job in told) == 10


def test_as_much_is_told_as_the_models_look_at_and_the_service_takes():
    assert NEWEST == STARTED_WINDOW + 1  # the one that is asked about may be among them
    assert LIMITS["RuntimeRequest", "running"].most >= MOST_RUNNING
