from dataclasses import replace

import pytest

from data.domain import FinishedJob, ModelStructure, Outcome, Segment
from data.errors import WireError
from data.finished import (
    checked_job,
    finished_from_json,
    finished_from_text,
    finished_to_json,
    finished_to_text,
)

JOB = FinishedJob(
    "j1", 1, "ada", "research", "bert", 1, 10.0, 20.0, 80.0, Outcome.OK,
    segments=(Segment(20.0, 80.0, "gpu0", "A100"),),
    structure=ModelStructure("bert", 8),
    signals={"sm_active_mean": 0.5, "gpu_mem_peak_mib": 4000.0},
)  # fmt: skip


def test_a_possible_job_passes_unchanged_in_both_forms():
    assert checked_job(JOB) is JOB
    assert finished_from_json(finished_to_json(JOB)) == JOB
    assert finished_from_text(finished_to_text(JOB)) == JOB


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"job_id": ""}, "job_id: found '', wanted a text of 1 to 512"),
        ({"job_id": "x" * 513}, "job_id: found .*, wanted a text of 1 to 512"),
        ({"attempt": -1}, "attempt: found -1"),
        ({"attempt": 2**31}, "attempt: found 2147483648"),
        ({"submit_time": 21.0}, "start_time: found 20.0, wanted submit_time or later"),
        ({"finish_time": 19.0}, "finish_time: found 19.0, wanted start_time or later"),
        ({"gpus": -1}, r"gpus: found -1, wanted a number in \[0"),
        ({"limit_s": -0.5}, "limit_s: found -0.5"),
        ({"predicted_runtime_s": -1.0}, "predicted_runtime_s: found -1.0"),
        ({"structure": ModelStructure("bert", 0)}, "structure.batch_size: found 0"),
        ({"structure": ModelStructure("bert", 1, depth=-1)}, "structure.depth: found -1"),
        ({"segments": (Segment(30.0, 25.0, "g", "A"),)}, r"segments\[0\].finish_time: found 25.0"),
        ({"segments": (Segment(18.5, 25.0, "g", "A"),)}, "wanted times within the job's run"),
        ({"segments": (Segment(20.0, 81.5, "g", "A"),)}, "wanted times within the job's run"),
        ({"signals": {"watts": 1.0}}, "signals: found unknown 'watts'"),
        ({"signals": {"sm_active_std": 1.5}}, r"signals.sm_active_std: found 1.5.*\[0, 1\]"),
        ({"signals": {"gpu_mem_mib_mean": -1.0}}, r"signals.gpu_mem_mib_mean: found -1.0"),
    ],
)
def test_what_cannot_have_happened_is_refused_by_field(change, match):
    with pytest.raises(WireError, match=match):
        finished_to_text(replace(JOB, **change))


def test_the_rules_hold_on_the_way_in_as_well():
    with pytest.raises(WireError, match="attempt: found -1"):
        finished_from_json(finished_to_json(JOB) | {"attempt": -1})
