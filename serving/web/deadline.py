"""How long the caller still waits: its own word, as a header."""

from collections.abc import Mapping

from data.errors import RequestError

HEADER = b"x-request-deadline-ms"
MOST_DIGITS = 7  # 2.7 hours


def patience_s(headers: Mapping[bytes, bytes], most_s: float) -> float:
    """Return how many seconds from now the caller waits for its answer, at most `most_s`.

    Parameters
    ----------
    headers : mapping of bytes to bytes
        ``X-Request-Deadline-Ms`` holds whole milliseconds, counted from the sending: clocks of
        two machines need not agree. Absent, the caller is taken to wait `most_s`.
    most_s : float

    Raises
    ------
    RequestError
        If the header holds anything but a whole number from 1 to 9,999,999.

    Examples
    --------
    >>> patience_s({b"x-request-deadline-ms": b"250"}, 2.0)
    0.25
    >>> patience_s({b"x-request-deadline-ms": b"60000"}, 2.0), patience_s({}, 2.0)
    (2.0, 2.0)
    """
    text = headers.get(HEADER)
    if text is None:
        return most_s
    if not (text.isdigit() and len(text) <= MOST_DIGITS and int(text) > 0):
        wanted = "whole milliseconds in [1, 9999999]"
        raise RequestError((HEADER.decode(), repr(text.decode("latin-1"))[:60], wanted))
    return min(most_s, int(text) / 1e3)
