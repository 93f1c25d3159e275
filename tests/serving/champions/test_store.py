import json
import shutil

import pytest

from data.errors import RegistryError
from serving.champions.cache import INDEX_FILE, CachedVersion, ModelCache
from serving.champions.files import bundle_digest
from serving.champions.sources import VersionFacts
from serving.champions.store import ModelStore

NAME = "colocast-interference"


@pytest.fixture
def cache(tmp_path):
    return ModelCache(tmp_path / "cache")


def store_of(champions, cache):
    return ModelStore(champions, cache, lambda bundles, previous: dict(bundles), lambda: 7.0)


def entry(store):
    return next(model for model in store.current.served() if model.name == NAME)


def version(store):
    bundle = store.current.predictor.get(NAME)
    return bundle and bundle.version


def test_champion_is_loaded_and_named(champions, cache):
    store = store_of(champions, cache)
    assert version(store) is None
    assert store.refresh() == (NAME,)
    assert version(store) == f"{NAME}/1"
    assert (entry(store).version, entry(store).loaded_time) == ("1", 7.0)


def test_nothing_is_fetched_while_the_alias_stays(champions, cache):
    store = store_of(champions, cache)
    store.refresh()
    assert store.refresh() == ()
    assert champions.fetched == ["1"]


def test_moved_alias_swaps_the_version(champions, cache):
    store = store_of(champions, cache)
    store.refresh()
    before = store.current
    champions.champions[NAME] = "2"
    assert store.refresh() == (NAME,)
    assert version(store) == f"{NAME}/2"
    assert store.current.swaps == 1
    assert before.predictor[NAME].version == f"{NAME}/1"


def test_bad_version_is_refused_and_the_old_one_stays(champions, cache):
    store = store_of(champions, cache)
    store.refresh()
    champions.champions[NAME] = "bad"
    assert store.refresh() == ()
    assert version(store) == f"{NAME}/1"
    assert entry(store).refused_version == "bad"
    assert "stored example 0" in entry(store).refused_reason


def test_bad_version_is_not_fetched_again(champions, cache):
    champions.champions[NAME] = "bad"
    store = store_of(champions, cache)
    store.refresh()
    store.refresh()
    assert champions.fetched == ["bad"]


def test_refusal_is_forgotten_when_the_alias_moves_on(champions, cache):
    champions.champions[NAME] = "bad"
    store = store_of(champions, cache)
    store.refresh()
    champions.champions[NAME] = "2"
    store.refresh()
    assert (entry(store).version, entry(store).refused_version) == ("2", None)


def test_registry_down_between_refreshes_changes_nothing(champions, cache):
    store = store_of(champions, cache)
    store.refresh()
    champions.is_down = True
    assert store.refresh() == ()
    assert version(store) == f"{NAME}/1"
    assert "refused" in store.current.registry_error


def test_registry_down_at_the_start_serves_the_last_champion(champions, cache):
    store_of(champions, cache).refresh()
    champions.is_down = True
    restarted = store_of(champions, cache)
    assert restarted.refresh() == (NAME,)
    assert version(restarted) == f"{NAME}/1"


def test_registry_that_comes_back_is_followed(champions, cache):
    store_of(champions, cache).refresh()
    champions.is_down = True
    store = store_of(champions, cache)
    store.refresh()
    champions.is_down, champions.champions[NAME] = False, "2"
    store.refresh()
    assert version(store) == f"{NAME}/2"


def test_restart_with_a_warm_cache_fetches_nothing(champions, cache):
    store_of(champions, cache).refresh()
    store_of(champions, cache).refresh()
    assert champions.fetched == ["1"]


def test_another_registry_with_the_same_number_is_fetched(champions, cache, versions):
    store_of(champions, cache).refresh()
    champions.facts = lambda name, number: VersionFacts("elsewhere", None)
    champions.versions = {"1": versions["2"]}
    store = store_of(champions, cache)
    store.refresh()
    assert champions.fetched == ["1", "1"]
    assert len([path for path in cache.directory(NAME, "x").parent.iterdir() if path.is_dir()]) == 2


def test_rollback_to_a_cached_digest_fetches_nothing(champions, cache, versions):
    champions.facts = lambda name, number: VersionFacts(number, bundle_digest(versions[number]))
    store = store_of(champions, cache)
    for number in ("1", "2", "1"):
        champions.champions[NAME] = number
        store.refresh()
    assert version(store) == f"{NAME}/1"
    assert champions.fetched == ["1", "2"]


def test_version_with_another_digest_than_registered_is_refused(champions, cache):
    champions.facts = lambda name, number: VersionFacts("x", "0" * 64)
    store = store_of(champions, cache)
    store.refresh()
    assert f"registered {'0' * 64}" in entry(store).refused_reason


def test_damaged_cache_is_fetched_again(champions, cache):
    store_of(champions, cache).refresh()
    directory = cache.directory(NAME, cache.champion(NAME).digest)
    (directory / "model.skops").write_bytes(b"half")
    store = store_of(champions, cache)
    store.refresh()
    assert version(store) == f"{NAME}/1"
    assert champions.fetched == ["1", "1"]


def test_damaged_cache_without_a_registry_is_not_served(champions, cache):
    store_of(champions, cache).refresh()
    directory = cache.directory(NAME, cache.champion(NAME).digest)
    (directory / "model.skops").write_bytes(b"half")
    champions.is_down = True
    store = store_of(champions, cache)
    assert store.refresh() == ()
    assert "damaged in the cache" in entry(store).refused_reason
    assert not directory.exists()


def test_alias_that_is_gone_keeps_the_version_and_says_so(champions, cache):
    store = store_of(champions, cache)
    store.refresh()
    champions.champions.clear()
    store.refresh()
    assert entry(store).version == "1"
    assert "alias champion is gone" in entry(store).refused_reason


def test_fetch_that_fails_is_tried_again(champions, cache, versions):
    champions.versions = {}
    store = store_of(champions, cache)
    champions.fetch = lambda *arguments: (_ for _ in ()).throw(RegistryError("cut off"))
    store.refresh()
    assert entry(store).refused_reason == "cut off"
    del champions.fetch
    champions.versions = versions
    store.refresh()
    assert (entry(store).version, entry(store).refused_reason) == ("1", None)


def test_model_under_another_name_is_refused(champions, cache):
    champions.champions = {"colocast-memory": "1"}
    store = store_of(champions, cache)
    store.refresh()
    reasons = [model.refused_reason for model in store.current.served() if model.refused_reason]
    assert reasons == [f"found a model called {NAME}, wanted colocast-memory"]


def test_nothing_half_fetched_stays_behind(champions, cache, tmp_path):
    def interrupted(name, number, directory):
        (directory / "model.skops").write_bytes(b"half")
        raise RegistryError("cut off")

    champions.fetch = interrupted
    store_of(champions, cache).refresh()
    assert list((tmp_path / "cache" / NAME).iterdir()) == []


def test_version_without_digests_is_refused(champions, cache, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "MLmodel").write_text("flavors: {}")
    champions.versions = {"1": tmp_path / "other"}
    store = store_of(champions, cache)
    store.refresh()
    assert "digests.json" in entry(store).refused_reason


def test_cache_that_cannot_be_written_is_named_with_the_next_step(champions, tmp_path):
    (tmp_path / "file").write_text("")
    store = store_of(champions, ModelCache(tmp_path / "file"))
    store.refresh()
    assert "free some disk space or move COLOCAST_HOME" in entry(store).refused_reason


@pytest.mark.parametrize("text", ["", "{", "[]", '{"number": "1"}', '{"a": 1}'])
def test_broken_index_is_no_champion(cache, tmp_path, text):
    (tmp_path / "cache" / NAME).mkdir(parents=True)
    (tmp_path / "cache" / NAME / INDEX_FILE).write_text(text)
    assert cache.champion(NAME) is None


def test_index_without_its_directory_is_no_champion(champions, cache):
    store_of(champions, cache).refresh()
    shutil.rmtree(cache.directory(NAME, cache.champion(NAME).digest))
    assert cache.champion(NAME) is None


def test_only_the_newest_versions_are_kept(cache, tmp_path):
    for number in range(6):
        path = cache.directory(NAME, f"d{number}")
        path.mkdir(parents=True)
        cache.remember(NAME, CachedVersion(str(number), "x", f"d{number}"))
    kept = {path.name for path in (tmp_path / "cache" / NAME).iterdir() if path.is_dir()}
    assert len(kept) == 3
    assert "d5" in kept
    index = json.loads((tmp_path / "cache" / NAME / INDEX_FILE).read_text())
    assert index["digest"] == "d5"
