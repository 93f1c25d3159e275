import asyncio

import pytest

from data.errors import DeadlineError, OverloadedError
from serving.web import admission as admission_module
from serving.web.admission import Admission

ROUTE, SIZE = "/v1/placements", 1_000
LATE = float("inf")


class Clock:
    """Moves only while something computes."""

    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(admission_module, "perf_counter", clock)
    return clock


@pytest.fixture
def compute(clock):
    """Take so long on the event loop."""

    def taking(admission, seconds):
        start_s = clock()
        clock.now_s += seconds
        admission.done(ROUTE, SIZE, start_s)

    return taking


def known(admission, seconds):
    """Let it be known what a request takes."""
    admission._costs_s[ROUTE, SIZE.bit_length()] = seconds


@pytest.fixture
def asked(clock, compute):
    """Ask for one answer; return when it came (s)."""

    async def asking(admission, seconds=0.004, deadline_s=LATE, longest_s=1.0):
        if not admission.may_go_now():
            await admission.turn(ROUTE, SIZE, deadline_s, longest_s)
        compute(admission, seconds)
        return clock()

    return asking


async def all_of(*requests):
    return await asyncio.gather(*requests, return_exceptions=True)


def test_request_that_is_alone_goes_at_once(clock):
    assert Admission().may_go_now()


def test_short_requests_of_one_moment_need_no_turns(clock, compute):
    admission = Admission()
    for _ in range(20):
        assert admission.may_go_now()
        compute(admission, 0.00001)


@pytest.mark.parametrize(("seconds", "is_overtaken"), [(0.0001, True), (0.01, False)])
def test_only_next_to_nothing_is_overtaken(compute, seconds, is_overtaken):
    admission = Admission()

    async def run():
        compute(admission, 0.01)  # the slice is over
        known(admission, seconds)
        waiting = asyncio.create_task(admission.turn(ROUTE, SIZE, LATE, 1.0))
        await asyncio.sleep(0)
        admission._begin_slice()
        may_go = admission.may_go_now()
        await waiting
        return may_go

    assert asyncio.run(run()) == is_overtaken


def test_all_who_wait_are_answered_in_their_order(asked):
    admission, order = Admission(), []

    async def numbered(number):
        await asked(admission)
        order.append(number)

    asyncio.run(all_of(*(numbered(number) for number in range(10))))
    assert order == list(range(10))
    assert admission.ahead_s == 0.0


def test_who_would_wait_too_long_is_told_at_once(asked, compute):
    admission = Admission()
    known(admission, 0.02)
    requests = [asked(admission, 0.02, longest_s=0.05) for _ in range(12)]
    results = asyncio.run(all_of(*requests))
    refused = [result for result in results if isinstance(result, OverloadedError)]
    answered = [result for result in results if isinstance(result, float)]
    assert (len(refused), len(answered)) == (8, 4)  # one at once, three that wait
    assert "ask again later, or another replica" in str(refused[0])
    assert admission.ahead_s == 0.0


@pytest.fixture
def overload(clock, asked):
    """Four requests of 20 ms each that ask again when they are answered, for half a second."""

    async def asking_again(admission):
        while clock() < 0.5:
            await asked(admission, 0.02)

    async def running(admission):
        await all_of(*(asking_again(admission) for _ in range(4)))

    return running


def test_newcomer_waits_for_little_where_the_queue_does_not_empty(asked, overload, clock):
    admission = Admission()

    async def run():
        crowd = asyncio.create_task(overload(admission))
        while clock() < 0.2:
            await asyncio.sleep(0)
        burst = await asked(admission, 0.02, longest_s=0.1)
        while clock() < 0.4:
            await asyncio.sleep(0)
        with pytest.raises(OverloadedError):
            await asked(admission, 0.02, longest_s=0.1)
        await crowd
        return burst

    assert 0.2 < asyncio.run(run()) < 0.35


def test_overload_is_over_when_nobody_was_refused_for_the_length_of_a_burst(asked, overload, clock):
    admission = Admission()

    async def waits_after(pause_s):
        """Whether 60 ms of work ahead are waited for, so long after an overload."""
        start_s, clock.now_s = clock(), clock() + pause_s
        crowd = [asyncio.create_task(asked(admission, 0.02)) for _ in range(4)]
        await asyncio.sleep(0)
        try:
            return await asked(admission, longest_s=0.1) > start_s
        except OverloadedError:
            return False
        finally:
            await all_of(*crowd)

    async def run():
        crowd = asyncio.create_task(overload(admission))
        while clock() < 0.45:
            await asyncio.sleep(0)
        with pytest.raises(OverloadedError):
            await asked(admission, longest_s=0.05)
        await crowd
        return await waits_after(0.01), await waits_after(0.3)

    assert asyncio.run(run()) == (False, True)


def test_deadline_of_the_caller_bounds_its_wait(asked, compute, clock):
    admission = Admission()
    known(admission, 0.02)
    soon_s = clock() + 0.09
    requests = [asked(admission, 0.02, deadline_s=soon_s) for _ in range(12)]
    results = asyncio.run(all_of(*requests))
    answered = [result for result in results if isinstance(result, float)]
    assert len(answered) == 4
    assert max(answered) <= soon_s


def test_turn_that_came_too_late_is_not_used(asked, compute, clock):
    admission = Admission()
    known(admission, 0.0001)

    async def run():
        soon_s = clock() + 0.1
        slow = [asked(admission, 0.06) for _ in range(3)]
        return await all_of(*slow, asked(admission, deadline_s=soon_s))

    *_, last = asyncio.run(run())
    assert isinstance(last, DeadlineError)


def test_queue_is_bounded_in_number_too(monkeypatch, asked):
    monkeypatch.setattr(admission_module, "MOST_WAITING", 3)
    admission = Admission()
    results = asyncio.run(all_of(*(asked(admission) for _ in range(9))))
    assert sum(isinstance(result, OverloadedError) for result in results) == 5


def test_request_that_is_known_to_be_dear_may_try_where_nobody_is_ahead(compute, clock):
    admission = Admission()
    known(admission, 0.05)
    assert admission.cost_s(ROUTE, SIZE) > 0.04
    now_s = clock()

    async def run():
        await admission.turn(ROUTE, SIZE, now_s + 0.03, longest_s=0.03)

    asyncio.run(run())
    assert admission.ahead_s == 0.0


def test_estimate_follows_what_requests_of_that_size_take(asked):
    admission = Admission()
    assert admission.cost_s(ROUTE, SIZE) == admission_module.UNKNOWN_S
    asyncio.run(asked(admission, 0.01))
    assert admission.cost_s(ROUTE, SIZE) == pytest.approx(0.01)
    assert admission.cost_s(ROUTE, 100 * SIZE) == admission_module.UNKNOWN_S


def test_slice_ends_with_the_next_look_at_the_sockets(asked):
    admission = Admission()

    async def run():
        await asked(admission, 0.01)
        before = admission.may_go_now()
        await asyncio.sleep(0)
        return before, admission.may_go_now()

    assert asyncio.run(run()) == (False, True)


def test_one_that_is_cancelled_while_it_waits_lets_the_others_go_on(asked):
    admission = Admission()

    async def run():
        tasks = [asyncio.create_task(asked(admission)) for _ in range(6)]
        await asyncio.sleep(0)
        tasks[3].cancel()
        return await all_of(*tasks)

    results = asyncio.run(run())
    assert [isinstance(result, float) for result in results] == [True] * 3 + [False] + [True] * 2
    assert admission.ahead_s == 0.0


def test_newcomers_are_heard_between_two_slices(asked, compute, clock):
    """A refusal comes after the request that computes now, not after all who wait."""
    admission = Admission()
    known(admission, 0.01)

    async def run():
        crowd = [asyncio.create_task(asked(admission, 0.01)) for _ in range(20)]
        await asyncio.sleep(0)
        start_s = clock()
        with pytest.raises(OverloadedError):
            await asyncio.create_task(asked(admission, longest_s=0.001))
        refused_s = clock() - start_s
        await all_of(*crowd)
        return refused_s

    assert asyncio.run(run()) <= 0.011
