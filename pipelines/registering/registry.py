"""The model registry: it alone writes to MLflow; what serves is named by an alias."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

from data.errors import NoChampionError, RegistryError, shown
from pipelines.registering.errors import registry_errors
from pipelines.registering.loaded_versions import LoadedVersions
from pipelines.registering.mlflow_quiet import silence
from pipelines.registering.origin import ORIGIN_FOLDER
from pipelines.registering.registered_version import RegisteredVersion
from pipelines.registering.report import TrainingReport
from pipelines.registering.run_log import log_report, log_version, started_run
from pipelines.registering.tracking_store import first_use, is_server
from serving.champions.files import read_bundle
from serving.inference.bundle import Bundle

CHAMPION = "champion"
PREVIOUS = "previous"
CHALLENGER = "challenger"  # the newest version that is not, or was not at once, the champion
SHADOW = "shadow"  # a challenger that passed the gate and answers beside the champion
ROLLED_BACK = "colocast.rolled_back"  # tag: why a champion made way for the one before
PRUNED_TAG = "colocast.pruned_version"
_ABSENT = "RESOURCE_DOES_NOT_EXIST"
_NO_VERSION = (_ABSENT, "INVALID_PARAMETER_VALUE")


class Registry:
    """Registered models behind aliases; never stages.

    Parameters
    ----------
    tracking_uri : str
        A SQLite file (``sqlite:///…``), a database (``postgresql+psycopg://…``) or an MLflow server
        (``http…``; MLflow's own variables carry the credentials).
    artifacts_path : Path
        Where new experiments keep their files; a server has its own place and ignores it.
    loaded : LoadedVersions, optional
        Versions that need not be fetched again; without, `load` fetches each time.

    Raises
    ------
    RegistryError
        If the store is out of reach.
    """

    def __init__(
        self, tracking_uri: str, artifacts_path: Path, loaded: LoadedVersions | None = None
    ) -> None:
        silence()
        self._uri, self._loaded = tracking_uri, loaded
        self._artifacts = None if is_server(tracking_uri) else artifacts_path
        with self._errors("open the registry"), first_use(tracking_uri):
            self._client = MlflowClient(tracking_uri=tracking_uri, registry_uri=tracking_uri)
            self._client.search_registered_models(max_results=1)

    def register(
        self, bundle: Bundle, report: TrainingReport, parent_run_id: str | None = None
    ) -> str:
        """Log one training run with everything about it, and register its model.

        Parameters
        ----------
        bundle : Bundle
        report : TrainingReport
        parent_run_id : str, optional
            Run under which MLflow's UI nests this one.

        Returns
        -------
        str
            The new version; no alias points at it yet.

        Raises
        ------
        RegistryError
            If anything could not be written. The run is then marked as failed, and there is no
            new version.
        """
        name = bundle.spec.name
        with self._errors(f"register {name}"):
            run_id = started_run(self._client, name, self._artifacts, parent_run_id)
            with self._ended(run_id):
                log_report(self._client, run_id, report)
                return log_version(self._client, run_id, bundle, report)

    def promote(self, name: str, version: str) -> None:
        """Point ``champion`` at a version, and ``previous`` at the champion before it.

        Raises
        ------
        RegistryError
            If there is no such version.
        """
        self._version(name, version)
        former = self.champion(name)
        if former == version:
            return
        # In this order a crash between the two leaves the champion where it was.
        if former is not None:
            self.set_alias(name, PREVIOUS, former)
        self.set_alias(name, CHAMPION, version)

    def rollback(self, name: str) -> str:
        """Let champion and previous change places, and return the champion's version.

        Raises
        ------
        RegistryError
            If there is no previous champion.
        """
        previous = self.previous(name)
        if previous is None:
            raise RegistryError(f"{name}: found no previous champion, wanted one to go back to")
        self.promote(name, previous)
        return previous

    def set_alias(self, name: str, alias: str, version: str) -> None:
        """Point any alias at a version.

        Raises
        ------
        RegistryError
            If there is no such version.
        """
        self._version(name, version)
        with self._errors(f"point {alias} at {name}/{version}"):
            self._client.set_registered_model_alias(name, alias, version)

    def set_tags(self, name: str, version: str, tags: Mapping[str, str]) -> None:
        """Write tags on a version, such as the gate's verdict.

        Raises
        ------
        RegistryError
            If there is no such version.
        """
        self._version(name, version)
        with self._errors(f"tag {name}/{version}"):
            for key, value in tags.items():
                self._client.set_model_version_tag(name, version, key, value)

    def drop_alias(self, name: str, alias: str) -> None:
        """Let an alias point nowhere; nothing happens where it does not point anywhere."""
        if alias in self._aliases(name):
            with self._errors(f"take {alias} from {name}"):
                self._client.delete_registered_model_alias(name, alias)

    def aliased(self, name: str, alias: str) -> str | None:
        """Return the version that an alias points at, or None."""
        return self._aliases(name).get(alias)

    def aliases(self, name: str) -> Mapping[str, str]:
        """Return the version of each alias; none where the model is unknown."""
        return self._aliases(name)

    def tags(self, name: str, version: str) -> Mapping[str, str]:
        """Return the tags of a version.

        Raises
        ------
        RegistryError
            If there is no such version.
        """
        return dict(self._version(name, version).tags)

    def delete(self, name: str, version: str) -> None:
        """Delete a version, its files and its training tables; its run keeps all else.

        Raises
        ------
        RegistryError
            If there is no such version, an alias points at it, or it cannot be deleted.
        """
        found = self._version(name, version)
        pointing = [alias for alias, at in self._aliases(name).items() if at == version]
        if pointing:
            raise RegistryError(f"{name}/{version}: found the alias {pointing[0]}, wanted none")
        with self._errors(f"delete {name}/{version}"):
            # The entry first: a version that is listed can always be fetched.
            self._client.delete_model_version(name, version)
            self._delete_files(str(found.source), "")
            if found.run_id:
                run = self._client.get_run(found.run_id)
                self._delete_files(run.info.artifact_uri, ORIGIN_FOLDER)
                self._client.set_tag(found.run_id, PRUNED_TAG, version)

    def _delete_files(self, uri: str, path: str) -> None:
        files = get_artifact_repository(uri, tracking_uri=self._uri)
        if path and not files.list_artifacts(path):
            return
        files.delete_artifacts(path or None)

    def run_of(self, name: str, version: str) -> str | None:
        """Return the id of the run that made a version.

        Raises
        ------
        RegistryError
            If there is no such version.
        """
        return self._version(name, version).run_id or None

    def run_tags(self, run_id: str) -> Mapping[str, str]:
        """Return the tags of a run.

        Raises
        ------
        RegistryError
            If there is no such run.
        """
        with self._errors(f"read run {run_id}"):
            return dict(self._client.get_run(run_id).data.tags)

    def run_files(self, run_id: str, path: str, target_directory: Path) -> Path:
        """Fetch a folder that was logged on a run, and return where it lies.

        Raises
        ------
        RegistryError
            If there is no such folder, or it cannot be fetched.
        """
        with self._errors(f"download {path} of run {run_id}"):
            found: str = self._client.download_artifacts(run_id, path, str(target_directory))
        return Path(found)

    def champion(self, name: str) -> str | None:
        """Return the version that serves, or None."""
        return self._aliases(name).get(CHAMPION)

    def previous(self, name: str) -> str | None:
        """Return the version that served before, or None."""
        return self._aliases(name).get(PREVIOUS)

    def versions(self, name: str) -> list[RegisteredVersion]:
        """Return all versions of a model, newest first; none where the model is unknown."""
        aliases = self._aliases(name)
        with self._errors(f"list {name}"):
            listed = [self._listed(version, aliases) for version in self._all_versions(name)]
        return sorted(listed, key=lambda version: int(version.version), reverse=True)

    def load(self, name: str, alias_or_version: str) -> Bundle:
        """Return a version, by its number or by an alias, read and checked.

        Raises
        ------
        NoChampionError
            If the alias ``champion`` is asked for and points nowhere.
        RegistryError
            If there is no such version or alias.
        BadModelError
            If the version fails its checks.
        """
        version = alias_or_version if alias_or_version.isdigit() else None
        version = version or self._aliases(name).get(alias_or_version)
        if version is None:
            kind = NoChampionError if alias_or_version == CHAMPION else RegistryError
            found = f"{name}: found no version with the alias {alias_or_version!r}"
            raise kind(f"{found}; train one (`colocast train`) or set it (`colocast promote`)")
        known = version
        if self._loaded is None:
            return self._fetched(name, known)
        return self._loaded.get(name, known, lambda: self._fetched(name, known))

    def _fetched(self, name: str, version: str) -> Bundle:
        with tempfile.TemporaryDirectory(prefix="colocast-") as target:
            self.download(name, version, Path(target))
            return read_bundle(Path(target), f"{name}/{version}")

    def download(self, name: str, version: str, target_directory: Path) -> None:
        """Fetch the whole directory of a version, as ``serving.champions.files`` describes it.

        Raises
        ------
        RegistryError
            If there is no such version, or it cannot be fetched.
        """
        source = self._version(name, version).source
        with self._errors(f"download {name}/{version}"):
            # Not as models:/<name>/<version>: MLflow resolves that in its process-wide registry.
            files = get_artifact_repository(source, tracking_uri=self._uri)
            files.download_artifacts("", dst_path=str(target_directory))

    def _errors(self, action: str) -> AbstractContextManager[None]:
        return registry_errors(self._uri, action)

    @contextmanager
    def _ended(self, run_id: str) -> Iterator[None]:
        """End the run, as failed where the body was left by an exception of any kind."""
        status = "FAILED"
        try:
            yield
            status = "FINISHED"
        finally:
            self._client.set_terminated(run_id, status)

    def _aliases(self, name: str) -> dict[str, str]:
        with self._errors(f"read the aliases of {name}"):
            try:
                aliases = self._client.get_registered_model(name).aliases
            except MlflowException as error:
                if error.error_code != _ABSENT:
                    raise
                return {}
        return {alias: str(version) for alias, version in aliases.items()}

    def _version(self, name: str, version: str) -> ModelVersion:
        with self._errors(f"read {name}/{version}"):
            try:
                return self._client.get_model_version(name, version)
            except MlflowException as error:
                if error.error_code not in _NO_VERSION:
                    raise
            found = [str(entry.version) for entry in self._all_versions(name)]
        wanted = shown(found) or "none yet"
        raise RegistryError(f"{name}: found no version {version!r}, wanted one of {wanted}")

    def _all_versions(self, name: str) -> list[ModelVersion]:
        found: list[ModelVersion] = []
        token = None
        while token is None or token:
            page = self._client.search_model_versions(f"name='{name}'", page_token=token)
            found.extend(page)
            token = page.token or ""
        return found

    def _listed(self, version: ModelVersion, aliases: Mapping[str, str]) -> RegisteredVersion:
        run = self._client.get_run(version.run_id) if version.run_id else None
        return RegisteredVersion.of(version, run, aliases)
