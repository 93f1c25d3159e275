import pytest

from data.domain import Outcome
from data.errors import ClusterError
from scheduler_client.clusters import Launch
from scheduler_client.memory_cluster import InMemoryCluster


def launch(job_id: str, *card_ids: str, mem_mib: int = 1000, key: str = "bert") -> Launch:
    cards = card_ids or ("gpu0",)
    return Launch(job_id, 1, key, (), cards, (mem_mib,) * len(cards))


@pytest.fixture
def cluster(a_card):
    """Two cards; every job is 100 s of work, and twice as slow beside another."""
    cards = [a_card("gpu0"), a_card("gpu1")]
    return InMemoryCluster(cards, lambda job: 100.0, lambda key, others: 1.0 + len(others))


def test_alone_a_job_takes_its_work(cluster):
    cluster.start(launch("1"))
    cluster.advance(150.0)
    (run,) = cluster.poll()
    assert (run.start_time, run.finish_time, run.outcome) == (0.0, 100.0, Outcome.OK)
    assert cluster.poll() == ()


def test_neighbours_slow_each_other_down_while_both_are_there(cluster):
    cluster.start(launch("1"))
    cluster.advance(50.0)
    cluster.start(launch("2", key="gan"))
    cluster.advance(1000.0)
    first, second = cluster.poll()
    assert (first.finish_time, second.finish_time) == (150.0, 200.0)
    assert [s.neighbour_keys for s in first.segments] == [(), ("gan",)]
    assert [s.neighbour_keys for s in second.segments] == [("bert",), ()]


def test_memory_is_free_again_when_a_job_has_left(cluster):
    cluster.start(launch("1", mem_mib=8000))
    assert cluster.cards()[0].free_mem_mib == 192
    cluster.advance(100.0)
    assert cluster.cards()[0].free_mem_mib == 8192
    assert cluster.cards()[0].residents == ()


def test_a_gang_is_as_slow_as_its_worst_card(cluster):
    cluster.start(launch("1", "gpu0", "gpu1"))
    cluster.start(launch("2", "gpu1", key="gan"))
    assert cluster.next_end() == 200.0
    cluster.advance(200.0)
    gang = next(run for run in cluster.poll() if run.job_id == "1")
    assert [(s.card_id, s.neighbour_keys) for s in gang.segments] == [
        ("gpu0", ()),
        ("gpu1", ("gan",)),
    ]


def test_a_job_that_is_stopped_has_ended_as_told(cluster):
    cluster.start(launch("1"))
    cluster.advance(10.0)
    cluster.stop(["1", "unknown"], Outcome.PREEMPTED, 5.0)
    (run,) = cluster.poll()
    assert (run.outcome, run.finish_time) == (Outcome.PREEMPTED, 10.0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (launch("2", "gpu9"), "found cards 'gpu9', wanted known ones"),
        (Launch("2", 1, "k", (), (), ()), "wanted known ones"),
        (launch("2", "gpu1", "gpu1"), "found a card twice"),
        (launch("1", "gpu1"), "job 1 runs already"),
        (launch("2", mem_mib=7193), "found 7193 MiB on gpu0, wanted at most 7192"),
        (launch("2", mem_mib=-1), "found -1 MiB"),
    ],
)
def test_an_impossible_start_is_refused_and_changes_nothing(cluster, wrong, said):
    cluster.start(launch("1"))
    before = cluster.cards()
    with pytest.raises(ClusterError, match=said):
        cluster.start(wrong)
    assert cluster.cards() == before


def test_nothing_runs_in_an_empty_cluster(cluster):
    assert cluster.next_end() is None
    cluster.advance(5.0)
    assert (cluster.now, cluster.poll()) == (5.0, ())
