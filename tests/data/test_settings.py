"""Settings from the environment."""

from pathlib import Path

import pytest

from data.errors import SettingError
from data.settings import Settings


def test_everything_lies_under_home_by_default():
    settings = Settings.from_mapping({}, Path("/srv"))
    assert settings.home == Path("/srv/.colocast")
    paths = (settings.spool_path, settings.cache_path, settings.imports_path)
    assert all(path.is_relative_to(settings.home) for path in (*paths, settings.artifacts_path))
    assert settings.joblog_url == "sqlite:////srv/.colocast/joblog.db"


def test_environment_wins():
    environ = {
        "COLOCAST_HOME": "/data",
        "MLFLOW_TRACKING_URI": "http://mlflow",
        "COLOCAST_JOBLOG_URL": "postgresql://db/jobs",
        "COLOCAST_MLFLOW_PORT": "1",
        "COLOCAST_SCHEDULER_PORT": "65535",
    }
    settings = Settings.from_mapping(environ, Path("/srv"))
    assert settings.home == Path("/data")
    assert (settings.tracking_uri, settings.joblog_url) == (
        "http://mlflow",
        "postgresql://db/jobs",
    )
    assert (settings.mlflow_port, settings.service_port, settings.scheduler_port) == (
        1,
        3000,
        65535,
    )


@pytest.mark.parametrize("port", ["0", "65536", "-1", "http", "", "3.5"])
def test_port_that_is_none_is_refused(port):
    with pytest.raises(SettingError, match=r"COLOCAST_SERVICE_PORT must be a port in \[1, 65535\]"):
        Settings.from_mapping({"COLOCAST_SERVICE_PORT": port}, Path("/srv"))
