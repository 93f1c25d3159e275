import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.domain import Estimate, Placement, Source
from serving.web import wire_texts
from serving.web.wire_models import EstimatesAnswer, PlacementsAnswer
from serving.web.wire_schema import Writer
from serving.web.wire_texts import EstimatesWriter, PlacementsWriter

PLAIN = {kind: Writer(kind) for kind in (EstimatesAnswer, PlacementsAnswer)}
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
NAMES = st.text(st.characters(codec="utf-8", min_codepoint=32), max_size=9)
ESTIMATES = st.builds(
    Estimate, NUMBERS, NUMBERS, NUMBERS, NAMES, st.sampled_from(Source), st.booleans()
)
PLACEMENTS = st.builds(
    Placement,
    NAMES,
    ESTIMATES,
    st.lists(ESTIMATES, max_size=3).map(tuple),
    ESTIMATES,
    st.booleans(),
    NUMBERS,
)


@given(st.lists(ESTIMATES, max_size=5))
def test_estimates_are_written_as_by_the_plain_writer(estimates):
    answer = EstimatesAnswer((*estimates, *estimates))
    wanted = PLAIN[EstimatesAnswer].write(answer)
    assert json.loads(EstimatesWriter().write(answer)) == json.loads(wanted)


@given(st.lists(PLACEMENTS, max_size=5))
def test_placements_are_written_as_by_the_plain_writer(placements):
    answer = PlacementsAnswer((*placements, *placements))
    wanted = PLAIN[PlacementsAnswer].write(answer)
    assert json.loads(PlacementsWriter().write(answer)) == json.loads(wanted)


@pytest.mark.parametrize("most", [1, 2, 100])
def test_full_memory_starts_again_and_mixes_nothing_up(monkeypatch, most):
    monkeypatch.setattr(wire_texts, "MOST_KEPT", most)
    writer = EstimatesWriter()
    for turn in range(50):  # each turn's estimates are freed, so that identities come back
        fresh = tuple(Estimate(turn + n, 0.0, 9e9, "m/1", Source.MODEL) for n in range(3))
        written = json.loads(writer.write(EstimatesAnswer(fresh)))["estimates"]
        assert [estimate["value"] for estimate in written] == [turn, turn + 1, turn + 2]
