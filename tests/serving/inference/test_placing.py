from dataclasses import replace

import pytest

from data.domain import Card, Estimate, JobRequest, ModelStructure, Resident, Source
from serving.inference.combination import ALONE, NEUTRAL, combined
from serving.inference.memory_need import UNKNOWN, measured_peak, memory_need
from serving.inference.placing import fits, kind_of, pairs_on, ranked_placements, sharing

JOB = JobRequest("9", "ada", "q", "new", 0.0)
SMALL = Estimate(10.0, 5.0, 20.0, "m/1", Source.MODEL)


def pair(value, source=Source.MODEL, version="i/1"):
    return Estimate(value, value - 0.1, value + 0.2, version, source)


def card(name, *keys, free=100):
    residents = tuple(Resident(f"{name}.{at}", key) for at, key in enumerate(keys))
    return Card(name, "A100", free, residents)


def ranked(cards, slowdowns):
    table = {(job, other, "A100"): pair(value) for (job, other), value in slowdowns.items()}
    sharings = [sharing("new", kind_of(card), table) for card in cards]
    return ranked_placements(cards, sharings, lambda model: SMALL)


def test_every_ordered_pair_on_a_card_is_asked_once():
    kinds = [kind_of(card("a", "x", "y")), kind_of(card("b", "x", "y")), kind_of(card("c"))]
    wanted = {("new", "x"), ("new", "y"), ("x", "new"), ("x", "y"), ("y", "new"), ("y", "x")}
    assert {found[:2] for found in pairs_on("new", kinds)} == wanted
    assert len(pairs_on("new", kinds)) == 6


def test_placements_are_ranked_by_cost():
    slowdowns = {("new", "x"): 1.5, ("x", "new"): 1.25, ("new", "y"): 1.0, ("y", "new"): 1.1}
    placements = ranked([card("a", "x"), card("b", "y"), card("c")], slowdowns)
    assert [placement.card_id for placement in placements] == ["c", "b", "a"]
    assert [placement.cost for placement in placements] == pytest.approx([0.0, 0.1, 0.75])


def test_empty_card_costs_nothing():
    (placement,) = ranked([card("a")], {})
    assert placement.job_slowdown == ALONE
    assert (placement.neighbour_slowdowns, placement.cost) == ((), 0.0)


def test_ties_keep_the_order_of_the_request():
    assert [p.card_id for p in ranked([card("b"), card("a")], {})] == ["b", "a"]


def test_neighbours_are_answered_in_the_order_of_the_residents():
    slowdowns = {("new", "x"): 1.0, ("new", "y"): 1.0, ("x", "y"): 1.0, ("y", "x"): 1.0}
    slowdowns |= {("x", "new"): 1.3, ("y", "new"): 1.1}
    (placement,) = ranked([card("a", "y", "x")], slowdowns)
    assert [e.value for e in placement.neighbour_slowdowns] == pytest.approx([1.1, 1.3])


def test_two_residents_of_one_kind_slow_each_other():
    slowdowns = {("new", "x"): 1.2, ("x", "new"): 1.1, ("x", "x"): 1.5}
    (placement,) = ranked([card("a", "x", "x")], slowdowns)
    assert placement.job_slowdown.value == pytest.approx(1.4)
    assert [e.value for e in placement.neighbour_slowdowns] == pytest.approx([1.6, 1.6])


def test_same_kind_on_both_sides_is_one_pair():
    assert pairs_on("x", [kind_of(card("a", "x"))]) == [("x", "x", "A100")]


def test_combination_is_as_reliable_as_its_weakest_part():
    result = combined([pair(1.2), NEUTRAL])
    assert (result.source, result.model_version, result.in_domain) == ("cold_start", "i/1", False)
    assert result.lower <= result.value <= result.upper


def test_combination_of_nothing_known_has_no_version():
    assert combined([NEUTRAL, NEUTRAL]).model_version == "none"


@pytest.mark.parametrize(
    ("memory", "free", "residents", "wanted"),
    [
        (SMALL, 20, ("x",), True),
        (SMALL, 19, ("x",), False),
        (SMALL, 19, (), False),
        (UNKNOWN, 10, (), True),
        (UNKNOWN, 10, ("x",), False),
        (Estimate(50.0, 0.0, 50.0, "none", Source.HEURISTIC), 40, (), False),
        (replace(SMALL, upper=1e6, in_domain=False), 40, (), True),
        (replace(SMALL, upper=1e6, in_domain=False), 40, ("x",), False),
        (replace(SMALL, upper=1e6), 40, (), False),
    ],
)
def test_job_fits_if_its_upper_memory_does(memory, free, residents, wanted):
    assert fits(memory, card("a", *residents, free=free)) is wanted


def test_measured_peak_comes_before_everything():
    peaks = {("new", "A100"): measured_peak(100.0, "i/1")}
    need = memory_need(JOB, "A100", peaks, lambda structure: SMALL)
    assert (need.value, need.source) == (100.0, "model")


def test_prediction_beyond_any_card_is_cut():
    huge = Estimate(1e12, 1e11, 1e13, "m/1", Source.MODEL)
    job = JobRequest("9", "ada", "q", "new", 0.0, structure=ModelStructure("dlrm", 8))
    need = memory_need(job, "V100", {}, lambda structure: huge)
    assert (need.lower, need.value, need.upper) == (2.0**20,) * 3


def test_structure_is_predicted_for_the_card_at_hand():
    asked = []
    job = JobRequest("9", "ada", "q", "new", 0.0, structure=ModelStructure("dlrm", 8))
    assert memory_need(job, "V100", {}, lambda s: asked.append(s) or SMALL) == SMALL
    assert asked[0].gpu_model == "V100"


@pytest.mark.parametrize(("requested", "source"), [(512, "heuristic"), (None, "cold_start")])
def test_request_is_the_last_that_is_known(requested, source):
    job = JobRequest("9", "a", "q", "new", 0.0, gpu_mem_mib=requested)
    need = memory_need(job, "A100", {}, lambda structure: None)
    assert (need.source, need.value) == (source, float(requested or 0))
