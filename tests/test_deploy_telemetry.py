"""The shipped telemetry files, judged by promtool and against what the code reads."""

import subprocess
from pathlib import Path

import pytest

from data import dcgm
from data.prometheus.config import DEFAULT_SIGNALS
from tests.prometheus import program

FOLDER = Path(__file__).parents[1] / "deploy" / "telemetry"


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "rules", "recording-rules.yml", "alerts.yml"),
        ("check", "config", "prometheus.yml"),
        ("test", "rules", "rules-test.yml"),
    ],
    ids=" ".join,
)
def test_promtool_accepts_what_is_shipped(arguments):
    done = subprocess.run(
        [program("promtool"), *arguments], cwd=FOLDER, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def counters() -> list[list[str]]:
    lines = (FOLDER / "dcgm-counters.csv").read_text().splitlines()
    return [line.split(", ", 2) for line in lines if line and not line.startswith("#")]


def test_the_counters_file_exports_every_signal_under_its_first_name():
    exported = {name for name, *_ in counters()}
    wanted = {name for readings in DEFAULT_SIGNALS.values() for name in readings[0].metrics}
    assert wanted <= exported


def test_every_line_of_the_counters_file_has_name_kind_and_help():
    lines = counters()
    assert all(len(line) == 3 and line[0].startswith("DCGM_FI_") for line in lines)
    assert {kind for _, kind, _ in lines} == {"gauge"}
    assert len({name for name, *_ in lines}) == len(lines)


def test_rules_read_the_series_that_the_scheduler_writes():
    rules = (FOLDER / "recording-rules.yml").read_text()
    assert dcgm.ALLOCATION_INFO in rules
    assert dcgm.ALLOCATION_INFO in (FOLDER / "alerts.yml").read_text()
