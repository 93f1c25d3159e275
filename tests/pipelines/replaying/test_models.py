"""What replays believe of pairs: by models that have not seen them."""

import numpy as np
import pandas as pd
import pytest

from pipelines.interference.fit import ForestOptions
from pipelines.replaying.models import other_pairs
from pipelines.replaying.workloads import workloads_of

SMALL = ForestOptions(trees=6, folds=2)


@pytest.fixture
def bare_workloads(runs_of):
    """Workloads of which nothing but pairs was measured."""

    def make(count, slowest=None):
        runs = runs_of(count)
        if slowest is not None:
            pair = (runs["job_key"] == slowest[0]) & (runs["neighbour_key"] == slowest[1])
            runs.loc[pair, "steps_per_s"] /= 3
        signals = [name for name in runs if name.endswith("_mean")]
        return workloads_of(runs.drop(columns=signals), seed=0)

    return make


def test_pairs_are_predicted_by_the_workloads_other_pairs(bare_workloads):
    workloads = bare_workloads(24)
    beliefs, truth = other_pairs(workloads, 0, SMALL), workloads.truth
    assert beliefs.value.shape == truth.slowdown.shape
    error = np.abs(beliefs.value - truth.slowdown).mean()
    assert error < 0.6 * np.abs(truth.slowdown - truth.slowdown.mean()).mean()


def test_pair_is_predicted_without_having_been_seen(bare_workloads):
    names = bare_workloads(12).truth.names
    one, other = names[0], names[1]
    before, after = (other_pairs(bare_workloads(12, p), 0, SMALL) for p in (None, (one, other)))
    assert after.value[0, 1] == pytest.approx(before.value[0, 1], abs=0.02)
    changed = pd.DataFrame(np.abs(after.value - before.value))
    assert changed.to_numpy().max() > 0.02
