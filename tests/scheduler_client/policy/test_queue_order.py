import pytest

from data.domain import Estimate, Source
from scheduler_client.policy.ledger import Ledger
from scheduler_client.policy.predictions import JobForecast
from scheduler_client.policy.queue_order import Ageing, FairOrder, FifoOrder
from scheduler_client.policy.view import ClusterView, Queue, RunningJob

AGEING = Ageing(step_s=600.0, cap=10)
QUEUES = (Queue("a", 2, "all"), Queue("b", 2, "all"))


def order_of(view: ClusterView, predictions=None) -> list[str]:
    order, ledger, found = FairOrder(view, predictions or {}, AGEING), Ledger(view), []
    while (pending := order.next(ledger)) is not None:
        found.append(pending.job.job_id)
    return found


def view_of(pending, now=0.0, **fields) -> ClusterView:
    return ClusterView(now, (), tuple(pending), queues=QUEUES, **fields)


def test_the_queue_that_used_less_goes_first(a_pending):
    pending = [a_pending("1", queue="a", user="ada"), a_pending("2", queue="b", user="bob")]
    history = {("a", "ada"): 1.0, ("b", "bob"): 0.5}
    assert order_of(view_of(pending, history_gpus=history)) == ["2", "1"]


def test_what_a_queue_holds_counts_like_what_it_used(a_pending, a_card):
    pending = [a_pending("1", queue="a"), a_pending("2", queue="b")]
    running = (RunningJob("gpu0-0", "ada", "a", "gan", ("gpu0",), 0.0),)
    view = ClusterView(0.0, (a_card("gpu0", "gan"),), tuple(pending), running, QUEUES)
    assert order_of(view) == ["2", "1"]


def test_in_a_queue_the_user_who_used_less_goes_first(a_pending):
    pending = [
        a_pending("1", queue="a", user="ada", priority=9),
        a_pending("2", queue="a", user="bob"),
    ]
    assert order_of(view_of(pending, history_gpus={("a", "ada"): 1.0})) == ["2", "1"]


def test_a_queue_without_quota_goes_last(a_pending):
    queues = (Queue("a", 0, "all"), Queue("b", 2, "all"))
    pending = (a_pending("1", queue="a"), a_pending("2", queue="b"), a_pending("3", queue="no"))
    assert order_of(ClusterView(0.0, (), pending, queues=queues))[0] == "2"


def test_priority_orders_the_jobs_of_a_user(a_pending):
    pending = [a_pending("1", queue="a"), a_pending("2", queue="a", priority=1)]
    assert order_of(view_of(pending)) == ["2", "1"]


def test_waiting_raises_a_job_step_by_step(a_pending):
    pending = [
        a_pending("1", queue="a", submit_time=0.0),
        a_pending("2", queue="a", submit_time=1000.0, priority=2),
    ]
    assert order_of(view_of(pending, now=1000.0)) == ["2", "1"]
    assert order_of(view_of(pending, now=1200.0)) == ["1", "2"]


def test_ageing_is_capped(a_pending):
    pending = [
        a_pending("1", queue="a", submit_time=0.0),
        a_pending("2", queue="a", submit_time=1e6, priority=11),
    ]
    assert order_of(view_of(pending, now=1e6)) == ["2", "1"]


@pytest.mark.parametrize(("runtimes", "expected"), [((60, 30), ["2", "1"]), ((30, 60), ["1", "2"])])
def test_shorter_predicted_gpu_time_goes_first(a_pending, runtimes, expected):
    pending = [a_pending("1", queue="a"), a_pending("2", queue="a")]
    predictions = {
        job_id: JobForecast(Estimate(float(s), 0.0, 1e6, "m/1", Source.MODEL))
        for job_id, s in zip(("1", "2"), runtimes, strict=True)
    }
    assert order_of(view_of(pending), predictions) == expected


def test_gpus_multiply_the_time(a_pending):
    pending = [a_pending("1", queue="a", gpus=3, limit_s=10), a_pending("2", queue="a", limit_s=20)]
    assert order_of(view_of(pending)) == ["2", "1"]


def test_what_has_run_already_is_not_owed_again(a_pending):
    pending = [
        a_pending("1", queue="a", limit_s=100, elapsed_s=90),
        a_pending("2", queue="a", limit_s=20),
    ]
    assert order_of(view_of(pending)) == ["1", "2"]


def test_unknown_runtime_goes_after_known(a_pending):
    pending = [a_pending("1", queue="a"), a_pending("2", queue="a", limit_s=1e9)]
    assert order_of(view_of(pending)) == ["2", "1"]


def test_fifo_knows_only_submission(a_pending):
    pending = (
        a_pending("1", submit_time=2.0, priority=9),
        a_pending("2", submit_time=1.0),
        a_pending("0", submit_time=2.0),
    )
    view = ClusterView(5.0, (), pending)
    order, ledger = FifoOrder(view), Ledger(view)
    found = [order.next(ledger).job.job_id for _ in pending]
    assert found == ["2", "0", "1"]
    assert order.next(ledger) is None
