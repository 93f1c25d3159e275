"""Pairs answered from arrays equal those that are answered from tables."""

from dataclasses import astuple, replace

import numpy as np
import pandas as pd
import pytest

from data.sample_data import sample_runs
from features.profiles import profiles as profiles_of
from pipelines.interference.fit import ForestOptions, InterferenceData, uncalibrated_bundle
from pipelines.labelling.audit import audited
from serving.inference.bundle import Calibration
from serving.inference.estimates import estimates_from
from serving.inference.interference import slowdown_estimates
from serving.inference.known_jobs import KnownJobs
from serving.inference.slowdowns import Slowdowns
from tests.serving.conftest import interference_bundle

NEW = "recommender"
COLUMNS = ["job_key", "neighbour_key", "gpu_model"]


@pytest.fixture(scope="module")
def taught():
    """A model with effects that has never met one of the families."""
    labels = audited(sample_runs()).labels
    learnt = labels[(labels["family"] != NEW) & (labels["neighbour_family"] != NEW)]
    data = InterferenceData(learnt, profiles_of(sample_runs()), 0.9)
    bundle = uncalibrated_bundle(data, ForestOptions(trees=10), seed=0)
    widths = {"pair": (-0.1, 0.2), "family": (-0.3, 0.6), "pair/cpu": (-0.05, 0.1)}
    widths |= {"pair/cpu of mlp": (-0.01, 0.02)}
    calibration = Calibration(0.9, (-0.4, 0.8), widths, outside=2.0)
    return replace(bundle, spec=replace(bundle.spec, calibration=calibration))


def all_pairs(bundle):
    known = bundle.tables["profiles"][["job_key", "gpu_model"]]
    both = known.merge(known.rename(columns={"job_key": "neighbour_key"}), on="gpu_model")
    return [tuple(row) for row in both[COLUMNS].itertuples(index=False)]


def same(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        assert astuple(one)[3:] == astuple(other)[3:]
        assert astuple(one)[:3] == pytest.approx(astuple(other)[:3], abs=1e-9)


def test_pairs_of_old_and_new_families_are_answered_alike(taught):
    pairs = all_pairs(taught)
    wanted = slowdown_estimates(taught, pd.DataFrame(pairs, columns=COLUMNS))
    same(KnownJobs(taught).estimates(pairs), estimates_from(wanted, taught.version))


def test_pairs_on_a_gpu_model_that_is_new_are_answered_alike(taught):
    table = taught.tables["profiles"]
    both = pd.concat([table, table.assign(gpu_model="h100")], ignore_index=True)
    moved = replace(taught, tables={**taught.tables, "profiles": both})
    pairs = all_pairs(moved)
    wanted = slowdown_estimates(moved, pd.DataFrame(pairs, columns=COLUMNS))
    assert not wanted["in_domain"][[model == "h100" for *_, model in pairs]].any()
    same(KnownJobs(moved).estimates(pairs), estimates_from(wanted, moved.version))


def test_model_without_effects_is_answered_alike(profiles, pairs):
    bundle = interference_bundle(profiles, pairs, 0.0)
    asked = all_pairs(bundle)
    wanted = slowdown_estimates(bundle, pd.DataFrame(asked, columns=COLUMNS))
    same(KnownJobs(bundle).estimates(asked), estimates_from(wanted, bundle.version))


def test_more_pairs_than_are_done_at_once_keep_their_order(taught, monkeypatch):
    monkeypatch.setattr("serving.inference.known_jobs.AT_ONCE", 7)
    pairs = all_pairs(taught)[:20]
    known = KnownJobs(taught)
    same(known.estimates(pairs), [known.estimates([pair])[0] for pair in pairs])


def test_known_and_unknown_jobs_may_be_asked_together(taught):
    model, known = Slowdowns(taught), all_pairs(taught)[:3]
    asked = [known[0], ("nobody", *known[0][1:]), known[1], known[0], (*known[2][:2], "k80")]
    found = model.estimates(asked)
    wanted = slowdown_estimates(taught, pd.DataFrame(asked, columns=COLUMNS))
    same(found, estimates_from(wanted, taught.version))
    assert found[0] is found[3]


def test_no_profile_at_all_is_no_error(taught):
    empty = taught.tables["profiles"].head(0)
    nobody = replace(taught, tables={**taught.tables, "profiles": empty})
    (estimate,) = Slowdowns(nobody).estimates([("a", "b", "c")])
    assert estimate.source == "cold_start"
    assert np.isfinite(estimate.upper)
