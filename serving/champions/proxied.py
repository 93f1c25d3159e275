"""Copy a version's folder out of an MLflow server's artifact store, within bounds."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from data.errors import BadModelError, RegistryError
from serving.champions.rest_http import RegistryHttp

ARTIFACTS_API = "/api/2.0/mlflow-artifacts/artifacts"
MOST_FILES = 1_000
MOST_BYTES = 8 * 2**30
DEEPEST = 8  # folders within folders; ours have two
LONGEST_S = 300.0


@dataclass(slots=True)
class Allowance:
    """What may still be fetched for one version: files, bytes, and until when (monotonic s)."""

    deadline_s: float
    files: int = MOST_FILES
    bytes_left: int = MOST_BYTES

    def take(self, files: int = 0, size: int = 0) -> None:
        """Use some of it.

        Raises
        ------
        BadModelError
            If that is more than is left: no version of ours is so large.
        """
        self.files -= files
        self.bytes_left -= size
        if self.files < 0 or self.bytes_left < 0:
            raise BadModelError(f"wanted at most {MOST_FILES} files and {MOST_BYTES} bytes")


class ArtifactProxy:
    """The artifact store behind an MLflow server."""

    def __init__(self, http: RegistryHttp) -> None:
        self._http = http

    def copy(self, path: str, directory: Path) -> None:
        """Copy the folder at `path`, with the folders in it, into `directory`.

        Raises
        ------
        RegistryError
            If the server does not answer well and in time.
        BadModelError
            If a name would leave its folder, or there is more than any version of ours holds.
        """
        self._copy(path.strip("/"), directory, Allowance(time.monotonic() + LONGEST_S), DEEPEST)

    def _copy(self, path: str, directory: Path, allowed: Allowance, depth: int) -> None:
        if depth == 0:
            raise BadModelError(f"{path[:200]}: wanted at most {DEEPEST} folders in each other")
        directory.mkdir(exist_ok=True)
        for name, is_folder in self._listed(path):
            allowed.take(files=1)
            if is_folder:
                self._copy(f"{path}/{name}", directory / name, allowed, depth - 1)
            else:
                self._copy_file(f"{path}/{name}", directory / name, allowed)

    def _copy_file(self, path: str, target: Path, allowed: Allowance) -> None:
        with target.open("xb") as file:
            for chunk in self._http.chunks(f"{ARTIFACTS_API}/{quote(path)}", allowed.deadline_s):
                allowed.take(size=len(chunk))
                file.write(chunk)

    def _listed(self, path: str) -> Iterator[tuple[str, bool]]:
        document = self._http.json(ARTIFACTS_API, {"path": path})
        try:
            entries = [(str(e["path"]), bool(e.get("is_dir"))) for e in document.get("files", [])]
        except (AttributeError, KeyError, TypeError) as error:
            url = self._http.url
            raise RegistryError(f"{url}: found no list of files at {path[:200]}") from error
        for entry, is_folder in entries:
            name = entry.rsplit("/", 1)[-1]
            if name in ("", ".", "..") or "\\" in name or "\0" in name:
                raise BadModelError(f"found a file named {name!r:.80}, wanted a plain name")
            yield name, is_folder
