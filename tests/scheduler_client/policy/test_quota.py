from scheduler_client.policy.quota import QuotaCheck, is_guaranteed
from scheduler_client.policy.view import Queue


def check(name: str, queues: list[Queue], held: dict[str, float]) -> QuotaCheck:
    by_name = {queue.name: queue for queue in queues}
    return QuotaCheck(by_name[name], by_name, held)


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
