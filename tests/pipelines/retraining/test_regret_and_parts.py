import numpy as np
import pytest

from pipelines.retraining.gate import verdict
from pipelines.retraining.gate_terms import Costs, Evidence, GateRules
from pipelines.retraining.regret import neighbour_losses, queue_losses

RANDOM = np.random.default_rng(3)
NOISE = RANDOM.exponential(0.1, 60)
ALL = np.ones(60, dtype=bool)


def test_no_order_is_better_than_by_the_truth():
    took = RANDOM.lognormal(0, 1, 30)
    assert not queue_losses(took, took).any()
    shuffled = queue_losses(RANDOM.permutation(took), took).mean()
    assert 0 < shuffled < queue_losses(-took, took).mean()
    assert not len(queue_losses([], []))


def test_a_job_without_a_choice_has_no_neighbour_to_regret():
    assert not len(neighbour_losses(["a", "b"], [1.0, 2.0], [1.0, 2.0]))


def test_a_user_who_loses_keeps_the_champion_though_the_mean_gains():
    users = np.where(np.arange(60) < 40, "ada", "bob")
    champion = NOISE + np.where(users == "ada", 0.2, 0.0)
    challenger = NOISE + np.where(users == "bob", 0.1, 0.0)
    found = verdict(Evidence(challenger, ALL, champion, parts={"user": users}))
    assert not found.promote
    assert found.gain_low > 0
    assert found.reason == "worse on 20 groups of user=bob: mean gain -0.100"
    assert (found.worst_part, found.worst_gain) == ("user=bob", pytest.approx(-0.1))
    assert verdict(Evidence(challenger, ALL, champion)).promote


def test_a_loss_that_nobody_feels_refuses_nothing():
    users = np.where(np.arange(60) < 40, "ada", "bob")
    champion = NOISE + np.where(users == "ada", 0.2, 0.0)
    challenger = NOISE + np.where(users == "bob", 0.001, 0.0)
    assert verdict(Evidence(challenger, ALL, champion, parts={"user": users})).promote


def test_a_part_that_is_not_covered_keeps_the_champion():
    models = np.where(np.arange(60) < 40, "A100", "V100")
    covered = (models == "A100") | (np.arange(60) % 2 == 0)
    found = verdict(Evidence(NOISE, covered, NOISE + 1, parts={"gpu_model": models}))
    assert found.reason == "coverage 0.50 on 20 groups of gpu_model=V100 is below 0.75"
    assert verdict(Evidence(NOISE, ALL, NOISE + 1, parts={"gpu_model": models})).promote


@pytest.mark.parametrize(
    ("costs", "reason"),
    [
        (Costs(latency_s=0.04), "an answer takes 40.0 ms, wanted at most 30.0"),
        (Costs(size_bytes=2**30), "1024 MiB large, wanted at most 61"),
        (
            Costs(losses=ALL * 0.15),
            "scheduling regret 0.150 against 0.100, wanted at most 0.02 more",
        ),
    ],
)
def test_a_challenger_that_costs_too_much_is_refused_however_good_it_is(costs, reason):
    usual = Costs(latency_s=0.01, size_bytes=2e7, losses=ALL * 0.1)
    evidence = Evidence(NOISE, ALL, NOISE + 1, challenger_costs=costs, champion_costs=usual)
    found = verdict(evidence)
    assert (found.promote, found.reason) == (False, reason)


def test_regret_of_few_rows_decides_nothing():
    few = Evidence(
        NOISE[:49], ALL[:49], NOISE[:49] + 1,
        challenger_costs=Costs(losses=ALL * 0.4), champion_costs=Costs(losses=ALL * 0.1),
    )  # fmt: skip
    assert verdict(few).promote


@pytest.mark.parametrize(("worse", "is_promoted"), [(2, True), (20, False)])
def test_regret_of_few_decisions_among_many_decides_nothing(worse, is_promoted):
    losses = np.where(np.arange(60) < worse, 3.0, 0.0)
    found = verdict(Evidence(
        NOISE, ALL, NOISE + 1,
        challenger_costs=Costs(losses=losses), champion_costs=Costs(losses=ALL * 0.0),
    ))  # fmt: skip
    assert found.regret > found.champion_regret + 0.02
    assert found.promote == is_promoted


def test_what_costs_alike_or_is_unknown_decides_nothing():
    usual = Costs(latency_s=0.01, size_bytes=2e7, losses=ALL * 0.1)
    for costs in (usual, Costs()):
        evidence = Evidence(NOISE, ALL, NOISE + 1, challenger_costs=costs, champion_costs=usual)
        assert verdict(evidence).promote


def test_a_challenger_that_covers_more_than_the_champion_is_not_refused_for_covering_little():
    half, none = np.arange(60) % 2 == 0, np.zeros(60, dtype=bool)
    assert verdict(Evidence(NOISE, half, NOISE + 1, champion_covered=none)).promote
    found = verdict(Evidence(NOISE, half, NOISE + 1, champion_covered=ALL))
    assert found.reason == "coverage 0.50 on 60 groups is below 0.75"


def test_a_batch_of_one_users_jobs_is_one_piece_of_evidence_for_a_part():
    users = np.where(np.arange(60) < 30, "ada", "bob")
    groups = np.where(users == "bob", "one batch", np.arange(60).astype(np.str_))
    covered = users == "ada"
    found = verdict(Evidence(NOISE, covered, NOISE + 1, groups=groups, parts={"user": users}),
                    GateRules(coverage_floor=0.5))  # fmt: skip
    assert found.promote, found.reason
