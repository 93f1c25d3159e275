import asyncio
import threading

import pytest

from data.errors import DeadlineError, JobLogError, OverloadedError
from serving.web.bulkhead import Bulkhead


@pytest.fixture
def gate():
    event = threading.Event()
    yield event
    event.set()


def call(bulkhead, action, within_s=5.0):
    return asyncio.run(bulkhead.call(action, within_s))


def test_answer_and_error_come_back():
    bulkhead = Bulkhead("t")
    assert call(bulkhead, lambda: 7) == 7

    def fail():
        raise JobLogError("locked")

    with pytest.raises(JobLogError, match="locked"):
        call(bulkhead, fail)
    assert bulkhead.unfinished == 0


def test_call_that_hangs_is_late_and_keeps_its_place_until_it_ends(gate):
    bulkhead = Bulkhead("t", threads=1, most_waiting=0)
    with pytest.raises(DeadlineError, match="no answer within 20 ms"):
        call(bulkhead, gate.wait, 0.02)
    with pytest.raises(OverloadedError, match="found 1 requests of this kind"):
        call(bulkhead, lambda: 1)
    gate.set()
    for _ in range(500):
        if not bulkhead.unfinished:
            break
        threading.Event().wait(0.01)
    assert call(bulkhead, lambda: 1) == 1


def test_call_whose_time_is_up_before_a_thread_is_free_never_runs(gate):
    bulkhead, ran = Bulkhead("t", threads=1, most_waiting=1), []
    with pytest.raises(DeadlineError, match="no answer"):
        call(bulkhead, gate.wait, 0.02)
    with pytest.raises(DeadlineError, match="no answer"):
        call(bulkhead, lambda: ran.append(1), 0.02)
    assert bulkhead.unfinished == 1
    gate.set()
    assert call(bulkhead, lambda: 2) == 2
    assert ran == []
