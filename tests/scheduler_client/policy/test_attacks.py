"""Neither of the two ways to monopolise a cluster that the d.run article names works here.

One user raises priorities, or submits as many jobs as possible; over time every user's part of
the GPU time stays within 5 % of what it is entitled to.
"""

from collections.abc import Callable
from itertools import count

import pytest

from data.domain import Estimate, Source
from scheduler_client.clusters import Launch
from scheduler_client.memory_cluster import InMemoryCluster
from scheduler_client.policy.card_classes import card_classes
from scheduler_client.policy.decide import PolicyRules
from scheduler_client.policy.decisions import Level
from scheduler_client.policy.policies import Policy, policy_named
from scheduler_client.policy.predictions import Colocation, JobForecast
from scheduler_client.policy.usage import Usage, card_shares, held_gpus
from scheduler_client.policy.view import (
    CardState,
    ClusterView,
    PendingJob,
    Queue,
    Reservation,
    RunningJob,
)

HALF_LIFE_S = 3600.0
HORIZON_S = 15_000.0
SLOWDOWN = 1.25


class World:
    """Drives a policy over an in-memory cluster; users keep the backlog that they like."""

    def __init__(self, policy: Policy, queues: tuple[Queue, ...], cards: int) -> None:
        self.policy, self.queues = policy, queues
        empty = [CardState(f"gpu{n}", "A100", 8192, 8192) for n in range(cards)]
        self.cluster = InMemoryCluster(
            empty,
            lambda launch: self.work_s[launch.job_id],
            lambda key, others: SLOWDOWN ** len(others),
        )
        self.work_s: dict[str, float] = {}
        self.pending: dict[str, PendingJob] = {}
        self.running: dict[str, RunningJob] = {}
        self.usage = Usage(0.0)
        self.gpu_time_s: dict[str, float] = {}
        self.numbers = count()
        self.kept: tuple[Reservation, ...] = ()

    def submit(self, make: Callable[..., PendingJob], user: str, work_s: float, **fields) -> None:
        job_id = f"{next(self.numbers):06d}"
        queue = fields.pop("queue", user)
        self.work_s[job_id] = work_s
        self.pending[job_id] = make(
            job_id,
            user=user,
            queue=queue,
            gpu_mem_mib=1000,
            submit_time=self.cluster.now,
            limit_s=work_s,
            **fields,
        )

    def backlog(self, user: str) -> int:
        return sum(pending.job.user == user for pending in self.pending.values())

    def step(self) -> None:
        """Decide once, then go on to the next end of a job."""
        decision = self.policy.decide(self.view(), self.predictions())
        self.kept = decision.reservations
        for admission in decision.admissions:
            pending = self.pending.pop(admission.job_id)
            job = pending.job
            self.running[job.job_id] = RunningJob(
                job.job_id, job.user, job.queue, job.job_key, admission.card_ids, self.cluster.now
            )
            self.cluster.start(
                Launch(job.job_id, 1, job.job_key, (), admission.card_ids, admission.mem_mib)
            )
        held = held_gpus(self.cluster.cards(), self.running.values())
        before = self.cluster.now
        self.cluster.advance(self.cluster.next_end() or before + 1.0)
        for (_, user), gpus in held.items():
            spent = gpus * (self.cluster.now - before)
            self.gpu_time_s[user] = self.gpu_time_s.get(user, 0.0) + spent
        self.usage = self.usage.advanced(self.cluster.now, held, HALF_LIFE_S)
        for ended in self.cluster.poll():
            del self.running[ended.job_id]

    def view(self) -> ClusterView:
        return ClusterView(
            self.cluster.now,
            self.cluster.cards(),
            tuple(self.pending.values()),
            tuple(self.running.values()),
            self.queues,
            self.usage.gpus(HALF_LIFE_S),
            self.kept,
        )

    def predictions(self) -> dict[str, JobForecast]:
        slow = Estimate(SLOWDOWN, SLOWDOWN, SLOWDOWN, "m/1", Source.MODEL)
        keys = sorted({pending.job.job_key for pending in self.pending.values()})
        classes = card_classes(self.cluster.cards(), keys, 2)
        known = {c: Colocation(slow, (slow,) * len(c.resident_keys)) for c in classes}
        forecast = JobForecast(None, {}, known, Level.MODEL)
        return dict.fromkeys(self.pending, forecast)

    def share(self, user: str) -> float:
        return self.gpu_time_s.get(user, 0.0) / sum(self.gpu_time_s.values())


@pytest.fixture(params=[1, 2], ids=["unshared", "shared"])
def policy(request):
    """Fair share must not depend on whether cards are shared."""
    return policy_named("colocate", PolicyRules(max_jobs_per_card=request.param))


def equal_queues(*names: str, cards: int) -> tuple[Queue, ...]:
    return tuple(Queue(name, cards / len(names), "all") for name in names)


def run(world: World, arrivals: Callable[[World], None]) -> None:
    while world.cluster.now < HORIZON_S:
        arrivals(world)
        world.step()
        shares = card_shares(world.cluster.cards())
        assert sum(shares.values()) <= len(world.cluster.cards()) + 1e-9


@pytest.mark.parametrize("cards", [3, 4])
def test_priority_inflation_gains_nothing(policy, a_pending, cards):
    world = World(policy, equal_queues("mallory", "ada", cards=cards), cards)

    def arrivals(world: World) -> None:
        while world.backlog("ada") < 4:
            world.submit(a_pending, "ada", 90.0)
        while world.backlog("mallory") < 4:
            world.submit(a_pending, "mallory", 110.0, priority=1_000_000)

    run(world, arrivals)
    assert world.share("mallory") == pytest.approx(1 / 2, rel=0.05)


@pytest.mark.parametrize("cards", [3, 4])
def test_bulk_submission_gains_nothing(policy, a_pending, cards):
    world = World(policy, equal_queues("mallory", "ada", cards=cards), cards)

    def arrivals(world: World) -> None:
        while world.backlog("ada") < 4:
            world.submit(a_pending, "ada", 100.0)
        while world.backlog("mallory") < 100:
            world.submit(a_pending, "mallory", 100.0)

    run(world, arrivals)
    assert world.share("mallory") == pytest.approx(1 / 2, rel=0.05)


def test_both_attacks_within_one_queue_gain_nothing(policy, a_pending):
    world = World(policy, (Queue("everybody", 3, "all"),), 3)

    def arrivals(world: World) -> None:
        for user in ("ada", "bob"):
            while world.backlog(user) < 3:
                world.submit(a_pending, user, 100.0, queue="everybody")
        while world.backlog("mallory") < 100:
            world.submit(a_pending, "mallory", 100.0, queue="everybody", priority=1000)

    run(world, arrivals)
    assert world.share("mallory") == pytest.approx(1 / 3, rel=0.05)


def test_many_small_jobs_gain_nothing_against_few_long_ones(policy, a_pending):
    world = World(policy, equal_queues("mallory", "ada", cards=4), 4)

    def arrivals(world: World) -> None:
        while world.backlog("ada") < 3:
            world.submit(a_pending, "ada", 1000.0)
        while world.backlog("mallory") < 60:
            world.submit(a_pending, "mallory", 50.0)

    run(world, arrivals)
    assert world.share("mallory") == pytest.approx(1 / 2, rel=0.05)


def test_entitlements_are_kept_in_proportion(policy, a_pending):
    queues = (Queue("mallory", 1, "all"), Queue("ada", 3, "all"))
    world = World(policy, queues, 4)

    def arrivals(world: World) -> None:
        while world.backlog("ada") < 6:
            world.submit(a_pending, "ada", 100.0)
        while world.backlog("mallory") < 40:
            world.submit(a_pending, "mallory", 100.0, priority=1000)

    run(world, arrivals)
    assert world.share("mallory") == pytest.approx(1 / 4, rel=0.05)


def test_an_idle_entitlement_is_lent_and_comes_back(policy, a_pending):
    world = World(policy, equal_queues("mallory", "ada", cards=4), 4)

    def arrivals(world: World) -> None:
        while world.backlog("mallory") < 20:
            world.submit(a_pending, "mallory", 100.0)
        while world.cluster.now > HORIZON_S / 2 and world.backlog("ada") < 5:
            world.submit(a_pending, "ada", 100.0)

    run(world, arrivals)
    assert world.share("mallory") > 0.55
    assert world.gpu_time_s["ada"] > 0.95 * 2 * HORIZON_S / 2
