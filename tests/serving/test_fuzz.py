"""Generated requests, good and bad, against the OpenAPI document that the service itself gives.

``make fuzz`` runs thousands against a real service; the suite runs a few in process.
"""

import shutil
import subprocess
import sys
from dataclasses import replace

import mlflow
import pytest
import schemathesis
import skops.io
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.generation.modes import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Mount

from data.joblog import JobLog
from serving.champions.files import bundle_digest, write_facts
from serving.forest.check import with_compiled_forest
from serving.live.history_state import HistoryState
from serving.metrics import Metrics
from serving.predictor import Predictor
from serving.web.api import Api
from serving.web.endpoints import ENDPOINTS
from serving.web.mounted import site
from serving.web.tokens import Tokens
from serving.web.wire_models import ModelsAnswer
from tests.serving.conftest import KEYS, interference_bundle
from tests.serving.running import RunningService
from tests.serving.structures import demand_bundle, memory_bundle

FULL_RUN_EXAMPLES = 250  # an operation; ten of them, besides the enumerated edge cases
LEAST_REQUESTS = 2_000


class Backend:
    """Every model, and a job log."""

    def __init__(self, bundles, log):
        self.history = HistoryState(lambda: log)
        self._predictor = Predictor(bundles, self.history.features)

    def predictor(self):
        return self._predictor

    def append(self, jobs):
        return self.history.append(jobs)

    def models(self):
        return ModelsAnswer((), self.history.sequence)


def small_bundles(profiles, pairs):
    made = (interference_bundle(profiles, pairs, 0.0), memory_bundle(), demand_bundle())
    return {b.spec.name: replace(b, version=f"{b.spec.name}/1") for b in made}


@pytest.fixture
def in_process(profiles, pairs, tmp_path):
    bundles = {n: with_compiled_forest(b) for n, b in small_bundles(profiles, pairs).items()}
    with JobLog(f"sqlite:///{tmp_path / 'joblog.db'}") as log:
        metrics = Metrics()
        api = Api(metrics, Tokens(), Backend(bundles, log))
        pages = site(lambda: Response(metrics.page()))
        app = Starlette(routes=[Mount("/v1", app=api), Mount("/", app=pages)])
        yield schemathesis.openapi.from_asgi("/openapi.json", app)


@pytest.mark.parametrize("mode", list(GenerationMode), ids=str)
@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.path)
def test_generated_requests_get_the_answers_that_the_document_promises(in_process, endpoint, mode):
    if mode.is_negative and endpoint.reader is None:
        pytest.skip("takes nothing that could be wrong")
    operation = in_process[endpoint.path][endpoint.method]

    @settings(
        max_examples=6,
        deadline=None,
        derandomize=True,
        suppress_health_check=HealthCheck,
        phases=[Phase.generate],  # a failure is shown as it was found; shrinking takes minutes
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case):
        # Rules between fields, such as start before finish, are not in the document.
        case.call_and_validate(excluded_checks=[positive_data_acceptance])

    check()


@pytest.fixture
def service(profiles, pairs, mlflow_template, tmp_path):
    """A real service with every model that answers structures and pairs."""
    shutil.copy(mlflow_template, tmp_path / "mlflow.db")
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    client = mlflow.MlflowClient(uri, uri)
    for name, bundle in small_bundles(profiles, pairs).items():
        directory = tmp_path / name
        directory.mkdir()
        skops.io.dump(bundle.estimator, directory / "model.skops")
        write_facts(bundle, directory)
        client.create_registered_model(name)
        tags = {"colocast.digest": bundle_digest(directory)}
        version = client.create_model_version(name, str(directory), tags=tags).version
        client.set_registered_model_alias(name, "champion", version)
    running = RunningService(tmp_path / "home", uri)
    try:
        running.wait_ready()
        yield running
    finally:
        running.stop()


@pytest.mark.fuzz
def test_thousands_of_generated_requests_meet_no_server_error(service, tmp_path):
    report = tmp_path / "report.ndjson"
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{service.url}/openapi.json"),
        *("--phases", "examples,coverage,fuzzing", "-n", str(FULL_RUN_EXAMPLES)),
        *("--generation-database", "none", "--continue-on-failure"),
        *("--report", "ndjson", "--report-ndjson-path", str(report)),
        *("--exclude-checks", "positive_data_acceptance"),  # rules between fields are not in it
    ]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
    assert int(service_requests(service)) >= LEAST_REQUESTS
    assert service.post("/v1/slowdown", {"pairs": [pair()]})[0] == 200


def pair():
    return {"job_key": KEYS[1], "neighbour_key": KEYS[2], "gpu_model": "v100"}


def service_requests(service):
    """Return how many requests the routes have answered, none of them with a server error."""
    lines = service.ask("GET", "/metrics")[1].decode().splitlines()
    counts = [line for line in lines if line.startswith("colocast_request_seconds_count")]
    assert not [line for line in counts if 'status="5' in line]
    return sum(float(line.rsplit(" ", 1)[1]) for line in counts)
