import socket
import urllib.error
import urllib.request

import pytest

from data.errors import ServiceStartError
from scheduler_client.loop import Cycle
from scheduler_client.policy.decisions import Decision, Level, Reason, Waiting
from scheduler_client.policy.explain import explanation
from scheduler_client.policy.view import ClusterView, Queue, RunningJob
from scheduler_client.status import metrics_text, status_document, status_server
from tests.ports import free_port


@pytest.fixture
def cycle(a_card) -> Cycle:
    cards = (a_card("gpu0", "gan"), a_card("gpu1"))
    running = (RunningJob("gpu0-0", "ada", 'vi"sion', "gan", ("gpu0",), 0.0),)
    queues = (Queue('vi"sion', 2.0, "all"),)
    view = ClusterView(10.0, cards, (), running, queues)
    decision = Decision((), (Waiting("7", Reason.TOLERANCE, (("tolerance", 1.5),)),))
    return Cycle(view, decision, 1, (), cards, Level.HEURISTIC)


def test_status_shows_cards_queues_and_why_jobs_wait(cycle):
    status = status_document(cycle)
    assert status["level"] == "heuristic"
    assert [len(card["jobs"]) for card in status["cards"]] == [1, 0]
    assert status["queues"][0]["held_gpus"] == 1.0
    assert status["waiting"][0]["why"].endswith("(tolerance 1.5)")


def test_metrics_are_prometheus_text(cycle):
    lines = metrics_text(cycle, 3).splitlines()
    assert "colocast_scheduler_cycles_total 3" in lines
    assert "# TYPE colocast_scheduler_cycles_total counter" in lines
    assert 'colocast_scheduler_card_jobs{card="gpu0"} 1' in lines
    assert 'colocast_scheduler_queue_held_gpus{queue="vi\\"sion"} 1' in lines
    assert 'colocast_scheduler_level{level="heuristic"} 1' in lines
    assert 'colocast_scheduler_level{level="model"} 0' in lines


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_its_sentence(reason):
    assert len(explanation(Waiting("7", reason))) > 10


def port() -> int:
    return free_port()


def status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return response.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_the_server_answers_from_the_newest_cycle(cycle):
    number = port()
    with status_server(number) as observe:
        url = f"http://127.0.0.1:{number}"
        assert status_of(f"{url}/status") == 503
        observe(cycle)
        assert status_of(f"{url}/status") == status_of(f"{url}/metrics") == 200
        assert status_of(f"{url}/other") == 404


def test_a_taken_port_is_named_with_the_next_step():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        with (
            pytest.raises(ServiceStartError, match=f"port {number} .* COLOCAST_SCHEDULER_PORT"),
            status_server(number),
        ):
            pass


def test_without_a_port_nothing_is_served(cycle):
    with status_server(None) as observe:
        observe(cycle)


def test_more_metrics_are_made_at_each_request(cycle):
    number, asked = port(), []
    with status_server(number, lambda: f"asked {len(asked)}\n") as observe:
        observe(cycle)
        for count in range(2):
            with urllib.request.urlopen(f"http://127.0.0.1:{number}/metrics", timeout=5) as page:
                assert page.read().decode().endswith(f"\nasked {count}\n")
            asked.append(count)
