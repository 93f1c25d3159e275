from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_client.policy.ledger import changes_beside
from scheduler_client.policy.quota import is_guaranteed
from scheduler_client.policy.quota_book import QuotaBook
from scheduler_client.policy.view import Queue
from tests.scheduler_client.policy.plain import QuotaCheck
from tests.scheduler_client.policy.situations import examples, queue_lists


@dataclass(frozen=True)
class Check:
    book: QuotaBook
    name: str

    def allows(self, changes: dict[str, float]) -> bool:
        return self.book.allows(self.name, changes)


def check(name: str, queues: list[Queue], held: dict[str, float]) -> Check:
    return Check(QuotaBook(queues, held), name)


def test_without_a_cohort_nothing_is_borrowed():
    alone = check("a", [Queue("a", 1), Queue("b", 5)], {})
    assert alone.allows({"a": 1.0})
    assert not alone.allows({"a": 1.5})


def test_what_others_lend_is_borrowed_up_to_the_limit():
    queues = [Queue("a", 1, "all", borrowing_limit_gpus=2), Queue("b", 5, "all")]
    assert check("a", queues, {}).allows({"a": 3.0})
    assert not check("a", queues, {}).allows({"a": 3.5})


def test_what_others_use_is_not_lent():
    queues = [Queue("a", 1, "all"), Queue("b", 3, "all")]
    assert check("a", queues, {"b": 2.0}).allows({"a": 2.0})
    assert not check("a", queues, {"b": 2.0}).allows({"a": 2.5})


def test_a_lending_limit_keeps_the_rest_back():
    queues = [Queue("a", 1, "all"), Queue("b", 4, "all", lending_limit_gpus=1)]
    assert check("a", queues, {}).allows({"a": 2.0})
    assert not check("a", queues, {}).allows({"a": 2.5})
    assert check("b", queues, {"a": 2.0}).allows({"b": 3.0})


def test_cohorts_are_apart():
    queues = [Queue("a", 1, "red"), Queue("b", 9, "blue")]
    assert not check("a", queues, {}).allows({"a": 2.0})


def test_parts_that_move_within_a_full_cohort_are_allowed():
    queues = [Queue("a", 1, "all"), Queue("b", 1, "all")]
    full = check("a", queues, {"b": 2.0})
    assert full.allows({"a": 0.5, "b": -0.5})
    assert not full.allows({"a": 0.5})


def test_a_cohort_that_is_over_its_quota_by_itself_gets_no_fuller():
    queues = [Queue("a", 1, "all"), Queue("b", 1, "all")]
    over = check("a", queues, {"b": 2.5})
    assert over.allows({"a": 0.5, "b": -0.5})
    assert not over.allows({"a": 1.0, "b": -0.5})


def test_thirds_add_up():
    assert check("a", [Queue("a", 1)], {"a": 1 / 3 + 1 / 3}).allows({"a": 1 - 2 / 3})
    assert is_guaranteed(Queue("a", 1), 0.1 + 0.2 + 0.7)


NAMES = ("q0", "q1", "q2")
HELD = st.fixed_dictionaries({name: st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.5]) for name in NAMES})


@pytest.mark.parametrize("name", NAMES)
@examples(100)
@given(queues=queue_lists(), held=HELD, later=HELD)
def test_the_book_says_what_the_sums_say(name, queues, held, later):
    book = QuotaBook(queues, held)
    for queue, gpus in later.items():
        book.hold(queue, gpus)
    by_name = {queue.name: queue for queue in queues}
    plain = QuotaCheck(by_name[name], by_name, later)
    beside = book.allowed_beside(name)
    for owner in (*NAMES, ""):
        changes = changes_beside(name, [owner])
        assert beside[book.index.get(owner, -1)] == plain.allows(changes)
        assert book.allows(name, changes) == plain.allows(changes)
