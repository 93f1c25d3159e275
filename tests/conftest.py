"""Fixtures that every folder's tests share."""

import shutil
from pathlib import Path

import pytest

from data.settings import Settings


@pytest.fixture(scope="session")
def mlflow_template(tmp_path_factory) -> Path:
    """Build one migrated MLflow database; copying it is a hundred times quicker."""
    import mlflow

    path = tmp_path_factory.mktemp("mlflow") / "template.db"
    mlflow.MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def settings(tmp_path, mlflow_template) -> Settings:
    """Settings of an empty installation with a ready MLflow database."""
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(mlflow_template, home / "mlflow.db")
    return Settings.from_mapping({"COLOCAST_HOME": str(home)}, tmp_path)


@pytest.fixture(scope="session")
def public_data() -> Path:
    """The folder of public data beside the checkout; skips where it is absent."""
    path = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not path.is_dir():
        pytest.skip(f"no public data at {path.name}/: these sets are not distributed with colocast")
    return path
