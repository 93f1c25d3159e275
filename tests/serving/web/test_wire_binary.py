import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.domain import Estimate, Pair, Source
from data.errors import RequestError
from serving.web.limits import LIMITS
from serving.web.wire_binary import (
    HEAD,
    PAIR,
    BinaryEstimates,
    BinaryPairs,
    estimates_from_frame,
    pairs_frame,
)
from serving.web.wire_models import EstimatesAnswer, SlowdownRequest

READER, WRITER = BinaryPairs(), BinaryEstimates()
PRINTABLE = st.characters(codec="utf-8", min_codepoint=32, exclude_characters="\x7f")
NAMES = st.text(PRINTABLE, min_size=1, max_size=9)
PAIRS = st.builds(Pair, NAMES, NAMES, NAMES)
ONE = pairs_frame(SlowdownRequest((Pair("bert", "gpt", "A100"),)))


@given(st.lists(PAIRS, min_size=1, max_size=20))
def test_pairs_come_back_as_they_were_written(pairs):
    request = SlowdownRequest(tuple(pairs))
    assert READER.read(pairs_frame(request)) == request


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body):
    with pytest.raises(RequestError):
        READER.read(body)


@given(st.integers(0, len(ONE) - 1))
def test_frame_that_is_cut_short_is_refused(length):
    with pytest.raises(RequestError):
        READER.read(ONE[:length])


@given(st.integers(0, len(ONE) - 1), st.integers(0, 255))
def test_frame_with_one_wrong_byte_is_read_or_refused(at, value):
    body = bytearray(ONE)
    body[at] = value
    try:
        (pair,) = READER.read(bytes(body)).pairs
    except RequestError:
        return
    assert 1 <= len(pair.job_key) <= 512


def frame(rows, count, pairs, *names):
    head = HEAD.pack(b"CPR1", rows, count)
    texts = b"".join(struct.pack("<H", len(name)) + name for name in names)
    return head + b"".join(PAIR.pack(*pair) for pair in pairs) + texts


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"CPR2" + ONE[4:], "magic"),
        (frame(0, 1, [], b"a"), "rows"),
        (frame(int(LIMITS["SlowdownRequest", "pairs"].most) + 1, 1, []), "rows"),
        (frame(1, 4, [(0, 0, 0)], b"a", b"b", b"c", b"d"), "names"),
        (frame(1, 0, [(0, 0, 0)]), "names"),
        (frame(1, 1, [(0, 1, 0)], b"a"), "pairs"),
        (frame(1, 1, [(0, 0, 2**32 - 1)], b"a"), "pairs"),
        (frame(1, 1, [(0, 0, 0)], b""), "names[0]"),
        (frame(1, 1, [(0, 0, 0)], b"\xff"), "names[0]"),
        (frame(1, 1, [(0, 0, 0)], b"a\x00b"), "names[0]"),
        (frame(1, 1, [(0, 0, 0)], b"a" * 513), "names[0]"),
        (frame(1, 1, [(0, 0, 0)], b"a") + b"more", ""),
    ],
)
def test_fault_is_named(body, field):
    with pytest.raises(RequestError) as caught:
        READER.read(body)
    assert caught.value.faults[0][0] == field


def test_estimates_come_back_as_they_were_written():
    estimates = (
        Estimate(1.5, 1.25, 2.0, "m/1", Source.MODEL),
        Estimate(1.1, 1.0, 3.0, "none", Source.COLD_START, in_domain=False),
    )
    assert estimates_from_frame(WRITER.write(EstimatesAnswer(estimates))) == estimates
