"""Champions from an MLflow server over its REST interface, without importing MLflow."""

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

import urllib3

from data.domain import REGISTERED_MODELS
from data.errors import RegistryError
from serving.champions.sources import ALIAS, DIGEST_TAG, PAGE, VersionFacts

API = "/api/2.0/mlflow"
ARTIFACTS_API = "/api/2.0/mlflow-artifacts/artifacts"
TIMEOUT = urllib3.Timeout(connect=2.0, read=10.0)
OTHER_STORE_TIMEOUT_S = 300
CHUNK_BYTES = 2**20


class RestChampions:
    """An MLflow server, version 2 or 3.

    Parameters
    ----------
    tracking_uri : str
        ``http://HOST:PORT`` or ``https://…``.
    environ : mapping of str to str
        MLflow's own variables carry the credentials: ``MLFLOW_TRACKING_TOKEN``, or
        ``MLFLOW_TRACKING_USERNAME`` and ``MLFLOW_TRACKING_PASSWORD``.
    """

    def __init__(self, tracking_uri: str, environ: Mapping[str, str]) -> None:
        self._uri = tracking_uri.rstrip("/")
        self._headers = credentials(environ)
        self._http = urllib3.PoolManager(timeout=TIMEOUT, retries=False, maxsize=2)

    def numbers(self) -> Mapping[str, str]:
        """Return the champion's version number of each registered model that has one."""
        document = self._json(f"{API}/registered-models/search", {"max_results": str(PAGE)})
        return {
            model["name"]: str(alias["version"])
            for model in document.get("registered_models", [])
            if model["name"] in REGISTERED_MODELS
            for alias in model.get("aliases", [])
            if alias["alias"] == ALIAS
        }

    def facts(self, name: str, number: str) -> VersionFacts:
        """Return what the registry says of a version."""
        path = f"{API}/model-versions/get"
        version = self._json(path, {"name": name, "version": number})["model_version"]
        tags = {tag["key"]: tag["value"] for tag in version.get("tags", [])}
        return VersionFacts(str(version["source"]), tags.get(DIGEST_TAG))

    def fetch(self, name: str, number: str, directory: Path) -> None:
        """Copy a version's files into an empty directory."""
        path = f"{API}/model-versions/get-download-uri"
        source = str(self._json(path, {"name": name, "version": number})["artifact_uri"])
        parts = urlsplit(source)
        try:
            if parts.scheme in ("", "file"):
                shutil.copytree(unquote(parts.path), directory, dirs_exist_ok=True)
            elif parts.scheme == "mlflow-artifacts":
                self._download(parts.path.strip("/"), directory)
            else:
                self._fetch_elsewhere(name, number, directory)
        except OSError as error:
            raise RegistryError(f"{name}/{number} from {source}: {error}") from error

    def _download(self, path: str, directory: Path) -> None:
        """Copy a folder of the server's artifact store, folders within included."""
        directory.mkdir(exist_ok=True)
        for name, is_folder in self._listed(path):
            if is_folder:
                self._download(f"{path}/{name}", directory / name)
            else:
                self._download_file(f"{path}/{name}", directory / name)

    def _listed(self, path: str) -> Iterator[tuple[str, bool]]:
        for entry in self._json(ARTIFACTS_API, {"path": path}).get("files", []):
            name = str(entry["path"]).rsplit("/", 1)[-1]
            if name in ("", ".", "..") or "\\" in name or "\0" in name:
                raise RegistryError(
                    f"{self._uri}: found a file named {name!r}, wanted a plain name"
                )
            yield name, bool(entry.get("is_dir"))

    def _download_file(self, path: str, target: Path) -> None:
        response = self._get(f"{ARTIFACTS_API}/{quote(path)}", preload_content=False)
        try:
            with target.open("wb") as file:
                for chunk in response.stream(CHUNK_BYTES):
                    file.write(chunk)
        except urllib3.exceptions.HTTPError as error:
            raise RegistryError(f"MLflow at {self._uri}: {error}") from error
        finally:
            response.release_conn()

    def _fetch_elsewhere(self, name: str, number: str, directory: Path) -> None:
        """Let MLflow fetch from another store (S3, GCS, …), in a process that then ends."""
        command = [sys.executable, "-m", "serving.champions.fetch", name, number, str(directory)]
        environ = {**os.environ, "MLFLOW_TRACKING_URI": self._uri}
        try:
            subprocess.run(
                command,
                env=environ,
                check=True,
                capture_output=True,
                text=True,
                timeout=OTHER_STORE_TIMEOUT_S,
            )
        except subprocess.CalledProcessError as error:
            raise RegistryError(str(error.stderr).strip().rsplit("\n", 1)[-1]) from error
        except subprocess.TimeoutExpired as error:
            raise RegistryError(f"{name}/{number}: not fetched in {error.timeout:g} s") from error

    def _json(self, path: str, query: Mapping[str, str]) -> Any:
        response = self._get(f"{path}?{urlencode(query)}")
        try:
            return json.loads(response.data)
        except ValueError as error:
            found = response.data[:60]
            raise RegistryError(f"{self._uri}{path}: found {found!r}, wanted JSON") from error

    def _get(self, path: str, *, preload_content: bool = True) -> urllib3.BaseHTTPResponse:
        url = self._uri + path
        try:
            response = self._http.request(
                "GET",
                url,
                headers=self._headers,
                redirect=False,
                preload_content=preload_content,
            )
        except urllib3.exceptions.HTTPError as error:
            raise RegistryError(f"MLflow at {self._uri}: {error}; is it running?") from error
        if response.status != 200:
            response.drain_conn()
            raise RegistryError(f"{url}: found status {response.status}, wanted 200")
        return response


def credentials(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the Authorization header that MLflow's variables ask for.

    Examples
    --------
    >>> credentials({"MLFLOW_TRACKING_TOKEN": "t"})
    {'Authorization': 'Bearer t'}
    >>> credentials({})
    {}
    """
    token = environ.get("MLFLOW_TRACKING_TOKEN")
    if token:
        return {"Authorization": f"Bearer {token}"}
    user = environ.get("MLFLOW_TRACKING_USERNAME")
    if not user:
        return {}
    pair = f"{user}:{environ.get('MLFLOW_TRACKING_PASSWORD', '')}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
