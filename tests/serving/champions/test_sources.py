import json
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import mlflow
import pytest

from data.errors import RegistryError
from serving.champions import fetch as champions_fetch
from serving.champions.files import bundle_digest
from serving.champions.rest import RestChampions
from serving.champions.rest_http import credentials
from serving.champions.sources import MlflowChampions, VersionFacts

NAME = "colocast-interference"


@pytest.fixture
def store(settings, versions):
    """An MLflow store whose champion of the interference model is version 1."""
    client = mlflow.MlflowClient(settings.tracking_uri, settings.tracking_uri)
    client.create_registered_model(NAME)
    client.create_registered_model("something-else")
    client.create_model_version(NAME, str(versions["1"]), tags={"colocast.digest": "d"})
    client.set_registered_model_alias(NAME, "champion", "1")
    return settings.tracking_uri


def test_mlflow_names_its_champions(store, versions):
    champions = MlflowChampions(store)
    assert champions.numbers() == {NAME: "1"}
    facts = champions.facts(NAME, "1")
    assert (facts.source, facts.digest) == (str(versions["1"]), "d")
    assert facts.created_time > 1.7e9


def test_mlflow_fetches_a_whole_version(store, versions, tmp_path):
    (tmp_path / "copy").mkdir()
    MlflowChampions(store).fetch(NAME, "1", tmp_path / "copy")
    assert bundle_digest(tmp_path / "copy") == bundle_digest(versions["1"])


def test_version_that_mlflow_does_not_know_is_an_error(store):
    with pytest.raises(RegistryError, match="not found"):
        MlflowChampions(store).facts(NAME, "9")


def test_absent_store_is_an_error_and_is_not_created(tmp_path):
    file = tmp_path / "none.db"
    with pytest.raises(RegistryError, match="colocast train makes one"):
        MlflowChampions(f"sqlite:///{file}").numbers()
    assert not file.exists()


def test_fetching_process_says_why_it_failed(store, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    assert champions_fetch.main([NAME, "1", str(tmp_path)]) == 0
    assert (tmp_path / "model.skops").is_file()
    assert champions_fetch.main([NAME, "9", str(tmp_path)]) == 1
    assert "not found" in capsys.readouterr().err


class FakeMlflow:
    """Answers like an MLflow server over a folder of artifacts."""

    def __init__(self, folder):
        self.folder, self.artifact_uri = folder, "mlflow-artifacts:/models/m-1/artifacts"
        self.status, self.text, self.authorizations = 200, None, []

    def answer(self, target):
        parts = urlsplit(target)
        path, query = parts.path, {k: v[0] for k, v in parse_qs(parts.query).items()}
        if self.text is not None:
            return self.text
        if path.endswith("registered-models/search"):
            aliases = [{"alias": "champion", "version": "1"}, {"alias": "previous", "version": "0"}]
            models = [{"name": NAME, "aliases": aliases}, {"name": "colocast-memory"}]
            return json.dumps({"registered_models": models}).encode()
        if path.endswith("model-versions/get"):
            tags = [{"key": "colocast.digest", "value": "d"}]
            return json.dumps({"model_version": {"source": "s", "tags": tags}}).encode()
        if path.endswith("get-download-uri"):
            return json.dumps({"artifact_uri": self.artifact_uri}).encode()
        if path.endswith("mlflow-artifacts/artifacts"):
            return json.dumps({"files": self.listed(query["path"])}).encode()
        return (
            self.folder / unquote(path).split("/artifacts/models/m-1/artifacts/")[1]
        ).read_bytes()

    def listed(self, path):
        folder = self.folder / path.removeprefix("models/m-1/artifacts").strip("/")
        return [{"path": entry.name, "is_dir": entry.is_dir()} for entry in folder.iterdir()]


@pytest.fixture
def server(versions):
    fake = FakeMlflow(versions["1"])

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            fake.authorizations.append(self.headers.get("Authorization"))
            body = fake.answer(self.path)
            self.send_response(fake.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
    fake.url = f"http://127.0.0.1:{http.server_port}"
    yield fake
    http.shutdown()
    http.server_close()


def test_server_names_its_champions(server):
    champions = RestChampions(server.url, {})
    assert champions.numbers() == {NAME: "1"}
    assert champions.facts(NAME, "1") == VersionFacts("s", "d")


def test_server_hands_out_a_whole_version_with_its_folders(server, versions, tmp_path):
    RestChampions(server.url, {}).fetch(NAME, "1", tmp_path / "copy")
    assert bundle_digest(tmp_path / "copy") == bundle_digest(versions["1"])
    assert (tmp_path / "copy" / "colocast" / "profiles.parquet").is_file()


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_version_on_a_shared_disk_is_copied(server, versions, tmp_path, prefix):
    server.artifact_uri = f"{prefix}{versions['2']}"
    RestChampions(server.url, {}, [versions["2"].parent]).fetch(NAME, "1", tmp_path / "copy")
    assert bundle_digest(tmp_path / "copy") == bundle_digest(versions["2"])


def test_version_that_is_not_on_this_disk_is_an_error(server, tmp_path):
    server.artifact_uri = f"{tmp_path}/nowhere/at/all"
    with pytest.raises(RegistryError, match=r"colocast-interference/1 from .*/nowhere/at/all"):
        RestChampions(server.url, {}, [tmp_path]).fetch(NAME, "1", tmp_path / "copy")


@pytest.mark.parametrize("name", ["..", ".", "a\\b", "a/..", ""])
def test_file_that_would_leave_its_folder_is_refused(server, tmp_path, name):
    server.listed = lambda path: [{"path": name, "is_dir": False}]
    with pytest.raises(RegistryError, match="wanted a plain name"):
        RestChampions(server.url, {}).fetch(NAME, "1", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_other_stores_are_left_to_mlflow(server, tmp_path, monkeypatch):
    server.artifact_uri = "s3://bucket/models"
    commands = []

    def run(command, **options):
        commands.append((command, options["env"]["MLFLOW_TRACKING_URI"]))
        raise subprocess.CalledProcessError(1, command, stderr="noise\nno credentials\n")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(RegistryError, match=r"^no credentials$"):
        RestChampions(server.url, {}).fetch(NAME, "1", tmp_path)
    wanted = ["-m", "serving.champions.fetch", NAME, "1", str(tmp_path)]
    assert [(command[1:], uri) for command, uri in commands] == [(wanted, server.url)]


@pytest.mark.parametrize(("status", "text"), [(500, b"{}"), (302, b""), (200, b"<html>")])
def test_strange_answer_of_a_server_is_an_error(server, status, text):
    server.status, server.text = status, text
    with pytest.raises(RegistryError, match=r"wanted (200|JSON)"):
        RestChampions(server.url, {}).numbers()


def test_server_that_is_down_is_an_error():
    with pytest.raises(RegistryError, match="is it running"):
        RestChampions("http://127.0.0.1:9", {}).numbers()


def test_credentials_are_sent_as_mlflow_sends_them(server):
    RestChampions(server.url, {"MLFLOW_TRACKING_TOKEN": "t"}).numbers()
    assert server.authorizations == ["Bearer t"]
    pair = {"MLFLOW_TRACKING_USERNAME": "u", "MLFLOW_TRACKING_PASSWORD": "p"}
    assert credentials(pair) == {"Authorization": "Basic dTpw"}
