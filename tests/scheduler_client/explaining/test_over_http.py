"""The same answers over HTTP and on the command line, with the scheduler there and not there."""

import json
import urllib.request

import pytest
from click.testing import CliRunner

from data.errors import ClusterError, SettingError
from pipelines.cli import group
from scheduler_client.explaining.asking import answer_of
from scheduler_client.explaining.explainer import Explainer
from scheduler_client.loop import Cycle
from scheduler_client.policy.decide import PolicyRules
from scheduler_client.policy.policies import policy_named
from scheduler_client.policy.view import ClusterView, Queue
from scheduler_client.status import status_server
from tests.ports import free_port

POLICY = policy_named("colocate", PolicyRules())


@pytest.fixture
def port(a_card, a_pending, monkeypatch):
    """A scheduler's status with one job placed and one that waits."""
    number = free_port()
    monkeypatch.setenv("COLOCAST_SCHEDULER_PORT", str(number))
    explainer = Explainer(POLICY, lambda view, most: {})
    pending = (a_pending("1", gpu_mem_mib=10), a_pending("2", gpu_mem_mib=10, gpus=1))
    view = ClusterView(50.0, (a_card(),), pending, (), (Queue("research", 1),))
    with status_server(number, explainer=explainer) as observe:
        decision = POLICY.decide(view, {})
        observe(Cycle(view, decision, 1, (), view.cards))
        yield number


def run(*words: str):
    return CliRunner().invoke(group, words, catch_exceptions=False)


def test_why_is_answered_on_the_command_line(port):
    said = run("why", "2").output
    assert "2: waiting" in said
    assert "reason:" in said
    assert "next step:" in said
    assert json.loads(run("why", "2", "--json").output) == answer_of(port, "/why/2")


def test_explain_is_answered_on_the_command_line(port):
    assert "on gpu0, alone" in run("explain", "1").output
    found = json.loads(run("explain", "1", "--json").output)
    assert found["card_ids"] == ["gpu0"]
    assert found == answer_of(port, "/explain/1")


def test_whatif_is_answered_on_the_command_line(port):
    words = (
        "whatif",
        "--user",
        "ada",
        "--queue",
        "research",
        "--gpus",
        "3",
        "--",
        "python",
        "t.py",
    )
    assert "it will not start as things are" in run(*words).output
    found = json.loads(run(*words[:7], "--json", *words[7:]).output)
    assert found["starts_now"] is False
    question = {"user": "ada", "queue": "research", "job_key": "python t.py", "gpus": 3}
    assert found == answer_of(port, "/whatif", question)


def test_a_job_that_is_unknown_is_named(port):
    with pytest.raises(SettingError, match="found no job 'nobody'"):
        run("why", "nobody")


def test_a_question_that_describes_no_job_says_what_was_wanted(port):
    with pytest.raises(SettingError, match="gpus must be a whole number"):
        run("whatif", "--user", "ada", "--queue", "q", "--job-key", "k", "--gpus", "0")
    with pytest.raises(SettingError, match="wanted --job-key or a command"):
        run("whatif")


def test_without_a_scheduler_the_command_says_what_to_do(monkeypatch):
    monkeypatch.setenv("COLOCAST_SCHEDULER_PORT", str(free_port()))
    with pytest.raises(ClusterError, match="start it with `colocast schedule`"):
        run("why", "2")


def test_another_server_on_the_port_is_noticed(service):
    number = int(service.url.rpartition(":")[2])
    with pytest.raises((ClusterError, SettingError)):
        answer_of(number, "/why/2")


@pytest.mark.parametrize(
    ("body", "said"),
    [(b"{", "wanted a JSON object"), (b"[]", "found"), (b"{}", "user"), (b"x" * 70_000, "at most")],
)
def test_a_body_that_cannot_be_read_is_refused_with_400(port, body, said):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/whatif", body)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=5)
    with caught.value as error:
        assert error.code == 400
        assert said in error.read().decode()


def test_post_elsewhere_is_not_found(port):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/status", b"{}")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=5)
    with caught.value as error:
        assert error.code == 404
