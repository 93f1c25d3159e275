"""``/v1/slowdown`` without JSON: pairs in and estimates out as little-endian numbers.

A scheduler that asks of a thousand pairs in every cycle spends more on reading and writing JSON
than the answers cost. Same route, same checks, same errors; ``docs/serving.md`` has the layout.
"""

import re
from struct import Struct

from data.domain import Estimate, Pair, Source
from data.errors import RequestError
from serving.web.limits import LIMITS, NAME, NO_CONTROL_CHARACTERS
from serving.web.wire_models import EstimatesAnswer, SlowdownRequest
from serving.web.wire_schema import Reader, Writer

MEDIA = b"application/octet-stream"
PAIRS_MAGIC, ESTIMATES_MAGIC = b"CPR1", b"CES1"
HEAD = Struct("<4sII")  # magic, rows, names
PAIR = Struct("<III")  # job_key, neighbour_key, gpu_model: positions among the names
ESTIMATE = Struct("<dddHBB4x")  # value, lower, upper, model version, source, in_domain
LENGTH = Struct("<H")  # bytes of the name that follows, UTF-8
SOURCES = tuple(Source)
"""A source is its position here."""

MOST_NAMES = 4_096  # remembered, 2 KiB each at most
_NAMES: dict[bytes, str] = {}  # what was read once is not checked again

MOST_PAIRS = int(LIMITS["SlowdownRequest", "pairs"].most)
_SOURCE_NUMBERS = {source: number for number, source in enumerate(SOURCES)}
_IS_PRINTABLE = re.compile(NO_CONTROL_CHARACTERS).match


class BinaryPairs(Reader[SlowdownRequest]):
    """Reads the binary form of ``SlowdownRequest``."""

    def __init__(self) -> None:
        super().__init__(SlowdownRequest)

    def read(self, body: bytes) -> SlowdownRequest:
        """Return the pairs.

        Raises
        ------
        RequestError
            If the body is cut short or goes on, counts no rows or too many, or names no text;
            what a name may be is what the JSON form allows.
        """
        magic, rows, count = _head(body)
        if magic != PAIRS_MAGIC:
            raise RequestError(("magic", repr(magic), repr(PAIRS_MAGIC)))
        if not 1 <= rows <= MOST_PAIRS:
            raise RequestError(("rows", str(rows), f"a whole number in [1, {MOST_PAIRS}]"))
        if not 1 <= count <= 3 * rows:
            raise RequestError(("names", str(count), f"a whole number in [1, {3 * rows}]"))
        at = HEAD.size + rows * PAIR.size
        names = _names(body, at, count)
        try:
            pairs = [
                Pair(names[job], names[neighbour], names[model])
                for job, neighbour, model in PAIR.iter_unpack(body[HEAD.size : at])
            ]
        except IndexError as error:
            raise RequestError(("pairs", "a name's position", f"one below {count}")) from error
        return SlowdownRequest(tuple(pairs))


class BinaryEstimates(Writer[EstimatesAnswer]):
    """Writes the binary form of ``EstimatesAnswer``."""

    def __init__(self) -> None:
        super().__init__(EstimatesAnswer)

    def write(self, value: EstimatesAnswer) -> bytes:
        """Return the estimates as bytes."""
        versions: dict[str, int] = {}
        rows = [_packed(each, versions) for each in value.estimates]
        head = HEAD.pack(ESTIMATES_MAGIC, len(rows), len(versions))
        return b"".join((head, *rows, *map(_name, versions)))


def pairs_frame(request: SlowdownRequest) -> bytes:
    """Return a request's binary form: what a client sends.

    Examples
    --------
    >>> frame = pairs_frame(SlowdownRequest((Pair("bert", "gpt", "A100"),)))
    >>> BinaryPairs().read(frame).pairs
    (Pair(job_key='bert', neighbour_key='gpt', gpu_model='A100'),)
    """
    names: dict[str, int] = {}
    rows = [
        PAIR.pack(
            *(
                names.setdefault(text, len(names))
                for text in (pair.job_key, pair.neighbour_key, pair.gpu_model)
            )
        )
        for pair in request.pairs
    ]
    return b"".join((HEAD.pack(PAIRS_MAGIC, len(rows), len(names)), *rows, *map(_name, names)))


def estimates_from_frame(frame: bytes) -> tuple[Estimate, ...]:
    """Return what an answer's binary form says: what a client reads."""
    _, rows, count = _head(frame)
    at = HEAD.size + rows * ESTIMATE.size
    versions = _names(frame, at, count)
    return tuple(
        Estimate(value, lower, upper, versions[version], SOURCES[source], bool(in_domain))
        for value, lower, upper, version, source, in_domain in ESTIMATE.iter_unpack(
            frame[HEAD.size : at]
        )
    )


def _packed(estimate: Estimate, versions: dict[str, int]) -> bytes:
    return ESTIMATE.pack(
        estimate.value,
        estimate.lower,
        estimate.upper,
        versions.setdefault(estimate.model_version, len(versions)),
        _SOURCE_NUMBERS[estimate.source],
        estimate.in_domain,
    )


def _name(text: str) -> bytes:
    encoded = text.encode()
    return LENGTH.pack(len(encoded)) + encoded


def _head(body: bytes) -> tuple[bytes, int, int]:
    if len(body) < HEAD.size:
        raise RequestError(("", f"{len(body)} bytes", f"at least {HEAD.size}"))
    magic, rows, count = HEAD.unpack_from(body)
    return magic, rows, count


def _names(body: bytes, at: int, count: int) -> list[str]:
    """Return the texts that begin at a byte and end with the body."""
    names = []
    for number in range(count):
        start = at + LENGTH.size
        if start > len(body):
            raise RequestError((f"names[{number}]", f"a body of {len(body)} bytes", "more of it"))
        at = start + LENGTH.unpack_from(body, at)[0]
        encoded = body[start:at]
        text = _NAMES.get(encoded)
        if text is None or at > len(body):
            text = _text(encoded, number, is_whole=at <= len(body))
            if len(_NAMES) >= MOST_NAMES:
                _NAMES.clear()
            _NAMES[encoded] = text
        names.append(text)
    if at != len(body):
        raise RequestError(("", f"{len(body)} bytes", f"{at}"))
    return names


def _text(encoded: bytes, number: int, *, is_whole: bool) -> str:
    try:
        text = encoded.decode()
    except UnicodeDecodeError:
        text = ""
    if not is_whole or not NAME.least <= len(text) <= NAME.most or not _IS_PRINTABLE(text):
        wanted = f"a UTF-8 text of {NAME.least} to {NAME.most} characters, none of them control"
        raise RequestError((f"names[{number}]", f"{encoded[:40]!r}", wanted))
    return text
