"""The scheduler's log: one event a line, as JSON, with the job id wherever there is one."""

import json
import logging

from data.wire import Json

LOGGER = logging.getLogger("colocast.scheduler")


def event_line(name: str, fields: dict[str, Json]) -> str:
    """Return an event as one line of JSON; what is unknown is left out.

    Examples
    --------
    >>> event_line("started", {"job_id": "7", "card_ids": ["gpu0"], "slowdown": None})
    '{"event": "started", "job_id": "7", "card_ids": ["gpu0"]}'
    """
    known = {key: value for key, value in fields.items() if value is not None}
    return json.dumps({"event": name, **known})


def log_event(name: str, **fields: Json) -> None:
    """Log that something happened."""
    LOGGER.info(event_line(name, fields))


def log_fault(name: str, **fields: Json) -> None:
    """Log that something went wrong and was dealt with."""
    LOGGER.warning(event_line(name, fields))
