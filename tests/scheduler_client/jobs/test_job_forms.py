"""How old an answer was goes from the forecast to the note, the log and what a person reads."""

import pytest

from scheduler_client.explaining.documents import admission_document
from scheduler_client.explaining.texts import placement_text
from scheduler_client.jobs.job_forms import started_fields
from scheduler_client.jobs.placement_note import placement_note, read_note
from scheduler_client.jobs.spool import SpooledJob
from scheduler_client.jobs.submission import Submission
from scheduler_client.policy.decide import PolicyRules
from scheduler_client.policy.decisions import Level
from scheduler_client.policy.policies import policy_named
from scheduler_client.policy.predictions import JobForecast
from scheduler_client.policy.view import ClusterView, Queue


@pytest.fixture
def admission(a_card, a_pending):
    """A job on an empty card, placed by answers that were 75.25 s old."""
    forecast = JobForecast(level=Level.LAST_GOOD, answer_age_s=75.25)
    queues = (Queue("research", 4),)
    view = ClusterView(0.0, (a_card(),), (a_pending("7", gpu_mem_mib=10),), (), queues)
    return policy_named("colocate", PolicyRules()).decide(view, {"7": forecast}).admissions[0]


def test_the_log_of_a_start_says_how_old_its_answers_were(admission):
    note = placement_note(admission, "colocate", None, ())
    submission = Submission("ada", "research", "bert", ("true",))
    fields = started_fields(SpooledJob("7", 1, 0.0, 1.0, submission), note)
    assert (fields["level"], fields["answer_age_s"]) == (Level.LAST_GOOD, 75.25)


def test_a_note_keeps_the_age_and_one_without_it_is_read(admission):
    written = placement_note(admission, "colocate", None, ()).to_json()
    assert read_note(written).answer_age_s == 75.25
    del written["answer_age_s"]
    assert read_note(written).answer_age_s is None


def test_a_person_reads_the_age_beside_the_level(admission):
    found = {"job_id": "7", "attempt": 1, **admission_document(admission)}
    assert "(level last_good, answers up to 75 s old)" in placement_text(found)
    assert "(level last_good)" in placement_text({**found, "answer_age_s": None})
