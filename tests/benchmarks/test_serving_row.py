import json
from contextlib import nullcontext

import pytest

from benchmarks import serving
from benchmarks.serving_row import Row, skipped


@pytest.mark.parametrize(
    ("value", "at_least", "holds", "has_regressed"),
    [(1.9, False, True, False), (3.0, False, False, False), (9.0, False, False, True),
     (2.0, True, True, False), (1.0, True, False, True)],
)  # fmt: skip
def test_row_may_miss_its_target_within_its_bound(value, at_least, holds, has_regressed):
    target, bound = (2.0, 1.5) if at_least else (2.0, 4.0)
    row = Row("p99", value, "ratio", target, bound, at_least=at_least)
    assert (row.holds, row.has_regressed) == (holds, has_regressed)


def test_skipped_row_neither_holds_nor_fails():
    row = skipped("latency", "no wrk")
    assert (row.holds, row.has_regressed) == (None, False)
    assert "no wrk" in row.line()


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run the benchmark with made-up rows; return what it wrote."""
    monkeypatch.setattr(serving, "made", lambda *arguments: nullcontext())

    def run(*rows):
        monkeypatch.setattr(serving, "PARTS", {"forest": lambda bench: rows})
        path = tmp_path / "serving.json"
        arguments = ["serving", "--json", str(path), "--only", "forest"]
        monkeypatch.setattr("sys.argv", arguments)
        serving.main()
        return json.loads(path.read_text())

    return run


def test_row_beyond_its_bound_fails_the_benchmark_by_name(run, tmp_path):
    with pytest.raises(SystemExit, match="beyond its bound: timers"):
        run(Row("timers", 9.0, "ratio", 2.0, 4.0), Row("fine", 1.0, "ratio", 2.0, 4.0))
    assert len(json.loads((tmp_path / "serving.json").read_text())) == 2


def test_missed_target_is_written_and_does_not_fail(run):
    (facts,) = run(Row("slow", 3.0, "ratio", 2.0, 4.0))
    assert (facts["holds"], facts["has_regressed"]) == (False, False)


def test_without_wrk_the_rows_that_need_it_are_skipped(run, monkeypatch):
    monkeypatch.setattr(serving, "is_installed", lambda: False)
    monkeypatch.setattr(serving, "WITHOUT_WRK", ())
    (facts,) = run(Row("p99", 1.0, "ratio"))
    assert "wrk is not installed" in facts["skipped"]
