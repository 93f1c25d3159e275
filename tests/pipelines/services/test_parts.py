from data.settings import Settings
from pipelines.services.parts import Plan, telemetry


def test_telemetry_is_a_part_only_where_a_prometheus_is_named(tmp_path):
    settings = Settings.from_mapping({}, tmp_path)
    assert telemetry(settings, {}, Plan()) is None
    url = "http://127.0.0.1:9090"
    found = telemetry(settings, {"COLOCAST_PROMETHEUS_URL": url}, Plan())
    assert found.command[-3:] == ("telemetry", "pull", "--follow")
    assert found.environment["COLOCAST_PROMETHEUS_URL"] == url
