"""The service's own copies of champions: by digest, whole or not there, usable without MLflow."""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from data.errors import BadModelError, RegistryError
from serving.champions.files import bundle_digest
from serving.champions.prepared import compiled_bundle
from serving.champions.sources import VersionFacts
from serving.inference.bundle import Bundle

INDEX_FILE = "champion.json"
KEPT = 3  # versions a model: the champion, the one before, one that another worker still reads
_INCOMING = ".incoming-"
_DIGEST = re.compile("[0-9a-z]{1,64}")  # no separator, no dot: never out of its folder
_BROKEN_ENTRY = (
    OSError,
    ValueError,
    TypeError,
    AttributeError,
    KeyError,
    RecursionError,
    BadModelError,
)


@dataclass(frozen=True, slots=True)
class CachedVersion:
    """A version that lies in the cache.

    Attributes
    ----------
    number : str
        Version in the registry.
    source : str
        Where the registry has it from, as ``VersionFacts`` says.
    digest : str
        SHA-256 of its list of digests, and the name of its directory.
    created_time : float
        When it was registered (s, UTC); 0 where that is not known.
    """

    number: str
    source: str
    digest: str
    created_time: float = 0.0


class ModelCache:
    """Copies of registered versions under one folder, shared by all workers of a machine.

    Parameters
    ----------
    path : Path
        ``<path>/<name>/<digest>/`` holds a version, ``<path>/<name>/champion.json`` names the one
        that served last. Both appear by renaming, so no reader sees half of one.
    """

    def __init__(self, path: Path, read: Callable[[Path, str], Bundle] = compiled_bundle) -> None:
        self._path, self.read = path, read

    def directory(self, name: str, digest: str) -> Path:
        """Return where a version lies, or would.

        Raises
        ------
        BadModelError
            If `digest` is none: a registry may say anything, and a folder of that name is read,
            and removed where it is found damaged.
        """
        if not _DIGEST.fullmatch(digest):
            raise BadModelError(f"found digest {digest!r:.80}, wanted SHA-256 in hex")
        return self._path / name / digest

    def champion(self, name: str) -> CachedVersion | None:
        """Return the version that served last, or None if there is none or its entry is broken."""
        try:
            fields = json.loads((self._path / name / INDEX_FILE).read_text())
            version = CachedVersion(
                str(fields["number"]),
                str(fields["source"]),
                str(fields["digest"]),
                float(fields.get("created_time", 0.0)),
            )
            return version if self.directory(name, version.digest).is_dir() else None
        except _BROKEN_ENTRY:
            return None

    def add(
        self, name: str, number: str, facts: VersionFacts, fetch: Callable[[Path], None]
    ) -> CachedVersion:
        """Fetch a version into the cache and return it.

        Parameters
        ----------
        fetch : callable
            Fills the empty directory that it is given.

        Raises
        ------
        RegistryError
            If it cannot be fetched or written; nothing of it remains.
        BadModelError
            If what was fetched holds no list of digests, or another than was registered.
        """
        with self._incoming(name) as incoming:
            fetch(Path(incoming))
            digest = bundle_digest(Path(incoming))
            version = CachedVersion(number, facts.source, digest, facts.created_time)
            if facts.digest not in (None, version.digest):
                raise BadModelError(
                    f"{name}/{number}: fetched digest {version.digest}, registered {facts.digest}"
                )
            self._settle(Path(incoming), self.directory(name, version.digest))
        return version

    def remember(self, name: str, version: CachedVersion) -> None:
        """Make `version` the one to start from without MLflow, and drop older ones.

        Raises
        ------
        RegistryError
            If the entry cannot be written; the old one stays.
        """
        index = self._path / name / INDEX_FILE
        beside = index.with_name(f".{INDEX_FILE}-{os.getpid()}")
        try:
            with beside.open("w") as file:
                json.dump(asdict(version), file)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(index)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise _unwritable(index, error) from error
        self._drop_old(name, version.digest)

    def discard(self, name: str, digest: str) -> None:
        """Remove a version that turned out to be damaged."""
        shutil.rmtree(self.directory(name, digest), ignore_errors=True)

    def _incoming(self, name: str) -> "tempfile.TemporaryDirectory[str]":
        try:
            (self._path / name).mkdir(parents=True, exist_ok=True)
            return tempfile.TemporaryDirectory(
                prefix=_INCOMING, dir=self._path / name, ignore_cleanup_errors=True
            )
        except OSError as error:
            raise _unwritable(self._path / name, error) from error

    def _settle(self, incoming: Path, final: Path) -> None:
        content = incoming / "content"
        try:
            content.mkdir()
            for entry in list(incoming.iterdir()):
                if entry != content:
                    entry.rename(content / entry.name)
            content.rename(final)
        except OSError as error:
            if not final.is_dir():  # else another worker was first, with the same content
                raise _unwritable(final, error) from error

    def _drop_old(self, name: str, digest: str) -> None:
        others = [
            path
            for path in (self._path / name).iterdir()
            if path.is_dir() and path.name != digest and not path.name.startswith(_INCOMING)
        ]
        others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        for path in others[KEPT - 1 :]:
            shutil.rmtree(path, ignore_errors=True)


def _unwritable(path: Path, error: OSError) -> RegistryError:
    return RegistryError(
        f"{path}: {error.strerror or error}; free some disk space or move COLOCAST_HOME"
    )
