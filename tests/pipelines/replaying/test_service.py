"""What queues got over time, against spans counted by hand."""

import pandas as pd
import pytest

from pipelines.replaying.reclaim import reclaim_waits_s
from pipelines.replaying.service import service_of

COLUMNS = [
    *("job_id", "attempt", "event", "time_s", "node", "gpu", "neighbour", "slowdown"),
    *("queue", "gpus"),
]
QUEUES, QUOTAS = ("x", "y"), (1, 1)


def log(*rows):
    return pd.DataFrame(rows, columns=COLUMNS)


SHARED = log(
    ("a", 1, "submit", 0.0, -1, -1, "", 1.0, "x", 1),
    ("a", 1, "start", 0.0, 0, 0, "", 1.0, "x", 1),
    ("b", 1, "submit", 10.0, -1, -1, "", 1.0, "y", 1),
    ("b", 1, "start", 10.0, 0, 0, "a", 2.0, "y", 1),
    ("a", 1, "change", 10.0, 0, 0, "b", 1.25, "x", 1),
    ("a", 1, "finish", 20.0, 0, 0, "b", 1.25, "x", 1),
    ("b", 1, "change", 20.0, 0, 0, "", 1.0, "y", 1),
    ("b", 1, "finish", 40.0, 0, 0, "", 1.0, "y", 1),
)


def test_queue_gets_less_of_a_card_while_a_neighbour_slows_it():
    service = service_of(SHARED, QUEUES, QUOTAS, times=4)
    assert service.edges_s.tolist() == [0, 10, 20, 30, 40]
    assert service.got[:, 0].tolist() == pytest.approx([1, 0.8, 0, 0])
    assert service.got[:, 1].tolist() == pytest.approx([0, 0.5, 1, 1])
    assert service.asked[:, 1].tolist() == pytest.approx([0, 1, 1, 1])


def test_shortfall_counts_what_was_missing_up_to_the_nominal_quota():
    service = service_of(SHARED, QUEUES, (1, 0), times=4)
    assert service.entitled[:, 1].tolist() == [0, 0, 0, 0]
    assert service.shortfall_share == pytest.approx(0.2 / 2)
    assert service.jain == pytest.approx(1.0)


def test_jain_index_falls_where_one_queue_gets_less_of_its_entitlement():
    service = service_of(SHARED, QUEUES, QUOTAS, times=4)
    uneven = 1.3**2 / (2 * (0.8**2 + 0.5**2))
    assert service.jain == pytest.approx((1 + uneven + 1 + 1) / 4)


def test_queue_below_its_quota_waits_until_its_gang_starts():
    rows = log(
        ("a", 1, "submit", 0.0, -1, -1, "", 1.0, "x", 1),
        ("a", 1, "start", 0.0, 0, 0, "", 1.0, "x", 1),
        ("b", 1, "submit", 10.0, -1, -1, "", 1.0, "y", 1),
        ("a", 1, "preempt", 25.0, 0, 0, "", 1.0, "x", 1),
        ("b", 1, "start", 25.0, 0, 0, "", 1.0, "y", 1),
        ("b", 1, "finish", 40.0, 0, 0, "", 1.0, "y", 1),
        ("a", 2, "start", 40.0, 0, 0, "", 1.0, "x", 1),
        ("a", 2, "finish", 50.0, 0, 0, "", 1.0, "x", 1),
    )
    assert sorted(reclaim_waits_s(rows, QUEUES, QUOTAS)) == [15.0, 15.0]
    assert reclaim_waits_s(rows, QUEUES, (1, 0)).tolist() == [15.0]


def test_gang_beyond_what_is_left_of_the_quota_does_not_count_as_waiting():
    rows = log(
        ("a", 1, "submit", 0.0, -1, -1, "", 1.0, "x", 1),
        ("a", 1, "start", 0.0, 0, 0, "", 1.0, "x", 1),
        ("b", 1, "submit", 10.0, -1, -1, "", 1.0, "x", 2),
        ("a", 1, "finish", 20.0, 0, 0, "", 1.0, "x", 1),
        ("b", 1, "start", 23.0, 0, 0, "", 1.0, "x", 2),
        ("b", 1, "start", 23.0, 0, 1, "", 1.0, "x", 2),
        ("b", 1, "finish", 40.0, 0, 0, "", 1.0, "x", 2),
    )
    assert reclaim_waits_s(rows, ("x",), (2,)).tolist() == [3.0]
