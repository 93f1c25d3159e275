import time

import pytest

from data.domain import FinishedJob, Outcome, Resident, Source
from data.errors import (
    PredictionError,
    PredictionInvalidError,
    PredictionRefusedError,
    PredictionTimeoutError,
    PredictionUnavailableError,
    SettingError,
)
from scheduler_client.forecast.breaker import BreakerRules, Circuit
from scheduler_client.forecast.client import FINISHED, PLACEMENTS, RUNTIME, PredictorClient
from scheduler_client.forecast.exchange import Exchange
from serving.web.wire_models import RuntimeRequest
from serving.web.wire_schema import Reader

NEVER_OPENS = BreakerRules(failures_to_open=1_000_000)


@pytest.fixture
def client(service):
    client = PredictorClient(service.url, deadline_s=5.0, breaker=NEVER_OPENS)
    yield client
    client.close()


@pytest.fixture
def cards(a_card):
    shared = a_card("gpu1", "gan")
    return (a_card("gpu0").as_card(), shared.as_card())


def test_placements_come_in_the_order_of_the_cards(client, a_job, cards):
    alone, beside = client.placements(a_job(), cards)
    assert (alone.card_id, beside.card_id) == ("gpu0", "gpu1")
    assert beside.job_slowdown.value == 1.2
    assert beside.job_slowdown.source is Source.MODEL
    assert len(beside.neighbour_slowdowns) == 1


def test_runtimes_come_one_for_each_job(client, a_job):
    assert [e.value for e in client.runtimes([a_job("1"), a_job("2")])] == [2.0, 2.0]


def test_running_jobs_are_told_with_the_question(client, a_job, monkeypatch):
    bodies, sent = [], Exchange.send
    monkeypatch.setattr(
        Exchange, "send", lambda self, *asked: bodies.append(asked[2]) or sent(self, *asked)
    )
    beside = a_job("2", elapsed_s=60.0)
    assert len(client.runtimes([a_job("1")], [beside])) == 1
    assert Reader(RuntimeRequest).read(bodies[0]) == RuntimeRequest((a_job("1"),), (beside,))


def test_finished_jobs_are_counted_once(client):
    job = FinishedJob("f1", 1, "ada", "q", "bert", 1, 1.0, 2.0, 3.0, Outcome.OK)
    assert client.finished([job]).accepted == 1
    assert client.finished([job]).duplicates == 1


def test_models_are_listed(client):
    assert {model.name for model in client.models()} == {"colocast-interference", "colocast-memory"}


def test_readiness_is_asked(client):
    assert client.ready() == "no explanation"


@pytest.mark.parametrize(
    ("mode", "error", "said"),
    [
        ("error500", PredictionUnavailableError, "HTTP 500: An unexpected error"),
        ("plain503", PredictionUnavailableError, "HTTP 503: Service Busy"),
        ("html502", PredictionUnavailableError, "HTTP 502: 502 Bad Gateway"),
        ("no_champion", PredictionUnavailableError, "no champion of colocast-interference"),
        ("unauthorized", PredictionUnavailableError, "HTTP 401: wanted a bearer token"),
        ("redirect", PredictionUnavailableError, "HTTP 302: no explanation"),
        ("hang_up", PredictionUnavailableError, "RemoteDisconnected"),
        ("refused", PredictionRefusedError, "job.gpus: found 0, wanted at least 1"),
        ("garbage", PredictionInvalidError, "wanted JSON"),
        ("html200", PredictionInvalidError, "wanted JSON"),
        ("empty", PredictionInvalidError, "found an empty body, wanted JSON"),
        ("deep", PredictionInvalidError, "wanted JSON"),
        ("list", PredictionInvalidError, "wanted a JSON object"),
        ("nan", PredictionInvalidError, "wanted a finite number"),
        ("infinite", PredictionInvalidError, "wanted a finite number"),
        ("negative", PredictionInvalidError, "wanted a value within its interval"),
        ("unordered", PredictionInvalidError, "wanted a value within its interval"),
        ("no_neighbours", PredictionInvalidError, "unknown fields 'x'"),
        ("unknown_field", PredictionInvalidError, "unknown fields 'surprise'"),
        ("other_card", PredictionInvalidError, "wanted one for each of 2"),
        ("text_numbers", PredictionInvalidError, "wanted a number"),
    ],
)
def test_what_is_no_usable_answer_is_an_error(client, service, a_job, cards, mode, error, said):
    service.mode(mode)
    with pytest.raises(error, match=said):
        client.placements(a_job(), cards)


@pytest.mark.parametrize("mode", ["nan", "infinite", "negative", "garbage", "text_numbers"])
def test_runtimes_that_cannot_be_are_refused(client, service, a_job, mode):
    service.mode(mode)
    with pytest.raises(PredictionInvalidError, match="wanted"):
        client.runtimes([a_job()])


@pytest.mark.parametrize("mode", ["slow", "trickle_headers", "trickle_body"])
def test_deadline_holds_however_slowly_the_answer_drips(service, a_job, cards, mode):
    client = PredictorClient(service.url, deadline_s=0.3, breaker=NEVER_OPENS)
    service.mode(mode)
    started = time.monotonic()
    with pytest.raises(PredictionTimeoutError, match="no answer in time"):
        client.placements(a_job(), cards)
    assert time.monotonic() - started < 1.0


def test_a_frozen_service_costs_the_deadline_and_no_more(mortal_service, a_job, cards):
    client = PredictorClient(mortal_service.url, deadline_s=0.3, breaker=NEVER_OPENS)
    client.placements(a_job(), cards)
    mortal_service.freeze()
    started = time.monotonic()
    with pytest.raises(PredictionTimeoutError, match="no answer in time"):
        client.placements(a_job(), cards)
    assert time.monotonic() - started < 1.0
    mortal_service.thaw()
    assert client.placements(a_job(), cards)


def test_a_connection_lost_with_the_service_is_replaced(mortal_service, a_job, cards):
    client = PredictorClient(mortal_service.url, deadline_s=5.0, breaker=NEVER_OPENS)
    client.placements(a_job(), cards)
    mortal_service.kill()
    with pytest.raises(PredictionUnavailableError, match="refused"):
        client.placements(a_job(), cards)
    mortal_service.start()
    assert client.placements(a_job(), cards)


def test_open_circuit_answers_at_once_until_a_probe_succeeds(service, a_job, cards):
    now = [0.0]
    rules = BreakerRules(failures_to_open=2, rest_s=1.0)
    client = PredictorClient(service.url, 5.0, breaker=rules, clock=lambda: now[0])
    service.mode("error500")
    for _ in range(2):
        with pytest.raises(PredictionUnavailableError, match="HTTP 500"):
            client.placements(a_job(), cards)
    assert client.circuit(PLACEMENTS) is Circuit.OPEN
    service.mode("ok")
    with pytest.raises(PredictionUnavailableError, match="left alone for"):
        client.placements(a_job(), cards)
    now[0] = 1.0
    assert client.placements(a_job(), cards)
    assert client.circuit(PLACEMENTS) is Circuit.CLOSED


def test_each_endpoint_has_its_own_circuit(service, a_job, cards):
    client = PredictorClient(service.url, 5.0, breaker=BreakerRules(failures_to_open=1))
    service.mode("error500")
    with pytest.raises(PredictionError, match="500"):
        client.placements(a_job(), cards)
    service.mode("ok")
    assert client.runtimes([a_job()])
    assert client.circuit(RUNTIME) is client.circuit(FINISHED) is Circuit.CLOSED


def test_a_refused_request_leaves_the_circuit_closed(service, a_job, cards):
    client = PredictorClient(service.url, 5.0, breaker=BreakerRules(failures_to_open=1))
    service.mode("refused")
    with pytest.raises(PredictionRefusedError, match="HTTP 400") as caught:
        client.placements(a_job(), cards)
    assert caught.value.status == 400
    assert client.circuit(PLACEMENTS) is Circuit.CLOSED


@pytest.mark.parametrize("url", ["ftp://host:1", "not a url", "http://", "http://[::1"])
def test_a_url_that_is_none_is_refused(url):
    with pytest.raises(SettingError, match="service URL"):
        PredictorClient(url)


def test_the_token_is_sent(service, a_job):
    service.mode("token")
    assert PredictorClient(service.url, 5.0, "secret").runtimes([a_job()])
    with pytest.raises(PredictionUnavailableError, match="HTTP 401"):
        PredictorClient(service.url, 5.0).runtimes([a_job()])


def test_a_path_before_the_routes_is_kept(service, a_job):
    with pytest.raises(PredictionUnavailableError, match="RemoteDisconnected"):
        PredictorClient(f"{service.url}/prefix/", 5.0).runtimes([a_job()])


def test_a_shorter_deadline_can_be_asked(service, a_job, cards):
    client = PredictorClient(service.url, deadline_s=30.0, breaker=NEVER_OPENS)
    service.mode("slow")
    with pytest.raises(PredictionTimeoutError, match="no answer in time"):
        client.placements(a_job(), cards, within_s=0.1)


def test_residents_are_asked_for_in_order(client, a_job, a_card):
    card = a_card("gpu0", "gan", "bert").as_card()
    assert card.residents == (Resident("gpu0-0", "gan"), Resident("gpu0-1", "bert"))
    (placement,) = client.placements(a_job(), [card])
    assert len(placement.neighbour_slowdowns) == 2


@pytest.mark.parametrize(("within_s", "most_ms"), [(None, 5000), (0.5, 500)])
def test_each_request_says_how_long_its_answer_is_of_use(
    client, service, a_job, cards, within_s, most_ms
):
    service.mode("deadline")
    with pytest.raises(PredictionRefusedError, match=r"left: \d+") as caught:
        client.placements(a_job(), cards, within_s=within_s)
    assert most_ms / 2 < int(str(caught.value).rsplit(" ", 1)[1]) <= most_ms


def test_a_busy_service_is_asked_again_when_it_said(client, service, a_job, cards):
    service.mode("busy_once")
    started = time.monotonic()
    assert client.placements(a_job(), cards)
    assert 1.0 <= time.monotonic() - started < 5.0


def test_a_service_that_is_busy_beyond_the_deadline_is_left_alone_at_once(service, a_job, cards):
    now = [0.0]
    client = PredictorClient(service.url, 5.0, breaker=BreakerRules(), clock=lambda: now[0])
    service.mode("busy")
    started = time.monotonic()
    with pytest.raises(PredictionUnavailableError, match="9 requests ahead") as caught:
        client.placements(a_job(), cards)
    assert time.monotonic() - started < 1.0
    assert caught.value.retry_after_s == 7.0
    service.mode("ok")
    now[0] = 6.9
    with pytest.raises(PredictionUnavailableError, match=r"left alone for 0\.1 s"):
        client.placements(a_job(), cards)
    now[0] = 7.0
    assert client.placements(a_job(), cards)


def test_credentials_in_the_address_are_never_said(a_job):
    client = PredictorClient("http://ada:pa55@127.0.0.1:9", 1.0)
    with pytest.raises(PredictionUnavailableError, match="127") as caught:
        client.runtimes([a_job()])
    assert "pa55" not in str(caught.value)
    with pytest.raises(SettingError, match="service URL") as refused:
        PredictorClient("ftp://ada:pa55@host:1")
    assert "pa55" not in str(refused.value)


def test_one_kept_connection_carries_all_requests(service, a_job, cards):
    client = PredictorClient(service.url, 5.0)
    for _ in range(20):
        client.placements(a_job(), cards)
    assert client._exchange._pool.num_connections == 1
