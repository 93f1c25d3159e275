"""What the retrainer tells: one event a line, and a JSON file of the last challenges."""

import json
import logging
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from data.errors import JobLogError
from pipelines.retraining.retrainer import LOG, Challenge

LINE = "%(asctime)s %(levelname)s %(message)s"


def log_to_stderr() -> None:
    """Send the retrainer's events to stderr, one a line, beginning with the local time."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(LINE))
    LOG.handlers = [handler]
    LOG.setLevel(logging.INFO)
    LOG.propagate = False


def challenge_rows(challenges: Sequence[Challenge]) -> list[dict[str, object]]:
    """Return one flat object a challenge, with null for what is unknown.

    Examples
    --------
    >>> from pipelines.retraining.gate_terms import undecided
    >>> kept = Challenge("colocast-memory", None, "3", undecided(2, "only 2 new rows"))
    >>> row = challenge_rows([kept])[0]
    >>> row["model"], row["promote"], row["reason"], row["gain"]
    ('colocast-memory', False, 'only 2 new rows', None)
    """
    rows = [
        {
            "model": c.model,
            "stage": c.stage,
            "version": c.version,
            "previous": c.previous,
            **asdict(c.verdict),
        }
        for c in challenges
    ]
    return [{name: _or_null(value) for name, value in row.items()} for row in rows]


def write_challenges(challenges: Sequence[Challenge], path: Path | None) -> None:
    """Write `challenges` as JSON to `path`, wholly or not at all; do nothing without a path.

    Raises
    ------
    JobLogError
        If the file cannot be written.
    """
    if path is None:
        return
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.write_text(json.dumps(challenge_rows(challenges), indent=2) + "\n")
        beside.replace(path)
    except OSError as error:
        raise JobLogError(f"{path}: {error}; name a file in a folder you can write") from error


def _or_null(value: object) -> object:
    return None if isinstance(value, float) and math.isnan(value) else value
