import json
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.domain import (
    Estimate,
    FinishedJob,
    JobRequest,
    ModelStructure,
    Outcome,
    Pair,
    Placement,
    Segment,
    Source,
)
from data.errors import WireError
from data.wire import dumps, from_json, loads, to_json

JOB = FinishedJob(
    job_id="j1",
    attempt=2,
    user="ada",
    queue="research",
    job_key="resnet50",
    gpus=1,
    submit_time=1000.1,
    start_time=1001.2,
    finish_time=1060.300000000001,
    outcome=Outcome.OK,
    segments=(Segment(1001.2, 1060.3, "gpu0", "A100", ("bert", "ncf")),),
    limit_s=3600.0,
    structure=ModelStructure("resnet", 32, embedding_rows=10**6),
    signals={"sm_active_mean": 0.1 + 0.2},
    predicted_slowdown=1.25,
    prediction_source=Source.MODEL,
)
ANY_JOB = st.builds(
    FinishedJob,
    job_id=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    user=st.just("ada"),
    queue=st.just("q"),
    job_key=st.just("k"),
    segments=st.builds(
        lambda start, keys: (Segment(start, start, "c", "A100", keys),),
        st.floats(allow_nan=False, allow_infinity=False),
        st.tuples(st.just("n"), st.just("m")),
    ),
    structure=st.none() | st.builds(ModelStructure, st.just("f"), st.integers(1)),
    signals=st.dictionaries(st.just("sm_active_mean"), st.floats(0, 1)),
    **dict.fromkeys(["submit_time", "start_time", "finish_time"], st.floats(0, 1e10)),
    **dict.fromkeys(
        ["limit_s", "predicted_slowdown", "predicted_runtime_s"], st.none() | st.floats(0, 1e300)
    ),
    model_version=st.none(),
)


@given(ANY_JOB)
def test_every_job_survives_the_round_trip_exactly(job):
    assert loads(FinishedJob, dumps(job)) == job


def test_nested_values_lists_and_names_become_plain_json():
    document = to_json(JOB)
    assert document["outcome"] == "ok"
    assert document["segments"][0]["neighbour_keys"] == ["bert", "ncf"]
    assert json.loads(dumps(JOB)) == document


def test_a_value_with_nested_tuples_of_dataclasses_is_rebuilt():
    one = Estimate(1.1, 1.0, 1.3, "m/1", Source.MODEL)
    placement = Placement("gpu0", one, (one, one), one, fits=True, cost=0.3)
    assert from_json(Placement, to_json(placement)) == placement


def test_fields_with_a_default_may_be_absent():
    document = {"job_id": "1", "user": "u", "queue": "q", "job_key": "k", "submit_time": 5}
    assert from_json(JobRequest, document) == JobRequest("1", "u", "q", "k", 5.0)
    assert isinstance(from_json(JobRequest, document).submit_time, float)


def test_a_whole_float_stands_for_a_whole_number_and_large_ones_stay_exact():
    document = to_json(replace(JOB, mem_mib=2**53 + 1)) | {"gpus": 2.0}
    job = from_json(FinishedJob, document)
    assert (job.gpus, type(job.gpus), job.mem_mib) == (2, int, 2**53 + 1)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"colour": 1}, "found unknown fields 'colour', wanted 'job_id'"),
        ({"outcome": "fine"}, "outcome: found 'fine', wanted one of ok, failed"),
        ({"outcome": True}, "outcome: found True"),
        ({"gpus": 1.5}, "gpus: found 1.5, wanted a whole number"),
        ({"gpus": True}, "gpus: found true or false True, wanted a number"),
        ({"gpus": None}, "gpus: found null, wanted a number"),
        ({"finish_time": float("nan")}, "finish_time: found nan, wanted a finite number"),
        ({"finish_time": 10**400}, "finish_time: found inf, wanted a finite number"),
        ({"finish_time": "soon"}, "finish_time: found a text 'soon', wanted a number"),
        ({"user": 7}, "user: found a number 7, wanted a text"),
        ({"user": "a\0b"}, "user: found .*, wanted a text without NUL"),
        ({"user": "\ud800"}, "user: found .*, wanted a text without NUL and lone surrogates"),
        ({"segments": {}}, "segments: found dict, wanted a list"),
        ({"segments": [7]}, r"segments\[0\]: found a number 7, wanted an object, Segment"),
        ({"segments": [{"start_time": 1}]}, r"segments\[0\]: found no field 'card_id'"),
        ({"signals": []}, "signals: found list, wanted an object"),
        ({"signals": {"x": "y"}}, "signals.x: found a text 'y', wanted a number"),
    ],
)
def test_what_is_wrong_is_refused_by_its_path(change, match):
    with pytest.raises(WireError, match=match):
        from_json(FinishedJob, to_json(JOB) | change)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("{", "text that is no JSON"),
        ('{"job_key": "a", "job_key": "b"}', "a key twice"),
        ("[" * 100_000, "text that is no JSON"),
        ("3", "Pair: found a number 3, wanted an object"),
        ('{"job_key": "a"}', "Pair: found no field 'gpu_model', 'neighbour_key'"),
    ],
)
def test_text_that_is_no_such_document_is_refused(text, match):
    with pytest.raises(WireError, match=match):
        loads(Pair, text)


def test_a_value_without_a_json_form_is_refused_on_the_way_out():
    with pytest.raises(WireError, match="submit_time: found nan"):
        to_json(replace(JOB, submit_time=float("nan")))
    with pytest.raises(WireError, match="found dict, wanted a dataclass"):
        to_json({})
    with pytest.raises(WireError, match="user: found complex"):
        to_json(replace(JOB, user=1j))


@dataclass(frozen=True)
class Fixed:
    is_on: bool
    span: tuple[float, float]


@dataclass(frozen=True)
class Strange:
    value: int | str


def test_flags_and_tuples_of_a_fixed_length_are_checked():
    assert from_json(Fixed, {"is_on": True, "span": [1, 2]}) == Fixed(True, (1.0, 2.0))
    with pytest.raises(WireError, match="span: found a list of 3, wanted a list of 2"):
        from_json(Fixed, {"is_on": True, "span": [1, 2, 3]})
    with pytest.raises(WireError, match="is_on: found a number 1, wanted true or false"):
        from_json(Fixed, {"is_on": 1, "span": [1, 2]})


def test_a_type_without_one_json_form_is_a_programming_error():
    with pytest.raises(TypeError, match="only of one type or null"):
        from_json(Strange, {"value": 1})
