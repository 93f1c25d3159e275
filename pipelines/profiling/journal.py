"""What a profiling session has measured so far, safe against any interruption.

An append-only file of JSON lines, each flushed to disk before the next measurement begins. A
measurement is one line, so it is there whole or not at all: a line that was cut off by a crash is
dropped when the journal is opened again.
"""

import fcntl
import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from data.errors import ProfilerError

Row = dict[str, str | float | bool | None]
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Conditions:
    """What must not change between the sittings of one session.

    Attributes
    ----------
    machine, device : str
        CPU model, and model of the card that is measured on.
    commands : mapping of job key to str
        All that defines a command, as text. A session may gain jobs, but not change them.
    """

    machine: str
    device: str
    commands: Mapping[str, str]


class Journal:
    """The journal of one session, locked against a second profiler.

    Attributes
    ----------
    session : str
        Names the session in its run ids, so that tables of several can be put together.
    finished : dict of measurement key to its rows

    Raises
    ------
    ProfilerError
        If another profiler has it open, it is no journal, or conditions have changed.
    """

    def __init__(self, path: Path, conditions: Conditions) -> None:
        self._path = path
        self._file = path.open("a+b")
        self.session = uuid.uuid4().hex[:8]
        self.finished: dict[str, list[Row]] = {}
        self._commands: dict[str, str] = {}
        try:
            self._lock()
            for number, line in enumerate(self._whole_lines(), start=1):
                self._replay(line, number, conditions)
            self._note(conditions)
        except BaseException:
            self._file.close()
            raise

    def append(self, key: str, rows: list[Row]) -> None:
        """Add a finished measurement with its rows; on return they are on disk."""
        self._write({"measurement": key, "rows": rows})
        self.finished[key] = rows

    def close(self) -> None:
        """Close the file, and with that let the next profiler in."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ProfilerError(f"{self._path}: another profiler is writing it now") from error

    def _whole_lines(self) -> list[bytes]:
        """Read the lines that were finished, and cut off one that was not."""
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        self._file.truncate(whole)
        return content[:whole].splitlines()

    def _replay(self, line: bytes, number: int, conditions: Conditions) -> None:
        entry = self._entry(line, number)
        if "measurement" in entry:
            self.finished[entry["measurement"]] = entry["rows"]
            return
        found = {"machine": entry["machine"], "device": entry["device"]}
        wanted = {"machine": conditions.machine, "device": conditions.device}
        old = {
            name: entry["commands"].get(name, text) for name, text in conditions.commands.items()
        }
        for name, value in (wanted | dict(conditions.commands)).items():
            if (found | old)[name] != value:
                raise ProfilerError(
                    f"{self._path}: begun with {name} = {(found | old)[name]!r}, found {value!r}; "
                    "wanted the same (another --out, or --force to start over)"
                )
        self.session = entry["session"]
        self._commands |= entry["commands"]

    def _entry(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            entry = json.loads(line)
            is_known = "measurement" in entry or entry["format"] == FORMAT
        except (ValueError, TypeError, KeyError) as error:
            raise ProfilerError(f"{self._path}, line {number}: no line of a journal") from error
        if not is_known:
            found = f"format {entry['format']}"
            raise ProfilerError(f"{self._path}, line {number}: found {found}, wanted {FORMAT}")
        return dict(entry)

    def _note(self, conditions: Conditions) -> None:
        commands = self._commands | dict(conditions.commands)
        if commands != self._commands:
            facts = {"machine": conditions.machine, "device": conditions.device}
            self._write({"format": FORMAT, "session": self.session, **facts, "commands": commands})

    def _write(self, entry: Mapping[str, object]) -> None:
        try:
            self._file.write(json.dumps(entry, allow_nan=False).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise ProfilerError(
                f"{self._path}: cannot write ({error}); nothing was lost"
            ) from error
