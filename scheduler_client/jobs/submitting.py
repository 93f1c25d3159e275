"""From what a user typed to a submission that can run: checked before it is queued."""

import json
import shutil
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from data.domain import ModelStructure
from data.errors import SettingError, WireError, shown
from data.settings import Settings
from data.wire import from_json
from scheduler_client.jobs.spool import Spool
from scheduler_client.start import QUEUES_NOTE, found_config

LONGEST_KEY = 120


def found_program(words: Sequence[str], path: str | None) -> tuple[str, ...]:
    """Return the command with the full path of its program.

    The scheduler may have another PATH and another directory: what is meant is decided here.

    Raises
    ------
    SettingError
        If there is no command, or no such program that may be run.
    """
    if not words:
        raise SettingError(
            "found no command, wanted one after --, as in: submit -- python train.py"
        )
    program = shutil.which(words[0], path=path)
    if program is None:
        raise SettingError(
            f"command: found no program {words[0]!r} that may be run, on PATH {path}"
        )
    return (str(Path(program).absolute()), *words[1:])


def default_job_key(words: Sequence[str]) -> str:
    """Return a job key for a command: the same line is the same kind of job.

    Examples
    --------
    >>> default_job_key(("/usr/bin/python3", "train.py", "--batch", "64"))
    'python3 train.py --batch 64'
    """
    line = " ".join([Path(words[0]).name, *words[1:]])
    plain = "".join(c if c.isprintable() else "?" for c in line).strip()
    if len(plain) <= LONGEST_KEY:
        return plain
    digest = sha256(line.encode()).hexdigest()[:12]
    return f"{plain[: LONGEST_KEY - 13].strip()} {digest}"


def read_structure(text: str | None) -> ModelStructure | None:
    """Return the model structure that JSON text, or ``@FILE``, describes; None for None.

    Raises
    ------
    SettingError
        If the file cannot be read, or it is not such JSON; names the field.
    """
    if text is None:
        return None
    source = "structure"
    try:
        if text.startswith("@"):
            source = text[1:]
            text = Path(source).read_text("utf-8")
        return from_json(ModelStructure, json.loads(text))
    except OSError as error:
        raise SettingError(f"{source}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise SettingError(f"{source}: {_because(error)}") from error


def read_environment(pairs: Sequence[str]) -> dict[str, str]:
    """Return variables given as NAME=VALUE.

    Raises
    ------
    SettingError
        If one has no name, or no ``=``.

    Examples
    --------
    >>> read_environment(["SEED=7", "OPTIONS=a=b"])
    {'SEED': '7', 'OPTIONS': 'a=b'}
    """
    split = [pair.partition("=") for pair in pairs]
    wrong = [
        pair for pair, (name, sign, _) in zip(pairs, split, strict=True) if not (name and sign)
    ]
    if wrong:
        raise SettingError(f"env: found {shown(wrong)}, wanted NAME=VALUE")
    return {name: value for name, _, value in split}


def known_queue(name: str, settings: Settings, config_path: Path | None, spool: Spool) -> str:
    """Return `name` if the scheduler would take jobs of that queue.

    Judged by the configuration, and where there is none, by the one that the scheduler last ran
    with. Without any, every name is a queue.

    Raises
    ------
    SettingError
        If the queue is unknown; names those there are.
    """
    queues = [queue.name for queue in found_config(settings, config_path).queues]
    noted = spool.noted(QUEUES_NOTE)
    if not queues and isinstance(noted, list):
        queues = [str(queue) for queue in noted]
    if queues and name not in queues:
        raise SettingError(f"queue: found {name!r}, wanted one of {shown(queues)}")
    return name


def _because(error: Exception) -> str:
    return str(error) if isinstance(error, WireError) else f"found no JSON ({error})"
