"""How a push is signed: Standard Webhooks, so that any library for them can send one."""

import base64
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from data.errors import SettingError, UnauthorizedError

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
SHORTEST_SECRET, LONGEST_ID = 24, 128
WINDOW_S = 60.0
"""How old a push may be, and how far its sender's clock may be ahead."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A push that its sender has signed.

    Attributes
    ----------
    delivery_id : str
        New for each push.
    sent_time : int
        Seconds since 1970, UTC, by the sender's clock.
    """

    delivery_id: str
    sent_time: int


def signed_headers(secret: str, delivery: Delivery, body: bytes) -> dict[str, str]:
    """Return the headers that go with a push.

    Parameters
    ----------
    secret : str
        Known to both sides.
    delivery : Delivery
    body : bytes

    Notes
    -----
    HMAC-SHA256 over ``<id>.<timestamp>.<body>``, in base64 after ``v1,``: the Standard Webhooks
    specification, version 1.

    Examples
    --------
    >>> signed_headers("s" * 24, Delivery("d-1", 1_795_000_000), b"{}")["webhook-signature"]
    'v1,2dYhT2MLK1XECLabH94is7kVNHzlOW1ryXjpSyv1kIE='
    """
    return {
        ID: delivery.delivery_id,
        TIMESTAMP: str(delivery.sent_time),
        SIGNATURE: _signature(secret, delivery.delivery_id, str(delivery.sent_time), body),
    }


def checked_delivery(
    secrets: Iterable[str], headers: Mapping[str, str], body: bytes, now: float
) -> Delivery:
    """Return the delivery that headers and body prove.

    Parameters
    ----------
    secrets : iterable of str
        Any of them will do, so that one can be replaced without a gap.
    headers : mapping of str to str
        Names in lower case.
    body : bytes
    now : float
        Seconds since 1970, UTC.

    Raises
    ------
    UnauthorizedError
        If there is no signature by a known secret, or it is more than 60 s old or ahead. Says
        which, but nothing of what would have been right.
    """
    delivery_id, sent = headers.get(ID, ""), headers.get(TIMESTAMP, "")
    given = headers.get(SIGNATURE, "").split(" ")  # a sender that changes its secret signs twice
    good = False
    for secret in secrets:  # all of them, so that the time says nothing
        wanted = _signature(secret, delivery_id, sent, body).encode()
        for text in given[:4]:
            good |= hmac.compare_digest(wanted, text.encode("utf-8", "replace"))
    if not good or not 1 <= len(delivery_id) <= LONGEST_ID:
        raise UnauthorizedError("found no signature by a known secret, wanted one of the body")
    if not (sent.isascii() and sent.isdecimal() and abs(int(sent[:12]) - now) <= WINDOW_S):
        raise UnauthorizedError(f"found a push of another time, wanted one within {WINDOW_S:g} s")
    return Delivery(delivery_id, int(sent))


def secrets_from_file(path: Path) -> tuple[str, ...]:
    """Return the secrets of a file, one a line; the first signs, all of them prove.

    Raises
    ------
    SettingError
        If the file cannot be read, holds none, or a short one. Names the line, never the secret.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"push secret file {path}: {error}") from error
    secrets = [(n, line.strip()) for n, line in enumerate(lines, 1) if line.strip()]
    short = [n for n, secret in secrets if len(secret) < SHORTEST_SECRET]
    if short or not secrets:
        found = f"a short one in line {short[0]}" if short else "none"
        raise SettingError(
            f"push secret file {path}: found {found}, wanted secrets of at least "
            f"{SHORTEST_SECRET} characters, one a line"
        )
    return tuple(secret for _, secret in secrets)


def _signature(secret: str, delivery_id: str, sent: str, body: bytes) -> str:
    signed = f"{delivery_id}.{sent}.".encode("utf-8", "replace") + body
    digest = hmac.new(secret.encode(), signed, sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"
