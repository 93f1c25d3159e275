from http import HTTPStatus

import pytest

from data.errors import (
    BadModelError,
    DeadlineError,
    JobConflictError,
    JobLogError,
    MediaTypeError,
    NoChampionError,
    OverloadedError,
    RequestError,
    RequestTooLargeError,
    UnauthorizedError,
    UnknownProfileError,
    WireError,
)
from serving.web.errors import STATUSES, http_error, route_error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RequestError(("pairs", "nothing", "this field")), 400),
        (WireError("jobs[0].start_time", "9", "later"), 400),
        (UnauthorizedError("no"), 401),
        (UnknownProfileError(["bert"]), 404),
        (JobConflictError([("7", 1)]), 409),
        (RequestTooLargeError(("", "9 bytes", "8 bytes")), 413),
        (MediaTypeError(("content-type", "text/plain", "application/json")), 415),
        (JobLogError("locked"), 503),
        (NoChampionError("none"), 503),
        (OverloadedError("65"), 503),
        (DeadlineError("2 s"), 504),
        (BadModelError("digest"), 503),
    ],
)
def test_each_error_has_its_status(error, status):
    assert http_error(error).status == status


def test_answer_names_each_field():
    answer = http_error(RequestError(("a", "1", "2"), ("b", "3", "4"))).answer
    assert answer.error == "a: found 1, wanted 2; b: found 3, wanted 4"
    assert [fault.field for fault in answer.detail] == ["a", "b"]


def test_answer_to_unknown_profiles_names_the_keys():
    assert "'bert'" in http_error(UnknownProfileError(["bert"])).answer.error


def test_what_may_pass_soon_says_when_to_come_back():
    assert http_error(JobLogError("locked")).headers == {"Retry-After": "1"}
    assert http_error(UnauthorizedError("no")).headers == {"WWW-Authenticate": "Bearer"}


def test_wrong_method_is_told_the_right_one():
    error = route_error(HTTPStatus.METHOD_NOT_ALLOWED, "GET", "POST")
    assert (error.status, error.headers) == (405, {"Allow": "POST"})


def test_no_error_stands_before_its_base():
    kinds = [kind for kind, _ in STATUSES]
    for at, kind in enumerate(kinds):
        assert not any(issubclass(kind, earlier) for earlier in kinds[:at])
