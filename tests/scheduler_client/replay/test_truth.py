"""What two workloads do to each other, from measured pairs."""

import numpy as np
import pytest

from data.errors import TableError
from scheduler_client.replay.truth import MeasuredPairs, slowdown_matrix


def test_unmeasured_pair_runs_at_the_worst_of_either_and_is_never_free():
    slowdown, is_measured = slowdown_matrix(3, MeasuredPairs([0, 1, 2], [1, 0, 2], [1.2, 1.4, 1.1]))
    assert slowdown[0, 2] == slowdown[2, 0] == 1.2
    assert slowdown[1, 2] == slowdown[2, 1] == 1.4
    assert not is_measured[1, 2]


def test_workload_without_any_measured_pair_gets_the_worst_of_all():
    slowdown, _ = slowdown_matrix(3, MeasuredPairs([0, 1], [1, 0], [1.0, 1.6]))
    assert (slowdown[2] == 1.6).all()
    assert (slowdown[:, 2] == 1.6).all()


def test_sharing_speeds_nobody_up():
    slowdown, _ = slowdown_matrix(2, MeasuredPairs([0, 1], [1, 0], [0.8, 1.5]))
    assert slowdown[0, 1] == 1.0


@pytest.mark.parametrize(
    "pairs",
    [
        MeasuredPairs([], [], []),
        MeasuredPairs([0], [5], [1.0]),
        MeasuredPairs([-1], [0], [1.0]),
        MeasuredPairs([0], [1], [0.0]),
        MeasuredPairs([0], [1], [np.nan]),
    ],
)
def test_pairs_out_of_range_are_refused(pairs):
    with pytest.raises(TableError, match="indices and slowdowns above 0"):
        slowdown_matrix(2, pairs)
