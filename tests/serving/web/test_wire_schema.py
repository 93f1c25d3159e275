import json

import pytest

from data.domain import Estimate, FinishedJob, JobRequest, ModelStructure, Pair, Source
from data.errors import RequestError
from data.wire import to_json
from serving.web.examples import EXAMPLES
from serving.web.wire_models import (
    DemandsAnswer,
    EstimatesAnswer,
    FinishedRequest,
    PlacementsRequest,
    RuntimeRequest,
    SlowdownRequest,
    StructuresRequest,
)
from serving.web.wire_schema import Reader, Writer, answer_schemas, request_schemas

PAIR = {"job_key": "a", "neighbour_key": "b", "gpu_model": "v100"}
JOB = {"job_id": "1", "user": "", "queue": "q", "job_key": "k", "submit_time": 1}


def pairs(*changes):
    return json.dumps({"pairs": [PAIR | change for change in changes]}).encode()


def job(**changes):
    return json.dumps({"jobs": [JOB | changes]}).encode()


def test_pairs_are_read_into_the_domain_type():
    assert Reader(SlowdownRequest).read(pairs({})) == SlowdownRequest((Pair("a", "b", "v100"),))


@pytest.mark.parametrize("kind", [PlacementsRequest, FinishedRequest, RuntimeRequest])
def test_what_the_scheduler_writes_is_read_back_equal(kind):
    path = {PlacementsRequest: "placements", FinishedRequest: "finished", RuntimeRequest: "runtime"}
    document = EXAMPLES[f"/v1/{path[kind]}"]
    value = Reader(kind).read(json.dumps(document).encode())
    assert to_json(value) == document


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "body: found 0 bytes, wanted a JSON object"),
        (b"[]", "body: found a list of 0, wanted an object"),
        (b"null", "body: found None, wanted an object"),
        (b"\xff\xfe", "wanted a JSON object"),
        (b'{"pairs": [', "wanted a JSON object"),
        (b"[" * 5000, "recursion limit"),
        (b'{"pairs": ' + b"[" * 5000, "recursion limit"),
        (b'{"pairs": {}}', "pairs: found an object of 0, wanted a list"),
        (b'{"pairs": []}', "pairs: found a list of 0, wanted at least 1 rows"),
        (b"{}", "pairs: found nothing, wanted this field"),
        (pairs({"job_key": 3}), r"pairs\[0\].job_key: found 3, wanted a text"),
        (pairs({}, {"gpu_model": ""}), r"pairs\[1\].gpu_model: found '', wanted at least 1"),
        (pairs({"job_key": "a\0"}), "wanted a text without control characters"),
        (pairs({"job_key": "a" * 513}), "wanted at most 512 characters"),
        (pairs({"mode": "fast"}), r"pairs\[0\].mode: found an unknown field"),
        (pairs({})[:-1] + b', "mode": 1}', "^mode: found an unknown field"),
        (b'{"pairs": ["\\ud800"]}', "wanted"),
        (pairs(*[{}] * 10_001), "pairs: found a list of 10001, wanted at most 10000 rows"),
    ],
)
def test_strange_body_is_refused_by_field(body, message):
    with pytest.raises(RequestError, match=message):
        Reader(SlowdownRequest).read(body)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"submit_time": float("nan")}, "submit_time: found nan, wanted a finite number"),
        ({"submit_time": float("inf")}, "submit_time: found inf, wanted a finite number"),
        ({"submit_time": -1}, "submit_time: found -1, wanted at least 0"),
        ({"submit_time": "1"}, "submit_time: found '1', wanted a number"),
        ({"submit_time": None}, "submit_time: found None, wanted a number"),
        ({"gpus": True}, r"gpus: found True, wanted a whole number in \[0, 1000000\]"),
        ({"gpus": "1"}, "gpus: found '1', wanted a whole number"),
        ({"gpus": 1.5}, "gpus: found 1.5, wanted a whole number"),
        ({"gpus": -1}, "gpus: found -1, wanted a whole number"),
        ({"gpus": -1.0}, "gpus: found -1.0, wanted a whole number"),
        ({"gpus": 10**30}, "gpus: found 1000.*, wanted a whole number"),
        ({"gpus": 1e30}, r"gpus: found 1e\+30, wanted a whole number"),
        ({"gpus": float("nan")}, "gpus: found nan, wanted a whole number"),
        ({"gpu_mem_mib": "1"}, "gpu_mem_mib: found '1', wanted a whole number"),
        ({"elapsed_s": -0.1}, "elapsed_s: found -0.1, wanted at least 0"),
        ({"structure": {}}, "structure.family: found nothing, wanted this field"),
    ],
)
def test_value_out_of_range_is_refused_by_field(change, message):
    with pytest.raises(RequestError, match=message):
        Reader(RuntimeRequest).read(job(**change))


def test_whole_float_stands_for_a_whole_number():
    (read,) = Reader(RuntimeRequest).read(job(gpus=2.0, cpus=4.0)).jobs
    assert (read.gpus, read.cpus) == (2, 4)
    assert type(read.gpus) is int


def test_number_too_large_for_a_float_is_refused():
    with pytest.raises(RequestError, match="submit_time: found inf"):
        Reader(RuntimeRequest).read(job().replace(b'"submit_time": 1', b'"submit_time": 1e999'))


def test_at_most_five_faults_are_named():
    with pytest.raises(RequestError, match=r"pairs\[4\]") as caught:
        Reader(SlowdownRequest).read(pairs(*[{"job_key": 1}] * 50))
    assert len(caught.value.faults) == 5


def test_a_row_at_fault_does_not_make_its_list_too_short():
    with pytest.raises(RequestError, match="job_key") as caught:
        Reader(SlowdownRequest).read(pairs({"job_key": 1}))
    assert len(caught.value.faults) == 1


def test_message_shows_only_the_start_of_a_long_value():
    with pytest.raises(RequestError, match="wanted") as caught:
        Reader(RuntimeRequest).read(job(submit_time="x" * 10_000))
    assert len(str(caught.value)) < 200


def test_answers_are_written_as_the_domain_codec_writes_them():
    estimate = Estimate(1.25, 1.0, 2.0, "colocast-interference/3", Source.MODEL)
    written = json.loads(Writer(EstimatesAnswer).write(EstimatesAnswer((estimate,))))
    assert written == {"estimates": [to_json(estimate)]}


def test_request_schema_names_ranges_and_forbids_unknown_fields():
    schemas = request_schemas([Reader(StructuresRequest), Reader(FinishedRequest)])
    structure = schemas["ModelStructure"]
    assert structure["properties"]["batch_size"]["minimum"] == 1
    assert structure["additionalProperties"] is False
    assert set(structure["required"]) == {"family", "batch_size"}
    assert schemas["FinishedRequest"]["properties"]["jobs"]["maxItems"] == 1000
    (signal,) = schemas["FinishedJob"]["properties"]["signals"]["patternProperties"].values()
    assert signal["minimum"] == 0


def test_answer_schema_is_not_bounded():
    estimate = answer_schemas([Writer(DemandsAnswer)])["Estimate"]
    assert estimate["properties"]["value"] == {"title": "Value", "type": "number"}


def test_domain_types_stay_free_of_pydantic():
    for kind in (Pair, JobRequest, FinishedJob, ModelStructure):
        assert not hasattr(kind, "__pydantic_config__")
