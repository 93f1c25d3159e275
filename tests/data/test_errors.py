"""The one tree of errors."""

import inspect

import pytest

from data import errors

EVERY = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
EVERY = [kind for kind in EVERY if kind.__module__ == errors.__name__]


@pytest.mark.parametrize("kind", EVERY)
def test_every_error_derives_from_the_one_base(kind):
    assert issubclass(kind, errors.ColocastError)
    assert kind.exit_code == 2


@pytest.mark.parametrize("kind", [kind for kind in EVERY if kind is not errors.ColocastError])
def test_every_error_refines_a_builtin(kind):
    builtin = [base for base in kind.__mro__ if base.__module__ == "builtins"]
    assert builtin[0] is not Exception


def test_table_error_keeps_what_was_found():
    error = errors.TableError("a.csv", "x = -1", "x above 0", row=3)
    assert (error.source, error.row) == ("a.csv", 3)
    assert str(error) == "a.csv, row 3: found x = -1, wanted x above 0"


def test_unknown_profile_error_reads_as_a_sentence():
    error = errors.UnknownProfileError(["b", "a"])
    assert str(error) == "no exclusive profile of 'a', 'b'; wanted one run each"


@pytest.mark.parametrize(
    ("field", "text"), [("", "found 1"), ("pair.job_key", "pair.job_key: found 1")]
)
def test_wire_error_names_the_field_if_there_is_one(field, text):
    assert str(errors.WireError(field, "1", "a text")) == f"{text}, wanted a text"


def test_job_conflict_error_says_that_nothing_was_appended():
    error = errors.JobConflictError([("job-1", 0)])
    assert error.keys == (("job-1", 0),)
    assert "('job-1', 0); wanted a new attempt number" in str(error)


def test_missing_baseline_error_shows_at_most_five():
    assert "and 2 more" in str(errors.MissingBaselineError(range(7)))
