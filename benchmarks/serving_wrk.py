"""Load from ``wrk`` (Debian package ``wrk``): not our client, not our language."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ABSENT = "wrk is not installed (Debian package wrk)"
_DONE = """
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('\\nRESULT {"p50_us":%f,"p99_us":%f,"max_us":%f,"requests":%d,' ..
    '"duration_us":%d,"failed":%d}\\n', latency:percentile(50), latency:percentile(99),
    latency.max, summary.requests, summary.duration,
    e.status + e.connect + e.read + e.write + e.timeout))
end
"""


@dataclass(frozen=True, slots=True)
class Load:
    """What one run of wrk saw.

    Attributes
    ----------
    p50_ms, p99_ms, max_ms : float
    requests, failed : int
        Failed: a status of 400 or more, or no answer.
    seconds : float
    """

    p50_ms: float
    p99_ms: float
    max_ms: float
    requests: int
    failed: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Requests answered per second."""
        return self.requests / self.seconds


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked over and over.

    Attributes
    ----------
    path : str
    bodies : tuple of bytes
        Sent in turn.
    headers : mapping of str to str
    lua : str
        Defines ``request`` where bodies are made as one goes.
    """

    path: str
    bodies: tuple[bytes, ...] = ()
    headers: Mapping[str, str] | None = None
    lua: str = ""


JSON_HEADERS = {"Content-Type": "application/json"}


def is_installed() -> bool:
    """Return whether there is a wrk here."""
    return shutil.which("wrk") is not None


def load(
    url: str,
    question: Question,
    connections: int,
    seconds: float,
    pause_ms: int = 0,
) -> Load:
    """Run wrk once, on one thread, and return what it saw.

    Parameters
    ----------
    url : str
    question : Question
    connections : int
    seconds : float
    pause_ms : int
        Between an answer and the next question of a connection.
    """
    with tempfile.TemporaryDirectory() as folder:
        script = _script(question, pause_ms, Path(folder))
        command = [
            *_on_core(),
            *("wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s"),
            *("--timeout", "10s", "-s", str(script), url + question.path),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))
    facts = json.loads(found.removeprefix("RESULT "))
    return Load(
        facts["p50_us"] / 1e3,
        facts["p99_us"] / 1e3,
        facts["max_us"] / 1e3,
        facts["requests"],
        facts["failed"],
        facts["duration_us"] / 1e6,
    )


def _on_core() -> tuple[str, ...]:
    """Return what keeps wrk to the second core, where there is one: the server has the first."""
    cores = sorted(os.sched_getaffinity(0))
    return ("taskset", "-c", str(cores[1])) if len(cores) > 1 else ()


def _script(question: Question, pause_ms: int, folder: Path) -> Path:
    lines = []
    if question.bodies or question.lua:
        lines.append('wrk.method = "POST"')
    for name, value in (question.headers or JSON_HEADERS).items():
        lines.append(f'wrk.headers["{name}"] = "{value}"')
    for number, body in enumerate(question.bodies):
        (folder / f"body{number}").write_bytes(body)
    if question.bodies:
        lines.append(_BODIES.format(folder=folder, count=len(question.bodies)))
    if question.lua:
        lines.append(question.lua)
    if pause_ms:
        lines.append(f"function delay() return {pause_ms} end")
    script = folder / "load.lua"
    script.write_text("\n".join([*lines, _DONE]))
    return script


_BODIES = """
local requests, at = {{}}, 0
function init(args)
  for n = 0, {count} - 1 do
    local file = io.open("{folder}/body" .. n, "rb")
    requests[n] = wrk.format(nil, nil, nil, file:read("*a"))
    file:close()
  end
end
function request()
  at = (at + 1) % {count}
  return requests[at]
end
"""
