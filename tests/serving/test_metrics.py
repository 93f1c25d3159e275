from data.domain import ServedModel
from serving.metrics import Metrics


def page(metrics):
    return metrics.page().decode()


def test_requests_are_counted_by_route_and_status():
    metrics = Metrics()
    metrics.request("/v1/slowdown", 200, 0.003)
    metrics.request("/v1/slowdown", 400, 0.001)
    wanted = 'colocast_request_seconds_bucket{le="0.005",route="/v1/slowdown",status="200"} 1.0'
    assert wanted in page(metrics)
    assert 'status="400"' in page(metrics)


def test_estimates_are_counted_by_version_and_source():
    metrics = Metrics()
    metrics.estimates("/v1/slowdown", {("colocast-interference/3", "model"): 7})
    wanted = 'model_version="colocast-interference/3",route="/v1/slowdown",source="model"} 7.0'
    assert wanted in page(metrics)


def test_models_say_what_serves_and_what_was_refused():
    metrics = Metrics()
    good = ServedModel("colocast-interference", "3", "d", 12.0)
    bad = ServedModel("colocast-memory", None, None, None, "4", "digest")
    metrics.models((good, bad), 5, registry_up=False)
    text = page(metrics)
    assert 'colocast_model_version{model="colocast-interference"} 3.0' in text
    assert 'colocast_model_version{model="colocast-memory"} 0.0' in text
    assert 'colocast_model_refused{model="colocast-memory"} 1.0' in text
    assert "colocast_model_swaps 5.0" in text
    assert "colocast_registry_up 0.0" in text


def test_sequence_of_the_job_log_is_told():
    metrics = Metrics()
    metrics.sequence(42)
    assert "colocast_job_log_sequence 42.0" in page(metrics)
