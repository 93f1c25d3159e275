from dataclasses import replace

import pytest

from data.errors import BadModelError
from data.sample_data import sample_runs
from pipelines.labelling.from_runs import jobs_from_runs
from pipelines.runtime.training import train_runtime
from serving.champions.rehearsal import rehearse
from tests.serving.conftest import interference_bundle
from tests.serving.structures import demand_bundle, memory_bundle


def without_column(bundle, table, column):
    tables = {**bundle.tables, table: bundle.tables[table].drop(columns=column)}
    return replace(bundle, tables=tables)


def with_feature(bundle, name):
    features = (name, *bundle.spec.features[1:])
    return replace(bundle, spec=replace(bundle.spec, features=features))


def test_versions_of_this_release_are_understood(profiles, pairs):
    for bundle in (interference_bundle(profiles, pairs, 0.0), memory_bundle(), demand_bundle()):
        rehearse(bundle)


def test_runtime_versions_of_this_release_are_understood():
    cluster, user, _, _ = train_runtime(jobs_from_runs(sample_runs()), seed=0)
    rehearse(cluster)
    rehearse(user)
    with pytest.raises(BadModelError, match="does not understand it"):
        rehearse(with_feature(user, "no_longer_built"))


def test_version_with_another_table_is_refused_with_the_next_step(profiles, pairs):
    bundle = without_column(interference_bundle(profiles, pairs, 0.0), "cold_start", "lower")
    with pytest.raises(BadModelError, match=r"does not understand it .*lower.*; train it anew"):
        rehearse(bundle)


@pytest.mark.parametrize("make", [memory_bundle, demand_bundle])
def test_version_with_a_feature_that_is_no_longer_built_is_refused(make):
    with pytest.raises(BadModelError, match="no_longer_built"):
        rehearse(with_feature(make(), "no_longer_built"))


def test_demand_without_its_signals_is_refused():
    bundle = replace(demand_bundle(), tables={})
    with pytest.raises(BadModelError, match="signals"):
        rehearse(bundle)
