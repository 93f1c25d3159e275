from dataclasses import replace

import numpy as np
import pytest

from data.domain import Card, JobRequest, ModelStructure, Pair, Resident
from data.errors import NoChampionError, UnknownProfileError
from features.history import RuntimeHistory
from features.requests import requests_frame
from serving.forest.check import with_compiled_forest
from serving.inference.slowdowns import Live
from serving.predictor import Predictor
from tests.serving.conftest import KEYS, interference_bundle
from tests.serving.structures import STRUCTURES, demand_bundle, memory_bundle

INTERFERENCE = "colocast-interference"
STRUCTURE = ModelStructure("dlrm", 256, embedding_rows=3000, embedding_width=16, depth=1)


def runtime_features(jobs, running=()):
    return RuntimeHistory().transform(requests_frame(jobs))


@pytest.fixture(scope="module")
def bundles(profiles, pairs):
    made = (interference_bundle(profiles, pairs, 0.0), memory_bundle(), demand_bundle())
    return {b.spec.name: replace(b, version=f"{b.spec.name}/7") for b in made}


@pytest.fixture
def predictor(bundles):
    return Predictor(bundles, runtime_features)


def card(*keys, name="c", gpu_model="v100", free=10_000):
    return Card(name, gpu_model, free, tuple(Resident(key, key) for key in keys))


def job(key="new", **known):
    return JobRequest("9", "ada", "q", key, 0.0, **known)


def test_versions_name_what_answers(predictor):
    assert predictor.versions[INTERFERENCE] == "colocast-interference/7"
    assert Predictor({}, runtime_features).versions == {}


def test_memory_is_predicted_from_the_structure(predictor):
    (estimate,) = predictor.memories([STRUCTURE])
    assert estimate.value == pytest.approx(356.0, abs=1)
    assert (estimate.model_version, estimate.source) == ("colocast-memory/7", "model")


def test_demand_names_every_signal_for_every_structure(predictor):
    demands = predictor.demands(STRUCTURES[:3])
    assert len(demands) == 3
    assert set(demands[0]) == {"gpu_util_mean", "sm_active_mean", "gpu_mem_peak_mib"}
    assert all(0 <= demand["gpu_util_mean"].value <= 1 for demand in demands)


@pytest.mark.parametrize("ask", ["slowdowns", "memories", "demands", "explain"])
def test_model_that_is_absent_is_named(ask):
    asked = {
        "slowdowns": [Pair("k1", "k2", "v100")],
        "explain": Pair("k1", "k2", "v100"),
    }.get(ask, [STRUCTURE])
    with pytest.raises(NoChampionError, match="has no champion here; train one"):
        getattr(Predictor({}, runtime_features), ask)(asked)


def test_unprofiled_keys_are_all_named(predictor):
    pairs = [Pair("k1", "new", "v100"), Pair("k1", "k2", "k80")]
    with pytest.raises(UnknownProfileError, match="'k1', 'k2', 'new'"):
        predictor.slowdowns(pairs)


def test_new_job_with_a_structure_is_placed_through_its_predicted_profile(predictor):
    (placement,) = predictor.placements(job(structure=STRUCTURE), [card("k1")])
    (other,) = predictor.placements(job(structure=STRUCTURES[39]), [card("k1")])
    (blind,) = predictor.placements(job(), [card("k1")])
    assert placement.job_slowdown.source == "cold_start"
    assert not placement.job_slowdown.in_domain
    assert placement.cost != other.cost
    assert placement.job_slowdown.upper >= blind.job_slowdown.upper
    assert placement.memory.model_version == "colocast-memory/7"


def test_new_job_is_placed_beside_another_new_one(predictor):
    cards = [card("stranger"), card("k1", "stranger", name="d"), card("new", name="e")]
    placements = predictor.placements(job(structure=STRUCTURE), cards)
    assert {placement.job_slowdown.source for placement in placements} == {"cold_start"}


def test_one_structure_does_not_answer_for_another(predictor):
    first = predictor.placements(job(structure=STRUCTURE), [card("k1")])
    predictor.placements(job(structure=STRUCTURES[39]), [card("k1")])
    assert predictor.placements(job(structure=STRUCTURE), [card("k1")]) == first


def test_placements_repeat_exactly(predictor):
    cards = [card(key, name=key) for key in KEYS] + [card("k1", "k2"), card(name="free")]
    assert predictor.placements(job("k3"), cards) == predictor.placements(job("k3"), cards)


def test_same_view_gives_the_same_answer_in_any_order_of_asking(bundles):
    cards = [card(key, name=key) for key in KEYS]
    cold, warm = (Predictor(bundles, runtime_features) for _ in range(2))
    warm.warm()
    assert cold.placements(job("k3"), cards) == warm.placements(job("k3"), cards)


def test_compiled_forest_places_as_the_native_one(bundles):
    compiled = {**bundles, INTERFERENCE: with_compiled_forest(bundles[INTERFERENCE])}
    cards = [card(key, name=key) for key in KEYS]
    one = Predictor(bundles, runtime_features).placements(job("k3"), cards)
    other = Predictor(compiled, runtime_features).placements(job("k3"), cards)
    np.testing.assert_allclose([p.cost for p in one], [p.cost for p in other], atol=1e-12)


def test_memory_of_pairs_survives_the_swap_of_another_model(bundles):
    before = Predictor(bundles, runtime_features)
    after = Predictor(
        {**bundles, "colocast-memory": memory_bundle()}, runtime_features, None, before
    )
    assert after._slowdowns is before._slowdowns
    newer = {**bundles, INTERFERENCE: replace(bundles[INTERFERENCE], version="x/8")}
    assert Predictor(newer, runtime_features, None, before)._slowdowns is not before._slowdowns


def test_job_that_ran_alone_once_is_no_cold_start(bundles, profiles):
    live = profiles.head(1).assign(job_key="new", gpu_mem_peak_mib=77.0)
    predictor = Predictor(bundles, runtime_features, Live(live, ()))
    (placement,) = predictor.placements(job(), [card("k1")])
    assert placement.job_slowdown.source == "model"
    assert placement.memory.value == 77.0
    assert predictor.explain(Pair("new", "k1", "v100")).job_profile["gpu_mem_peak_mib"] == 77.0


def test_without_any_model_every_card_is_placed(predictor):
    placements = Predictor({}, runtime_features).placements(job(), [card("k1"), card(name="free")])
    assert [p.job_slowdown.source for p in placements] == ["exclusive", "cold_start"]
    assert placements[1].job_slowdown.upper == 3.0


def test_runtime_counts_what_has_elapsed(predictor):
    (estimate,) = predictor.runtimes([job(elapsed_s=1e6)])
    assert estimate.lower >= 1e6
    assert estimate.model_version == "none"
