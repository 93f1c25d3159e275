"""Where things are: one frozen value, read from the environment at the edge."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from data.errors import SettingError


@dataclass(frozen=True, slots=True)
class Settings:
    """Folders, addresses and ports of one installation.

    Attributes
    ----------
    home : Path
        Everything that colocast writes lies under here (``COLOCAST_HOME``, default
        ``.colocast`` in the working directory).
    tracking_uri, joblog_url : str
        MLflow and the job log (``MLFLOW_TRACKING_URI``, ``COLOCAST_JOBLOG_URL``); SQLite files
        under `home` by default.
    mlflow_port, service_port, scheduler_port : int
        Ports on loopback that ``colocast up`` uses.
    """

    home: Path
    tracking_uri: str
    joblog_url: str
    mlflow_port: int = 5000
    service_port: int = 3000
    scheduler_port: int = 3001

    @property
    def service_url(self) -> str:
        """The prediction service's address."""
        return f"http://127.0.0.1:{self.service_port}"

    @property
    def spool_path(self) -> Path:
        """SQLite file of submitted jobs that the scheduler has not finished."""
        return self.home / "spool.db"

    @property
    def retrain_path(self) -> Path:
        """The retrainer's position in the job log, and its counts."""
        return self.home / "retrain.json"

    @property
    def cache_path(self) -> Path:
        """The service's local copies of champions, by digest."""
        return self.home / "model-cache"

    @property
    def imports_path(self) -> Path:
        """Tables written by ``colocast import``: ``<kind>/<table>.parquet``."""
        return self.home / "imports"

    @property
    def artifacts_path(self) -> Path:
        """MLflow's artifacts."""
        return self.home / "mlartifacts"

    @classmethod
    def from_mapping(cls, environ: Mapping[str, str], working_directory: Path) -> "Settings":
        """Return the settings that an environment asks for.

        Raises
        ------
        SettingError
            If a port is not a whole number in [1, 65535].

        Examples
        --------
        >>> settings = Settings.from_mapping({"COLOCAST_SERVICE_PORT": "3100"}, Path("/srv"))
        >>> settings.service_url, settings.tracking_uri
        ('http://127.0.0.1:3100', 'sqlite:////srv/.colocast/mlflow.db')
        """
        home = Path(environ.get("COLOCAST_HOME", working_directory / ".colocast")).absolute()
        return cls(
            home=home,
            tracking_uri=environ.get("MLFLOW_TRACKING_URI", f"sqlite:///{home / 'mlflow.db'}"),
            joblog_url=environ.get("COLOCAST_JOBLOG_URL", f"sqlite:///{home / 'joblog.db'}"),
            mlflow_port=_port(environ, "COLOCAST_MLFLOW_PORT", 5000),
            service_port=_port(environ, "COLOCAST_SERVICE_PORT", 3000),
            scheduler_port=_port(environ, "COLOCAST_SCHEDULER_PORT", 3001),
        )


def _port(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, str(default))
    if not text.isdigit() or not 1 <= int(text) <= 65535:
        raise SettingError(f"{name} must be a port in [1, 65535], got {text!r}")
    return int(text)
