import pytest

from data.errors import SettingError
from serving.profile_env import (
    checked_workers,
    poll_interval_s,
    serving_environment,
    token_path,
)


def test_environment_turns_off_what_costs(settings):
    environ = serving_environment({}, settings, 2, 3000)
    assert environ["OTEL_SDK_DISABLED"] == "true"
    assert environ["BENTOML_DO_NOT_TRACK"] == "true"  # "1" is ignored
    assert environ["COLOCAST_WORKERS"] == "2"


def test_environment_spells_out_the_folders(settings):
    environ = serving_environment({"PATH": "/bin"}, settings, 1, 3000)
    assert environ["COLOCAST_HOME"] == str(settings.home)
    assert environ["MLFLOW_TRACKING_URI"] == settings.tracking_uri
    assert environ["PATH"] == "/bin"


def test_two_services_of_one_home_keep_their_metrics_apart(settings):
    homes = {serving_environment({}, settings, 1, port)["BENTOML_HOME"] for port in (1, 2)}
    assert len(homes) == 2


def test_what_the_caller_says_stands(settings):
    environ = serving_environment({"OMP_NUM_THREADS": "4"}, settings, 1, 3000)
    assert environ["OMP_NUM_THREADS"] == "4"


@pytest.mark.parametrize("text", ["0", "-1", "two", "65", "1.5", ""])
def test_strange_number_of_workers_is_refused(text):
    with pytest.raises(SettingError, match="COLOCAST_WORKERS must be"):
        checked_workers(text)


@pytest.mark.parametrize("text", ["0", "x", "nan", "1e9", "-1"])
def test_strange_interval_is_refused(text):
    with pytest.raises(SettingError, match="COLOCAST_POLL_S must be"):
        poll_interval_s({"COLOCAST_POLL_S": text})


def test_token_file_is_optional(tmp_path):
    assert token_path({}) is None
    assert token_path({"COLOCAST_TOKEN_FILE": str(tmp_path)}) == tmp_path
