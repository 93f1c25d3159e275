"""Where champions come from: MLflow, asked by alias and loaded by version."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from data.domain import REGISTERED_MODELS
from data.errors import BadModelError, RegistryError
from data.urls import without_credentials
from serving.champions.locations import scheme_of

if TYPE_CHECKING:
    from mlflow import MlflowClient

ALIAS = "champion"
SHADOW = "shadow"  # answers beside the champion, and nobody is told
DIGEST_TAG = "colocast.digest"
_SQLITE = "sqlite:///"
PAGE = 1_000  # registered models; MLflow's largest page


@dataclass(frozen=True, slots=True)
class VersionFacts:
    """What the registry says of one version.

    Attributes
    ----------
    source : str
        Where its files lie; unique, where numbers are not: two registries may both have a
        version 1.
    digest : str, optional
        As training sealed it (``serving.champions.files.bundle_digest``); None on a version that
        is not ours.
    created_time : float
        When it was registered (s, UTC); 0 where that is not known.
    """

    source: str
    digest: str | None
    created_time: float = 0.0


class Champions(Protocol):
    """A registry as the store sees it.

    Every method raises `RegistryError` if the registry is out of reach, or does not know what it
    is asked for.
    """

    def numbers(self) -> Mapping[str, str]:
        """Return the champion's version number of each registered model that has one."""
        ...

    def facts(self, name: str, number: str) -> VersionFacts:
        """Return what the registry says of a version."""
        ...

    def fetch(self, name: str, number: str, directory: Path) -> None:
        """Copy a version's files into an empty directory."""
        ...


class MlflowChampions:
    """Any MLflow store, through MLflow's own client in this process.

    Parameters
    ----------
    tracking_uri : str
    alias : str
        Which versions count as champions.

    Notes
    -----
    The client takes 1.4 s of CPU to import and 170 MB to hold (measured, MLflow 3.17), so a
    service that speaks to an MLflow server does without: ``serving.champions.rest``.
    """

    def __init__(self, tracking_uri: str, alias: str = ALIAS) -> None:
        self._uri, self._alias = tracking_uri, alias

    def numbers(self) -> Mapping[str, str]:
        """Return the champion's version number of each registered model that has one."""
        with self._client() as client:
            models = client.search_registered_models(max_results=PAGE)
        return {
            model.name: str(model.aliases[self._alias])
            for model in models
            if model.name in REGISTERED_MODELS and self._alias in model.aliases
        }

    def facts(self, name: str, number: str) -> VersionFacts:
        """Return what the registry says of a version."""
        with self._client() as client:
            version = client.get_model_version(name, number)
        created_time = (version.creation_timestamp or 0) / 1e3
        return VersionFacts(str(version.source), version.tags.get(DIGEST_TAG), created_time)

    def fetch(self, name: str, number: str, directory: Path) -> None:
        """Copy a version's files into an empty directory."""
        from mlflow import artifacts  # noqa: PLC0415 - see the class

        with self._client() as client:
            # Not as models:/<name>/<number>: MLflow resolves that in a process-wide registry.
            source = self._source(client, name, number)
            found = artifacts.download_artifacts(
                artifact_uri=source,
                dst_path=str(directory),
                tracking_uri=self._uri,
            )
            # A folder by its location lands below `directory`, under its own name.
            if Path(found) != directory:
                shutil.copytree(found, directory, dirs_exist_ok=True)
                shutil.rmtree(found)

    def _source(self, client: "MlflowClient", name: str, number: str) -> str:
        """Return where a version's files lie, unless that is where no server may send us."""
        if self._uri.startswith(_SQLITE):
            source = str(client.get_model_version(name, number).source)
            scheme_of(source)
            return source
        source = str(client.get_model_version_download_uri(name, number))
        if scheme_of(source) == "file":
            raise BadModelError(f"found files at {source[:200]}, wanted an object store")
        return source

    @contextmanager
    def _client(self) -> "Iterator[MlflowClient]":
        from mlflow import MlflowClient  # noqa: PLC0415
        from mlflow.exceptions import MlflowException  # noqa: PLC0415
        from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415

        file = self._uri.removeprefix(_SQLITE)
        if file != self._uri and not Path(file).exists():
            # MLflow would create it, and two processes that create it at once break it.
            raise RegistryError(f"no MLflow store at {file}; colocast train makes one")
        try:
            yield MlflowClient(self._uri, self._uri)
        except (MlflowException, SQLAlchemyError, OSError) as error:
            text = str(error).splitlines()[0] if str(error) else repr(error)
            where = without_credentials(self._uri)
            text = text.replace(self._uri, where)
            raise RegistryError(f"MLflow at {where}: {text}; is it running?") from error
