import json

import pytest

from data.domain import Estimate, FinishedJob, Outcome, Segment, Source
from data.errors import SpoolError
from scheduler_client.jobs.placement_note import Joined, PlacementNote
from scheduler_client.jobs.spool import Attempt
from scheduler_client.policy.decisions import Level, Reason, Waiting
from scheduler_client.report import RunFacts, report_document, write_report
from scheduler_client.run import RunEnd

SEGMENT = Segment(1.0, 2.0, "gpu0", "A100", ("gan",))
FINISHED = FinishedJob(
    "1", 1, "ada", "q", "bert", 1, 0.0, 1.0, 2.0, Outcome.OK, (SEGMENT,), predicted_slowdown=1.2
)
SLOW = Estimate(1.2, 1.1, 1.3, "m/1", Source.MODEL)
NOTE = PlacementNote(
    "colocate", ("gpu0",), (9,), Level.MODEL, "beside gan", True, SLOW, None, ("gan",)
).with_joined(Joined(1.5, "dlrm", 1.4))
END = RunEnd(False, 1, 2, 0, (Waiting("9", Reason.QUOTA),))


def test_a_report_holds_what_happened_and_what_was_decided(a_card):
    facts = RunFacts("colocate", 0.0, 9.0, (a_card(),))
    attempts = [Attempt(FINISHED, NOTE.to_json()), Attempt(FINISHED, None)]
    report = report_document(facts, attempts, END)
    first, second = report["jobs"]
    assert first["segments"][0]["neighbour_keys"] == ["gan"]
    assert (first["card_id"], first["level"], first["predicted_slowdown"]) == ("gpu0", "model", 1.2)
    assert first["predicted_slowdown_upper"] == 1.3
    assert first["joined"] == [{"time": 1.5, "neighbour_key": "dlrm", "slowdown": 1.4}]
    assert (second["card_id"], second["level"], second["reason"]) == ("gpu0", "none", None)
    assert report["levels"] == {"model": 1, "none": 1}
    assert report["left"] == {"pending": 1, "undelivered": 2, "refused": 0}
    assert report["waiting"][0]["why"].startswith("its queue may hold")
    assert json.loads(json.dumps(report)) == report


def test_a_report_is_written_whole(tmp_path):
    path = tmp_path / "new" / "report.json"
    write_report(path, {"a": 1})
    write_report(path, {"a": 2})
    assert json.loads(path.read_text()) == {"a": 2}
    assert [file.name for file in path.parent.iterdir()] == ["report.json"]


def test_a_report_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolError, match="cannot be written"):
        write_report(tmp_path / "file" / "report.json", {})
