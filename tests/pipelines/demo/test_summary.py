"""The summary counts only what really happened in both passes."""

import pytest

from data.domain import FinishedJob, Outcome, Segment
from pipelines.demo.summary import makespan_s, predictions, summary_lines, user_rows


def job(user="ana", submit=0.0, start=1.0, finish=3.0, outcome=Outcome.OK, neighbours=(), **more):
    segment = Segment(start, finish, "slot-0", "cpu", tuple(neighbours))
    name = f"{user}-{submit}"
    return FinishedJob(
        name, 0, user, user, "sort", 1, submit, start, finish, outcome, (segment,), **more
    )


def test_each_user_and_all_get_a_row():
    rows = user_rows([job(), job("bo")], [job(finish=5.0), job("bo")])
    assert [(row.user, row.colocated_jct_s) for row in rows] == [
        ("ana", 5.0),
        ("bo", 3.0),
        ("all", 4.0),
    ]


def test_failed_jobs_do_not_count_as_quick_ones():
    rows = user_rows([job()], [job(), job(submit=0.5, finish=1.1, outcome=Outcome.FAILED)])
    assert rows[-1].colocated_jct_s == 3.0


def test_pass_without_a_good_job_is_refused():
    with pytest.raises(ValueError, match="no job that ended well"):
        user_rows([job(outcome=Outcome.FAILED)], [job()])


def test_measured_slowdown_is_against_the_exclusive_pass():
    rows = predictions([job()], [job(finish=4.0, neighbours=["zip"], predicted_slowdown=1.4)])
    assert [(row.predicted, row.measured) for row in rows] == [(1.4, 1.5)]


def test_job_that_ran_alone_says_nothing_of_slowdown():
    assert predictions([job()], [job(predicted_slowdown=1.4)]) == []


def test_makespan_spans_all_jobs():
    assert makespan_s([job(submit=1.0), job(submit=0.0, finish=9.0)]) == 9.0


def test_summary_names_the_versions_that_answered():
    colocated = [job(finish=4.0, neighbours=["zip"], predicted_slowdown=1.4)]
    text = "\n".join(summary_lines([job()], colocated, {"colocast-interference/2": 3}))
    assert "colocast-interference/2 (3)" in text
    assert "predicted 1.40, measured 1.50, mean absolute error 0.10" in text


def test_summary_without_colocation_says_so():
    assert "no job was placed beside a neighbour" in summary_lines([job()], [job()], {})
