"""Champions from an MLflow server over its REST interface, without importing MLflow."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from data.domain import REGISTERED_MODELS
from data.errors import BadModelError, RegistryError
from data.urls import without_credentials
from serving.champions.locations import PROXIED, STORES, local_folder, scheme_of
from serving.champions.proxied import ArtifactProxy
from serving.champions.rest_http import RegistryHttp
from serving.champions.sources import ALIAS, DIGEST_TAG, PAGE, VersionFacts

API = "/api/2.0/mlflow"
OTHER_STORE_TIMEOUT_S = 300


class RestChampions:
    """An MLflow server, version 2 or 3.

    Parameters
    ----------
    tracking_uri : str
        ``http://HOST:PORT`` or ``https://…``.
    environ : mapping of str to str
        MLflow's own variables carry the credentials: ``MLFLOW_TRACKING_TOKEN``, or
        ``MLFLOW_TRACKING_USERNAME`` and ``MLFLOW_TRACKING_PASSWORD``.
    roots : sequence of Path
        Folders of this machine below which a version's files may lie.
    alias : str
        Which versions count as champions.
    """

    def __init__(
        self,
        tracking_uri: str,
        environ: Mapping[str, str],
        roots: Sequence[Path] = (),
        alias: str = ALIAS,
    ) -> None:
        self._uri, self._roots, self._alias = tracking_uri, roots, alias
        self._http = RegistryHttp(tracking_uri, environ)

    def numbers(self) -> Mapping[str, str]:
        """Return the champion's version number of each registered model that has one."""
        document = self._http.json(f"{API}/registered-models/search", {"max_results": str(PAGE)})
        with self._shaped():
            return {
                model["name"]: _number(alias["version"])
                for model in document.get("registered_models", [])
                if model["name"] in REGISTERED_MODELS
                for alias in model.get("aliases", [])
                if alias["alias"] == self._alias
            }

    def facts(self, name: str, number: str) -> VersionFacts:
        """Return what the registry says of a version."""
        path = f"{API}/model-versions/get"
        document = self._http.json(path, {"name": name, "version": number})
        with self._shaped():
            version = document["model_version"]
            tags = {tag["key"]: tag["value"] for tag in version.get("tags", [])}
            created_ms = float(version.get("creation_timestamp", 0))
            return VersionFacts(str(version["source"]), tags.get(DIGEST_TAG), created_ms / 1e3)

    def fetch(self, name: str, number: str, directory: Path) -> None:
        """Copy a version's files into an empty directory."""
        path = f"{API}/model-versions/get-download-uri"
        document = self._http.json(path, {"name": name, "version": number})
        with self._shaped():
            source = str(document["artifact_uri"])
        try:
            self._fetch(name, number, source, directory)
        except OSError as error:
            where = without_credentials(source)
            raise RegistryError(f"{name}/{number} from {where}: {error}") from error

    def _fetch(self, name: str, number: str, source: str, directory: Path) -> None:
        scheme = scheme_of(source)
        if scheme == "file":
            folder = local_folder(source, self._roots)
            # A link would lead out of the roots again: copied as a link, refused when read.
            shutil.copytree(folder, directory, symlinks=True, dirs_exist_ok=True)
        elif scheme == PROXIED:  # whatever host it names, the registry's own server is asked
            ArtifactProxy(self._http).copy(urlsplit(source).path, directory)
        elif scheme in STORES:
            self._fetch_elsewhere(name, number, directory)
        else:
            raise BadModelError(f"found files at {source[:200]}, wanted where they lie")

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

    @contextmanager
    def _shaped(self) -> Iterator[None]:
        """Turn what another shape of JSON causes into a `RegistryError`."""
        try:
            yield
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RegistryError(
                f"{self._http.url}: found {error!r:.200}, wanted an answer of MLflow's"
            ) from error


def _number(version: object) -> str:
    text = str(version)
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"version {text!r:.40}")
    return text
