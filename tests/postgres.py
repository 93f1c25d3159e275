"""A private PostgreSQL server for tests: real, on a free loopback port, gone afterwards."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.ports import free_port

_AS_USER = ["setpriv", "--reuid"]
UNPRIVILEGED = ("postgres", "nobody")  # the server refuses to run as root


@dataclass(frozen=True)
class Server:
    """A PostgreSQL cluster in a folder of its own."""

    programs: Path
    folder: Path
    port: int
    user: str | None  # to switch to, when root runs the tests

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://tester@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        # Without fsync: these tests kill the server, not the machine.
        options = f"-p {self.port} -h 127.0.0.1 -k {self.folder} -c fsync=off"
        self._run("pg_ctl", "start", "-w", "-t", "60", "-l", self.folder / "log", "-o", options)

    def stop(self, mode: str = "immediate") -> None:
        """End the server; ``immediate`` is the crash: no checkpoint, connections cut."""
        self._run("pg_ctl", "stop", "-w", "-m", mode)

    def initialise(self) -> None:
        self._run("initdb", "-U", "tester", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")

    def _run(self, program: str, *arguments: object) -> None:
        command = [self.programs / program, "-D", self.folder / "data", *arguments]
        if self.user is not None:
            group = pwd.getpwnam(self.user).pw_gid
            command = [*_AS_USER, self.user, "--regid", group, "--clear-groups", *command]
        # Files, not pipes: the server inherits them and would keep a pipe open.
        with (self.folder / "errors").open("w") as errors:
            done = subprocess.run(
                [str(word) for word in command],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                check=False,
            )
        if done.returncode:
            raise RuntimeError(f"{program}: {(self.folder / 'errors').read_text()}")


@contextmanager
def postgresql() -> Iterator[Server]:
    """Run a fresh server for the block; skip the test, with the reason, where none can run."""
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="colocast-pg-", dir="/tmp"))
    try:
        user = _unprivileged(folder)
        server = Server(programs, folder, free_port(), user)
        server.initialise()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path:
    folders = [Path(found).resolve().parent for found in [shutil.which("initdb")] if found]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "pg_ctl").exists():
            return folder
    pytest.skip("no PostgreSQL server here: neither initdb on PATH nor /usr/lib/postgresql/*/bin")


def _unprivileged(folder: Path) -> str | None:
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = next((name for name in UNPRIVILEGED if name in names), None)
    if user is None or shutil.which("setpriv") is None:
        pytest.skip("PostgreSQL refuses to run as root, and no user or setpriv to change to")
    shutil.chown(folder, user)
    return user
