"""What is read and written without ado is what the strict code reads and writes."""

from dataclasses import replace

import pytest

from data.domain import Estimate, JobRequest, ModelStructure, Placement, Source
from data.wire import to_json
from scheduler_client.forecast.client import _card_document, _job_document
from scheduler_client.forecast.quick_answers import quick_estimate, quick_placement
from scheduler_client.jobs.placement_note import Joined, PlacementNote
from scheduler_client.policy.decisions import Level

ESTIMATE = Estimate(1.2, 1.0, 1.5, "m/1", Source.MODEL, in_domain=False)
PLACEMENT = Placement("gpu0", ESTIMATE, (ESTIMATE,), ESTIMATE, fits=True, cost=0.4)


def test_a_job_is_written_as_the_wire_format_wants_it():
    structure = ModelStructure("bert", 64, depth=12)
    job = JobRequest("7", "ada", "research", "bert", 1.5, 2, 100, 4, 200, 60.0, 3.0, structure)
    assert _job_document(job) == to_json(job)


def test_a_card_is_written_as_the_wire_format_wants_it(a_card):
    card = a_card("gpu0", "gan", "bert").as_card()
    assert _card_document(card) == to_json(card)


def test_a_note_is_written_as_the_wire_format_wants_it():
    note = PlacementNote(
        "colocate", ("gpu0",), (100,), Level.MODEL, "beside gan", True, ESTIMATE, None, ("gan",)
    )
    note = replace(note, answer_age_s=4.5)
    note = note.with_joined(Joined(5.0, "bert", None)).with_joined(Joined(6.0, "dlrm", 1.5))
    assert note.to_json() == to_json(note)


def test_a_well_formed_placement_is_read():
    assert quick_placement(to_json(PLACEMENT)) == PLACEMENT


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("value", "1.0"),
        ("value", True),
        ("value", float("nan")),
        ("upper", float("inf")),
        ("source", "oracle"),
        ("model_version", 3),
        ("in_domain", 1),
        ("surprise", 1.0),
    ],
)
def test_an_estimate_that_is_not_as_expected_is_left_to_the_strict_reader(field, value):
    assert quick_estimate({**to_json(ESTIMATE), field: value}) is None
    assert (
        quick_placement({**to_json(PLACEMENT), "memory": {**to_json(ESTIMATE), field: value}})
        is None
    )


@pytest.mark.parametrize("item", [None, [], "text", 3, {}])
def test_anything_else_is_left_to_the_strict_reader(item):
    assert quick_estimate(item) is None
    assert quick_placement(item) is None
