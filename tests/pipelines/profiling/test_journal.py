"""The journal of a profiling session survives whatever happens to its writer."""

import json
from pathlib import Path

import pytest

from data.errors import ProfilerError
from pipelines.profiling.journal import Conditions, Journal

CONDITIONS = Conditions("EPYC", "cpu", {"sort": "sort -n"})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.jsonl"


def test_what_was_appended_is_there_when_it_is_opened_again(path):
    with Journal(path, CONDITIONS) as journal:
        journal.append("sort#0", [{"jct_s": 1.5}])
        session = journal.session
    with Journal(path, CONDITIONS) as journal:
        assert journal.finished == {"sort#0": [{"jct_s": 1.5}]}
        assert journal.session == session


def test_a_line_that_was_cut_off_is_dropped(path):
    with Journal(path, CONDITIONS) as journal:
        journal.append("sort#0", [])
        journal.append("sort#1", [])
    content = path.read_bytes()
    for end in range(content.index(b'{"measurement": "sort#1"') + 1, len(content)):
        path.write_bytes(content[:end])
        with Journal(path, CONDITIONS) as journal:
            assert set(journal.finished) == {"sort#0"}
        assert path.read_bytes().endswith(b"\n")


def test_a_session_may_gain_jobs(path):
    more = Conditions("EPYC", "cpu", {"sort": "sort -n", "zip": "zip"})
    for conditions in (CONDITIONS, more, CONDITIONS):
        with Journal(path, conditions):
            pass
    assert len(path.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("conditions", "match"),
    [
        (Conditions("Xeon", "cpu", {}), "machine = 'EPYC', found 'Xeon'"),
        (Conditions("EPYC", "H200", {}), "device = 'cpu', found 'H200'"),
        (Conditions("EPYC", "cpu", {"sort": "sort -r"}), "sort = 'sort -n', found 'sort -r'"),
    ],
)
def test_other_conditions_are_refused(path, conditions, match):
    with Journal(path, CONDITIONS):
        pass
    with pytest.raises(ProfilerError, match=match):
        Journal(path, conditions)


def test_two_profilers_at_once_are_refused(path):
    with (
        Journal(path, CONDITIONS),
        pytest.raises(ProfilerError, match="another profiler is writing"),
    ):
        Journal(path, CONDITIONS)


@pytest.mark.parametrize("line", ["nonsense", "[]", "3", "{}", '{"format": 99}'])
def test_another_file_is_no_journal(path, line):
    path.write_text(line + "\n")
    with pytest.raises(ProfilerError, match=r"journal\.jsonl, line 1"):
        Journal(path, CONDITIONS)


def test_a_full_disk_is_named(path):
    with Journal(path, CONDITIONS) as journal, Path("/dev/full").open("wb", buffering=0) as full:
        journal._file.close()
        journal._file = full
        with pytest.raises(ProfilerError, match="No space left on device"):
            journal.append("sort#0", [])
        assert journal.finished == {}
    assert json.loads(path.read_text())["session"] == journal.session
