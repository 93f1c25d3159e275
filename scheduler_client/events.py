"""The scheduler's log: one event a line, as JSON, with the job id wherever there is one."""

import json
import logging
import time

from data.wire import Json

LOGGER = logging.getLogger("colocast.scheduler")


def event_line(time_: float, name: str, fields: dict[str, Json]) -> str:
    """Return an event as one line of JSON; what is unknown is left out.

    Examples
    --------
    >>> event_line(12.3456, "started", {"job_id": "7", "card_ids": ["gpu0"], "slowdown": None})
    '{"time": 12.346, "event": "started", "job_id": "7", "card_ids": ["gpu0"]}'
    """
    known = {key: value for key, value in fields.items() if value is not None}
    return json.dumps({"time": round(time_, 3), "event": name, **known})


def log_to_stderr() -> None:
    """Write the log to stderr, one JSON document a line."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)


def log_event(name: str, **fields: Json) -> None:
    """Log that something happened."""
    LOGGER.info(event_line(time.time(), name, fields))


def log_fault(name: str, **fields: Json) -> None:
    """Log that something went wrong and was dealt with."""
    LOGGER.warning(event_line(time.time(), name, fields))
