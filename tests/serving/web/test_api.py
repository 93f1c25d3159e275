import asyncio
import json
import threading

import numpy as np
import pytest

from data.domain import Card, JobRequest, Pair, Resident
from data.errors import JobLogError
from data.joblog import JobLog
from data.wire import to_json
from serving.champions.cache import ModelCache
from serving.metrics import Metrics
from serving.state import ServingState
from serving.web.api import LARGEST_QUEUE, Api
from serving.web.endpoints import ENDPOINTS
from serving.web.examples import EXAMPLES
from serving.web.limits import BODY_BYTES
from serving.web.openapi import openapi_document
from serving.web.tokens import Tokens, tokens_from_file
from serving.web.wire_binary import estimates_from_frame, pairs_frame
from serving.web.wire_models import SlowdownRequest
from tests.serving.caller import Caller

PAIR = {"job_key": "k1", "neighbour_key": "k2", "gpu_model": "v100"}
PAIRS = {"pairs": [PAIR, {**PAIR, "job_key": "k3"}]}
OCTETS = "application/octet-stream"
POSTS = [e.path for e in ENDPOINTS if e.method == "POST" and not e.is_signed]


@pytest.fixture
def state(champions, tmp_path):
    with JobLog(f"sqlite:///{tmp_path / 'joblog.db'}") as log:
        state = ServingState(champions, ModelCache(tmp_path / "cache"), lambda: log, Metrics())
        state.refresh()
        yield state
        state.stop()


@pytest.fixture
def api(state):
    return Api(Metrics(), Tokens(), state)


@pytest.fixture
def post(api):
    return Caller(api)


def test_slowdowns_come_in_the_order_of_the_pairs(post):
    status, _, answer = post("/v1/slowdown", PAIRS)
    assert status == 200
    one, other = answer["estimates"]
    assert one["model_version"] == "colocast-interference/1"
    assert one["lower"] <= one["value"] <= one["upper"]
    assert post("/v1/slowdown", {"pairs": PAIRS["pairs"][::-1]})[2]["estimates"] == [other, one]


def test_repeated_pairs_are_answered_alike(post):
    assert post("/v1/slowdown", PAIRS) == post("/v1/slowdown", PAIRS)


def test_unprofiled_keys_are_404_and_named(post):
    pairs = [{**PAIR, "job_key": "new"}, {**PAIR, "gpu_model": "a100"}]
    status, _, answer = post("/v1/slowdown", {"pairs": pairs})
    assert status == 404
    assert answer["error"].startswith("no exclusive profile of 'k1', 'k2', 'new'")


def placements(post, job_key, *cards, **changes):
    job = JobRequest("9", "ada", "q", job_key, 0.0, **changes)
    document = {"job": to_json(job), "cards": [to_json(card) for card in cards]}
    status, _, answer = post("/v1/placements", document)
    assert status == 200
    return answer["placements"]


def card(name, *keys, gpu_model="v100"):
    return Card(name, gpu_model, 4096, tuple(Resident(key, key) for key in keys))


def test_placements_are_ranked_and_whole(post):
    cards = [card(f"c{n}", f"k{n}") for n in range(5)]
    found = placements(post, "k0", *cards, card("free"))
    costs = [placement["cost"] for placement in found]
    assert costs == sorted(costs)
    assert {placement["card_id"] for placement in found} == {"free", *(c.card_id for c in cards)}


def test_placements_agree_with_slowdowns(post):
    (placement,) = placements(post, "k1", card("c", "k2"))
    pairs = [PAIR, {**PAIR, "job_key": "k2", "neighbour_key": "k1"}]
    estimates = post("/v1/slowdown", {"pairs": pairs})[2]["estimates"]
    assert [placement["job_slowdown"], *placement["neighbour_slowdowns"]] == estimates


def test_unprofiled_job_is_placed_all_the_same(post):
    found = placements(post, "new", card("free"), card("c", "k1"), card("d", "k1", gpu_model="x"))
    assert [p["job_slowdown"]["source"] for p in found] == ["exclusive", "cold_start", "cold_start"]
    assert found[1]["job_slowdown"]["upper"] == 2.5  # of all pairs that were measured


def test_memory_is_the_measured_peak_else_the_request(post):
    assert placements(post, "k1", card("c"))[0]["memory"]["value"] == 200.0
    (placement,) = placements(post, "new", card("c"), gpu_mem_mib=5000)
    assert (placement["memory"]["source"], placement["fits"]) == ("heuristic", False)


def test_explanation_adds_up_to_the_estimate(post):
    status, _, answer = post("/v1/explain", {"pair": PAIR})
    assert status == 200
    total = answer["base"] + sum(part["amount"] for part in answer["contributions"])
    assert total == pytest.approx(answer["estimate"]["value"], abs=1e-9)
    assert answer["job_profile"]["gpu_mem_peak_mib"] == 200.0


def test_runtime_without_model_is_a_cold_start(post):
    status, _, answer = post("/v1/runtime", EXAMPLES["/v1/runtime"])
    assert status == 200
    assert answer["estimates"][0]["source"] == "cold_start"


@pytest.mark.parametrize("path", ["/v1/memory", "/v1/demand"])
def test_route_without_its_model_is_503_and_names_it(post, path):
    status, headers, answer = post(path, EXAMPLES[path])
    assert (status, headers[b"retry-after"]) == (503, b"1")
    assert path.removeprefix("/v1/") in answer["error"]


def test_finished_jobs_are_logged_once(post):
    document = EXAMPLES["/v1/finished"]
    first, again = post("/v1/finished", document)[2], post("/v1/finished", document)[2]
    assert first == {"accepted": 1, "duplicates": 0, "sequence": 1}
    assert again == {"accepted": 0, "duplicates": 1, "sequence": 1}
    assert post("/v1/models", method="GET")[2]["job_log_sequence"] == 1


def test_job_that_ran_alone_is_known_from_then_on(post, state):
    (job,) = EXAMPLES["/v1/finished"]["jobs"]
    alone = {**job, "job_key": "new", "signals": {"sm_active_mean": 0.5, "gpu_mem_peak_mib": 77}}
    alone["segments"] = [{**job["segments"][0], "gpu_model": "v100"}]
    pair = {**PAIR, "job_key": "new"}
    assert post("/v1/slowdown", {"pairs": [pair]})[0] == 404
    assert post("/v1/finished", {"jobs": [alone]})[0] == 200
    state.follow_log()
    assert post("/v1/slowdown", {"pairs": [pair]})[2]["estimates"][0]["source"] == "model"
    assert state.predictor().versions == {"colocast-interference": "colocast-interference/1"}


def test_finished_job_that_cannot_be_is_400_and_named(post):
    (job,) = EXAMPLES["/v1/finished"]["jobs"]
    wrong = {"jobs": [{**job, "start_time": job["finish_time"] + 1, "segments": []}]}
    status, _, answer = post("/v1/finished", wrong)
    assert status == 400
    assert answer["detail"][0]["field"] == "jobs[0].finish_time"


def test_finished_job_with_another_content_is_409(post):
    (job,) = EXAMPLES["/v1/finished"]["jobs"]
    post("/v1/finished", {"jobs": [job]})
    status, _, answer = post("/v1/finished", {"jobs": [{**job, "user": "bob"}]})
    assert status == 409
    assert "job-1" in answer["error"]


def test_job_log_out_of_reach_is_503(post, state, monkeypatch):
    def locked(jobs):
        raise JobLogError("joblog.db is locked; end what holds it")

    monkeypatch.setattr(state, "append", locked)
    status, _, answer = post("/v1/finished", EXAMPLES["/v1/finished"])
    assert status == 503
    assert "locked" in answer["error"]


def test_models_are_listed_loaded_or_not(post):
    models = post("/v1/models", method="GET")[2]["models"]
    assert [model["version"] for model in models] == ["1", None, None, None, None]


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"null", 400),
        (b"[]", 400),
        (b"{}", 400),
        (b'{"x": NaN}', 400),
        (b"\xff", 400),
        (b"[" * 100_000, 400),
        (b'{"pairs": {"pairs": {}}}', 400),
        (b" " * (BODY_BYTES + 1), 413),
    ],
)
def test_strange_body_is_refused_everywhere(post, path, body, status):
    found, _, answer = post(path, body)
    assert found == status
    assert answer["error"]


@pytest.mark.parametrize("path", POSTS)
def test_unknown_field_is_refused_everywhere(post, path):
    status, _, answer = post(path, {**EXAMPLES[path], "surprise": 1})
    assert status == 400
    assert answer["detail"][0]["field"] == "surprise"


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": None},
        {"content-type": "text/plain"},
        {"content-type": "application/vnd.bentoml+pickle"},
        {"content-encoding": "gzip"},
    ],
)
def test_other_formats_are_415(post, headers):
    assert post("/v1/slowdown", PAIRS, headers=headers)[0] == 415


def test_content_type_may_name_its_charset(post):
    headers = {"content-type": "application/json; charset=utf-8"}
    assert post("/v1/slowdown", PAIRS, headers=headers)[0] == 200


def test_body_too_large_is_refused_by_its_head(post):
    headers = {"content-length": str(BODY_BYTES + 1)}
    assert post("/v1/slowdown", PAIRS, headers=headers)[0] == 413


def test_body_may_come_in_parts(post):
    body = json.dumps(PAIRS).encode()
    assert post("/v1/slowdown", chunks=[body[:9], body[9:]])[0] == 200


def test_client_that_hangs_up_is_not_answered(post, api):
    assert post("/v1/slowdown", chunks=[b"{", None]) is None
    assert api.in_hand == 0


def test_unknown_route_is_404_and_wrong_method_405(post):
    assert post("/v1/nope")[0] == 404
    status, headers, _ = post("/v1/slowdown", method="GET")
    assert (status, headers[b"allow"]) == (405, b"POST")
    assert post("/v1/models", {})[0] == 405


def test_token_is_wanted_where_one_is_configured(state, tmp_path):
    path = tmp_path / "tokens"
    path.write_text("t" * 32)
    post = Caller(Api(Metrics(), tokens_from_file(path), state))
    status, headers, _ = post("/v1/slowdown", PAIRS)
    assert (status, headers[b"www-authenticate"]) == (401, b"Bearer")
    assert post("/v1/slowdown", PAIRS, headers={"authorization": f"Bearer {'t' * 32}"})[0] == 200


def test_too_many_requests_are_refused_at_once(api, post):
    api.in_hand = LARGEST_QUEUE
    status, headers, _ = post("/v1/slowdown", PAIRS)
    assert (status, headers[b"retry-after"]) == (503, b"1")


def test_route_that_takes_too_long_is_504(api, post, state, monkeypatch):
    released = threading.Event()
    monkeypatch.setattr(state, "append", lambda jobs: released.wait(30))
    api.deadline_s = 0.05
    threading.Timer(0.5, released.set).start()
    status, headers, answer = post("/v1/finished", EXAMPLES["/v1/finished"])
    assert (status, headers[b"retry-after"]) == (504, b"1")
    assert "no answer within 50 ms" in answer["error"]


def test_before_the_models_are_loaded_the_answer_is_503():
    status, _, answer = Caller(Api(Metrics(), Tokens()))("/v1/slowdown", PAIRS)
    assert status == 503
    assert "starting" in answer["error"]


def test_requests_and_estimates_are_counted(api, post):
    post("/v1/slowdown", PAIRS)
    post("/v1/nope")
    text = api.metrics.page().decode()
    assert 'route="/v1/slowdown",source="model"} 2.0' in text
    assert 'route="unknown",source="none",status="404"} 1.0' in text


def test_without_champion_placements_are_neutral_and_readiness_says_why(state, champions, tmp_path):
    champions.champions.clear()
    url = f"sqlite:///{tmp_path / 'other.db'}"
    bare = ServingState(champions, ModelCache(tmp_path / "bare"), lambda: JobLog(url), Metrics())
    bare.refresh()
    post = Caller(Api(Metrics(), Tokens(), bare))
    assert "has the alias champion" in bare.unready()
    assert placements(post, "k1", card("c", "k2"))[0]["job_slowdown"]["source"] == "cold_start"
    assert post("/v1/slowdown", PAIRS)[0] == 503
    assert state.unready() == ""
    bare.stop()


def test_readiness_names_a_refused_version_and_a_registry_that_is_down(champions, tmp_path):
    champions.champions["colocast-interference"] = "bad"
    cache = ModelCache(tmp_path / "empty")
    state = ServingState(champions, cache, lambda: None, Metrics())
    state.refresh()
    assert "colocast-interference/bad was refused" in state.unready()
    champions.is_down = True
    down = ServingState(champions, cache, lambda: None, Metrics())
    down.refresh()
    assert "no registry: registry: connection refused" in down.unready()


def test_state_is_alive_while_its_threads_follow_registry_and_log(state):
    assert state.is_alive()
    state.start(3600.0)
    assert state.is_alive()
    assert state.predictor().versions
    state.stop()
    assert not state.is_alive()


def test_document_describes_every_route_with_an_example_that_runs(post):
    document = json.loads(openapi_document())
    for endpoint in ENDPOINTS:
        operation = document["paths"][endpoint.path][endpoint.method.lower()]
        assert operation["summary"] == endpoint.summary
        if endpoint.reader:
            content = operation["requestBody"]["content"]["application/json"]
            assert endpoint.reader.read(json.dumps(content["example"]).encode())
        assert {"200", "503"} <= operation["responses"].keys()


def test_every_reference_of_the_document_leads_somewhere():
    text = openapi_document().decode()
    schemas = json.loads(text)["components"]["schemas"]
    prefix = "#/components/schemas/"
    for part in text.split(prefix)[1:]:
        assert part.split('"')[0] in schemas


def test_batch_and_single_rows_agree(post):
    keys = [f"k{number}" for number in range(12)]
    pairs = [{**PAIR, "job_key": a, "neighbour_key": b} for a in keys for b in keys]
    together = post("/v1/slowdown", {"pairs": pairs})[2]["estimates"]
    alone = [post("/v1/slowdown", {"pairs": [pair]})[2]["estimates"][0] for pair in pairs[::17]]
    values = np.array([estimate["value"] for estimate in together[::17]])
    np.testing.assert_allclose(values, [estimate["value"] for estimate in alone], atol=1e-12)


def test_deadline_of_the_caller_is_kept_by_routes_that_wait(post, state, monkeypatch):
    released = threading.Event()
    monkeypatch.setattr(state, "append", lambda jobs: released.wait(30))
    threading.Timer(0.5, released.set).start()
    headers = {"x-request-deadline-ms": "30"}
    status, _, answer = post("/v1/finished", EXAMPLES["/v1/finished"], headers=headers)
    assert status == 504
    assert "no answer within" in answer["error"]


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "soon", "", "12345678", "²"])
def test_deadline_that_is_none_is_400(post, text):
    status, _, answer = post("/v1/slowdown", PAIRS, headers={"x-request-deadline-ms": text})
    assert status == 400
    assert answer["detail"][0]["field"] == "x-request-deadline-ms"


def test_job_log_that_hangs_takes_no_prediction_down(api, post, state, monkeypatch):
    released = threading.Event()
    monkeypatch.setattr(state, "append", lambda jobs: released.wait(30))
    headers = {"x-request-deadline-ms": "1"}
    found = {post("/v1/finished", EXAMPLES["/v1/finished"], headers=headers)[0] for _ in range(22)}
    assert found == {504}
    assert post("/v1/runtime", EXAMPLES["/v1/runtime"])[0] == 200
    released.set()


def test_body_that_comes_too_slowly_is_given_up(api):
    api.slow_bodies.patience_s = 0.02
    sent = []

    async def receive():
        await asyncio.sleep(30)

    async def send(message):
        sent.append(message)

    head = [(b"content-type", b"application/json")]
    scope = {"type": "http", "path": "/v1/slowdown", "method": "POST", "headers": head}
    asyncio.run(api(scope, receive, send))
    assert sent[0]["status"] == 408
    assert dict(sent[0]["headers"])[b"connection"] == b"close"
    assert api.in_hand == 0


def test_request_that_is_cancelled_while_it_is_read_stays_cancelled(api):
    async def receive():
        await asyncio.sleep(30)

    async def run():
        head = [(b"content-type", b"application/json")]
        scope = {"type": "http", "path": "/v1/slowdown", "method": "POST", "headers": head}
        task = asyncio.create_task(api(scope, receive, None))
        await asyncio.sleep(0.01)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())
    assert api.in_hand == 0


def test_pairs_without_json_get_the_same_estimates(api):
    pairs = SlowdownRequest(tuple(Pair(**pair) for pair in PAIRS["pairs"]))
    status, headers, body = Octets(api)(pairs_frame(pairs))
    assert (status, headers[b"content-type"]) == (200, b"application/octet-stream")
    found = [to_json(estimate) for estimate in estimates_from_frame(body)]
    assert found == Caller(api)("/v1/slowdown", PAIRS)[2]["estimates"]


@pytest.mark.parametrize(
    ("frame", "status"),
    [
        (b"", 400),
        (b"CPR1", 400),
        (pairs_frame(SlowdownRequest((Pair("new", "k1", "v100"),))), 404),
        (b"x" * (BODY_BYTES + 1), 413),
    ],
)
def test_faults_of_pairs_without_json_are_told_in_json(api, frame, status):
    found, headers, body = Octets(api)(frame)
    assert (found, headers[b"content-type"]) == (status, b"application/json")
    assert json.loads(body)["error"]


def test_other_routes_take_json_only(post):
    status, _, answer = post("/v1/placements", b"CPR1", headers=[("content-type", OCTETS)])
    assert (status, answer["detail"][0]["wanted"]) == (415, "application/json")


class Octets(Caller):
    """Sends and receives bytes."""

    def __call__(self, body):
        return super().__call__(
            "/v1/slowdown", body, headers=[("content-type", OCTETS)], is_json=False
        )
