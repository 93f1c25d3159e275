from benchmarks.serving_registry import NAME, FolderRegistry
from serving.champions.files import bundle_digest
from serving.champions.rest import RestChampions


def test_service_reads_it_as_it_reads_mlflow(versions, tmp_path):
    with FolderRegistry(versions["1"], versions["2"]) as registry:
        champions = RestChampions(registry.url, {}, [versions["1"].parent])
        assert champions.numbers() == {NAME: "1"}
        registry.champion = 2
        assert champions.numbers() == {NAME: "2"}
        assert champions.facts(NAME, "2").digest == bundle_digest(versions["2"])
        (tmp_path / "copy").mkdir()
        champions.fetch(NAME, "2", tmp_path / "copy")
    assert bundle_digest(tmp_path / "copy") == bundle_digest(versions["2"])
