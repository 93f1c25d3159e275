"""The examples of the API document, sent as they stand to a service with every model."""

import json
import time
from dataclasses import replace

import pytest

from data.joblog import JobLog
from data.push_signature import Delivery, signed_headers
from serving.champions.push_book import PushBook
from serving.forest.check import with_compiled_forest
from serving.live.history_state import HistoryState
from serving.metrics import Metrics
from serving.predictor import Predictor
from serving.web.api import Api
from serving.web.endpoints import ENDPOINTS
from serving.web.openapi import openapi_document
from serving.web.pushes import Pushes
from serving.web.tokens import Tokens
from serving.web.wire_models import ModelsAnswer
from tests.serving.caller import Caller
from tests.serving.conftest import interference_bundle
from tests.serving.structures import demand_bundle, memory_bundle

SECRET = "a secret of a good length"
NAMES = {"k0": "boosting-30k", "k1": "compress-lzma"}


class Backend:
    """Models that know the example's job keys, as they are known after ``make run``."""

    def __init__(self, bundles, log):
        self.history, self.pushed = HistoryState(lambda: log), []
        self._predictor = Predictor(bundles, self.history.features)

    def predictor(self):
        return self._predictor

    def append(self, jobs):
        return self.history.append(jobs)

    def models(self):
        return ModelsAnswer((), self.history.sequence)

    def push(self, name):
        self.pushed.append(name)


@pytest.fixture
def api(profiles, pairs, tmp_path):
    known = profiles.assign(job_key=profiles["job_key"].replace(NAMES), gpu_model="cpu")
    asked = pairs.replace({"job_key": NAMES, "neighbour_key": NAMES}).assign(gpu_model="cpu")
    made = (interference_bundle(known, asked, 0.0), memory_bundle(), demand_bundle())
    bundles = {
        bundle.spec.name: with_compiled_forest(replace(bundle, version=f"{bundle.spec.name}/1"))
        for bundle in made
    }
    with JobLog(f"sqlite:///{tmp_path / 'joblog.db'}") as log:
        pushes = Pushes((SECRET,), PushBook(tmp_path / "pushes.json"))
        yield Api(Metrics(), Tokens(), Backend(bundles, log), pushes)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.path)
def test_example_of_the_document_is_answered(api, endpoint):
    operation = json.loads(openapi_document())["paths"][endpoint.path][endpoint.method.lower()]
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    body = json.dumps(content.get("example")).encode()
    headers = {}
    if endpoint.is_signed:
        headers = signed_headers(SECRET, Delivery("d-1", int(time.time())), body)
    status, _, answer = Caller(api)(endpoint.path, body, endpoint.method, headers)
    assert status == 200, answer
    if endpoint.is_signed:
        assert api.backend.pushed == ["colocast-interference"]
    wanted = operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
    assert wanted.rsplit("/", 1)[1] == endpoint.writer.kind.__name__
