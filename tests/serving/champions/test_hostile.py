"""A registry, or a version in it, that means no good: nothing outside is read, run or removed."""

import json
import logging
import pickle
import shutil
import time
from zipfile import ZipFile

import pytest
import skops.io

from data.errors import BadModelError, RegistryError
from serving.champions import proxied, rest_http
from serving.champions.cache import INDEX_FILE, ModelCache
from serving.champions.estimators import read_estimator
from serving.champions.files import read_bundle
from serving.champions.locations import local_roots
from serving.champions.rest import RestChampions
from serving.champions.sources import MlflowChampions, VersionFacts
from serving.champions.store import ModelStore
from tests.serving.champions.registry_server import registry_server

NAME = "colocast-interference"


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.fixture
def registry():
    with registry_server() as said:
        yield said


@pytest.fixture
def copy(versions, tmp_path):
    """A version that a test may spoil."""
    return shutil.copytree(versions["1"], tmp_path / "copy")


def source(registry, uri):
    registry.document("get-download-uri", {"artifact_uri": uri})


@pytest.mark.parametrize("name", ["model.pkl", "code/helper.joblib", "harmless.bin"])
def test_version_with_a_pickle_is_refused_and_the_pickle_not_read(copy, tmp_path, name):
    (copy / name).parent.mkdir(exist_ok=True)
    (copy / name).write_bytes(pickle.dumps(Bomb(tmp_path / "exploded")))
    with pytest.raises(BadModelError, match=f"{name}: found a pickle, wanted none"):
        read_bundle(copy, "v")
    assert not (tmp_path / "exploded").exists()


def test_archive_with_a_pickle_is_refused_and_the_pickle_not_read(copy, tmp_path, reseal):
    with ZipFile(copy / "model.skops", "a") as archive:
        archive.writestr("extra", pickle.dumps(Bomb(tmp_path / "exploded")))
    reseal(copy)
    with pytest.raises(BadModelError, match="found the pickle 'extra', wanted none"):
        read_bundle(copy, "v")
    assert not (tmp_path / "exploded").exists()


@pytest.fixture
def reseal():
    """Let the list of digests fit a directory again."""
    from serving.champions.files import DIGESTS_FILE, _sha256

    def sealed(directory):
        listed = json.loads((directory / DIGESTS_FILE).read_text())
        digests = {name: _sha256(directory / name) for name in listed}
        (directory / DIGESTS_FILE).write_text(json.dumps(digests))

    return sealed


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("colocast/profiles.parquet", b"PAR1 and then nothing"),
        ("colocast/spec.json", b"[" * 100_000),
        ("colocast/spec.json", b'{"calibration": []}'),
        ("colocast/spec.json", b"null"),
        ("model.skops", b"PK nothing"),
    ],
)
def test_strange_file_with_the_right_digest_refuses_the_version(
    champions, copy, reseal, tmp_path, name, content
):
    (copy / name).write_bytes(content)
    reseal(copy)
    champions.versions = {"1": copy}
    store = ModelStore(champions, ModelCache(tmp_path / "cache"), lambda new, old: dict(new))
    assert store.refresh() == ()
    assert store.current.refused[NAME].is_final


def test_forest_that_walks_in_a_circle_is_refused_and_the_old_one_stays(
    champions, copy, reseal, tmp_path
):
    store = ModelStore(champions, ModelCache(tmp_path / "cache"), lambda new, old: dict(new))
    store.refresh()
    forest = read_estimator(copy / "model.skops")
    state = forest.estimators_[0].tree_.__getstate__()
    state["nodes"]["left_child"][0] = 0
    forest.estimators_[0].tree_.__setstate__(state)
    skops.io.dump(forest, copy / "model.skops")
    reseal(copy)
    champions.versions, champions.champions = {"2": copy}, {NAME: "2"}
    assert store.refresh() == ()
    assert store.current.loaded[NAME].cached.number == "1"
    assert "inconsistent nodes" in store.current.refused[NAME].reason
    assert store.current.refused[NAME].is_final


def test_link_in_a_version_is_refused(copy, tmp_path):
    (tmp_path / "secret").write_text("s")
    (copy / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(BadModelError, match="found a link or a device"):
        read_bundle(copy, "v")


@pytest.mark.parametrize("digest", ["../../../precious", "", ".", "..", "a/b", "/etc", "A" * 65])
def test_digest_that_is_none_neither_leads_out_of_the_cache_nor_removes_anything(
    champions, tmp_path, digest
):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("")
    cache = ModelCache(tmp_path / "home" / "cache")
    champions.facts = lambda name, number: VersionFacts("x", digest)
    store = ModelStore(champions, cache, lambda new, old: dict(new))
    store.refresh()
    assert "wanted SHA-256 in hex" in store.current.refused[NAME].reason
    assert (tmp_path / "precious" / "file").exists()
    with pytest.raises(BadModelError, match="found digest"):
        cache.discard(NAME, digest)


def test_entry_of_the_cache_that_names_another_folder_is_no_champion(tmp_path):
    folder = tmp_path / NAME
    folder.mkdir()
    entry = {"number": "1", "source": "x", "digest": ".."}
    (folder / INDEX_FILE).write_text(json.dumps(entry))
    assert ModelCache(tmp_path).champion(NAME) is None


@pytest.mark.parametrize(
    "uri",
    [
        "file:///etc",
        "/etc",
        "file://{root}/../outside",
        "{root}/link",
        "file://%2fetc",
        "file://other-host/{root}",
        "relative/path",
    ],
)
def test_local_files_outside_the_roots_are_not_read(registry, tmp_path, uri):
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("s")
    (root / "link").symlink_to(outside)
    source(registry, uri.format(root=root))
    with pytest.raises(RegistryError, match="wanted a folder below COLOCAST_HOME"):
        RestChampions(registry.url, {}, [root]).fetch(NAME, "1", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_roots_are_the_home_and_what_is_named(tmp_path):
    environ = {"COLOCAST_ARTIFACT_ROOTS": f"/mnt/a:{tmp_path}/b"}
    named = local_roots(environ, tmp_path)
    assert [str(path) for path in named] == [str(tmp_path), "/mnt/a", f"{tmp_path}/b"]


@pytest.mark.parametrize(
    "uri",
    [
        "http://169.254.169.254/latest/meta-data",
        "https://user:pa55word@inside.example/x?token=pa55word",
        "ftp://inside.example/x",
        "gopher://inside.example/x",
        "http://[::1",
    ],
)
def test_no_other_host_is_asked_because_a_registry_says_so(registry, tmp_path, uri):
    source(registry, uri)
    with pytest.raises(BadModelError, match="wanted file, mlflow-artifacts") as caught:
        RestChampions(registry.url, {}).fetch(NAME, "1", tmp_path / "copy")
    assert "pa55word" not in str(caught.value)


@pytest.mark.parametrize("where", ["http://127.0.0.1:9/x", "file:///etc/passwd", "//other/x"])
def test_redirects_are_not_followed(registry, where):
    registry.answers["registered-models/search"] = (302, {"Location": where}, b"")
    with pytest.raises(RegistryError, match="found status 302, wanted 200"):
        RestChampions(registry.url, {"MLFLOW_TRACKING_TOKEN": "t"}).numbers()
    assert len(registry.asked) == 1


def test_proxied_source_that_names_a_host_is_asked_of_the_registry_only(registry, tmp_path):
    source(registry, "mlflow-artifacts://other-host:81/a/b")
    registry.document("mlflow-artifacts/artifacts", {"files": []})
    RestChampions(registry.url, {}).fetch(NAME, "1", tmp_path / "copy")
    assert registry.asked[-1][0].endswith("artifacts?path=a%2Fb")


def test_server_may_not_send_mlflow_to_a_local_path(monkeypatch):
    class Client:
        def __init__(self, *uris):
            pass

        def get_model_version_download_uri(self, name, number):
            return "file:///etc"

    monkeypatch.setattr("mlflow.MlflowClient", Client)
    with pytest.raises(BadModelError, match="wanted an object store"):
        MlflowChampions("http://registry:1").fetch(NAME, "1", "unused")


def test_folders_without_end_are_given_up(registry, tmp_path):
    source(registry, "mlflow-artifacts:/a")
    registry.document("mlflow-artifacts/artifacts", {"files": [{"path": "b", "is_dir": True}]})
    with pytest.raises(BadModelError, match="wanted at most 8 folders"):
        RestChampions(registry.url, {}).fetch(NAME, "1", tmp_path / "copy")


@pytest.mark.parametrize(("name", "most"), [("MOST_FILES", 3), ("MOST_BYTES", 10)])
def test_version_that_would_fill_the_disk_is_given_up(registry, tmp_path, monkeypatch, name, most):
    monkeypatch.setattr(proxied.Allowance, "__init__", allowance_init(name, most))
    source(registry, "mlflow-artifacts:/a")
    files = [{"path": f"f{number}", "is_dir": False} for number in range(9)]
    registry.document("mlflow-artifacts/artifacts", {"files": files})
    registry.answers.update({f"f{number}": (200, {}, b"12345678") for number in range(9)})
    with pytest.raises(BadModelError, match="wanted at most"):
        RestChampions(registry.url, {}).fetch(NAME, "1", tmp_path / "copy")


def allowance_init(name, most):
    def init(self, deadline_s):
        self.deadline_s, self.files, self.bytes_left = deadline_s, 1_000, 1_000
        setattr(self, {"MOST_FILES": "files", "MOST_BYTES": "bytes_left"}[name], most)

    return init


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        "text",
        {"registered_models": 1},
        {"registered_models": [None]},
        {"registered_models": [{"name": NAME, "aliases": [{"alias": "champion"}]}]},
        {"registered_models": [{"aliases": []}]},
    ],
)
def test_other_json_than_mlflows_is_an_error_and_no_crash(registry, document):
    registry.document("registered-models/search", document)
    with pytest.raises(RegistryError, match="wanted an answer of MLflow's"):
        RestChampions(registry.url, {}).numbers()


@pytest.mark.parametrize("files", [1, [1], [{}], [{"path": "x", "is_dir": False}, None]])
def test_list_of_files_that_is_none_is_an_error(registry, tmp_path, files):
    source(registry, "mlflow-artifacts:/a")
    registry.document("mlflow-artifacts/artifacts", {"files": files})
    with pytest.raises(RegistryError, match="found no list of files"):
        RestChampions(registry.url, {}).fetch(NAME, "1", tmp_path / "copy")


def test_model_names_that_are_not_ours_are_passed_over(registry):
    aliases = [{"alias": "champion", "version": "1"}]
    names = ["../../etc", NAME, "colocast-interference/../x"]
    models = [{"name": name, "aliases": aliases} for name in names]
    registry.document("registered-models/search", {"registered_models": models})
    assert RestChampions(registry.url, {}).numbers() == {NAME: "1"}


@pytest.mark.parametrize("number", ["../1", "1/../../x", "-1", "", "1 2", "१"])
def test_version_number_that_is_none_is_refused(registry, number):
    aliases = [{"alias": "champion", "version": number}]
    registry.document(
        "registered-models/search", {"registered_models": [{"name": NAME, "aliases": aliases}]}
    )
    with pytest.raises(RegistryError, match="wanted an answer of MLflow's"):
        RestChampions(registry.url, {}).numbers()


def test_json_nested_too_deeply_or_too_long_is_an_error(registry, monkeypatch):
    registry.answers["search"] = (200, {}, b"[" * 200_000)
    with pytest.raises(RegistryError, match="wanted JSON"):
        RestChampions(registry.url, {}).numbers()
    monkeypatch.setattr(rest_http, "JSON_BYTES", 1_000)
    with pytest.raises(RegistryError, match="wanted a shorter answer"):
        RestChampions(registry.url, {}).numbers()


def test_answer_that_drips_is_given_up_in_time(registry, monkeypatch):
    monkeypatch.setattr(rest_http, "JSON_S", 0.2)
    registry.answers["search"] = (200, {"Content-Length": "10000"}, [b" "] * 10_000)
    started = time.monotonic()
    with pytest.raises(RegistryError, match="found half an answer"):
        RestChampions(registry.url, {}).numbers()
    assert time.monotonic() - started < 5.0


SECRET = "pa55w0rd-of-the-registry"


@pytest.mark.parametrize("status", [200, 401, 500])
def test_credentials_are_sent_and_never_said(registry, caplog, status):
    caplog.set_level(logging.DEBUG)
    registry.answers["search"] = (status, {}, b"no json")
    address = registry.url.replace("http://", f"http://ada:{SECRET}@")
    with pytest.raises(RegistryError, match="127") as caught:
        RestChampions(address, {}).numbers()
    assert registry.asked[0][1].startswith("Basic ")
    assert SECRET not in str(caught.value) + caplog.text


@pytest.mark.parametrize(
    "uri", [f"http://ada:{SECRET}@127.0.0.1:9", f"http://127.0.0.1:9/?token={SECRET}"]
)
def test_registry_that_is_down_is_named_without_its_credentials(uri, caplog):
    caplog.set_level(logging.DEBUG)
    with pytest.raises(RegistryError, match="is it running") as caught:
        RestChampions(uri, {"MLFLOW_TRACKING_TOKEN": SECRET}).numbers()
    assert SECRET not in str(caught.value) + caplog.text
