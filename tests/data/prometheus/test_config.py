import pytest

from data.errors import SettingError
from data.prometheus.config import DEFAULT_SIGNALS, TelemetryConfig, load_telemetry, telemetry_from


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"signals": {"sm": []}}, "t: signals must be named gpu_util.*got 'sm'"),
        ({"signals": {"sm_active": [{"unit": "MiB", "metrics": ["m"]}]}}, "unit must be of ratio"),
        ({"signals": {"sm_active": [{"unit": "ratio"}]}}, "either `metrics` or `query`"),
        (
            {"signals": {"sm_active": [{"unit": "ratio", "metrics": ["m"], "kind": "summary"}]}},
            "kind must be gauge or counter, got 'summary'",
        ),
        ({"delay": 3}, "t: TelemetryConfig: found unknown fields 'delay'"),
        ({"least_coverage": 2}, "least_coverage must be a number in"),
        ([], "t: "),
    ],
)
def test_what_has_no_meaning_is_refused_with_the_field(document, message):
    with pytest.raises(SettingError, match=message):
        telemetry_from(document, "t")


def test_a_file_replaces_what_it_names_and_leaves_the_rest(tmp_path):
    path = tmp_path / "telemetry.yaml"
    path.write_text("signals:\n  sm_active: [{unit: percent, metrics: [mine]}]\nuuid_label: uuid\n")
    config = load_telemetry(path)
    assert config.readings["sm_active"][0].metrics == ("mine",)
    assert config.readings["gpu_util"] == DEFAULT_SIGNALS["gpu_util"]
    assert config.uuid_label == "uuid"


def test_an_empty_file_is_the_default_and_a_missing_or_broken_one_an_error(tmp_path):
    path = tmp_path / "telemetry.yaml"
    path.write_text("")
    assert load_telemetry(path) == TelemetryConfig()
    path.write_text("a: [")
    with pytest.raises(SettingError, match="found no YAML"):
        load_telemetry(path)
    with pytest.raises(SettingError, match="cannot be read"):
        load_telemetry(tmp_path / "absent.yaml")
