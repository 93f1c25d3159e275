"""The embedded sample: runs of real programs, measured by ``colocast profile``."""

from importlib.resources import as_file, files
from pathlib import Path

import pandas as pd

from data.schemas import PROFILING_RUNS, checked
from data.tables import read_frame

FOLDER = "samples"


def sample_path() -> Path:
    """Return the folder of the sample: ``workloads.yaml``, ``programs/`` and the measured runs."""
    with as_file(files("data") / FOLDER) as folder:
        return folder


def sample_workloads_path() -> Path:
    """Return the file of the sample's commands, for `colocast profile`."""
    return sample_path() / "workloads.yaml"


def sample_runs() -> pd.DataFrame:
    """Return the measured runs of the sample programs.

    Returns
    -------
    DataFrame, ``data.schemas.PROFILING_RUNS``
        Exclusive runs of every program and both sides of every pair, on one CPU slot; how they
        were measured is told in ``README.md`` beside them.

    Raises
    ------
    TableError
        If the installation is damaged.
    """
    path = sample_path() / f"{PROFILING_RUNS.name}.csv"
    return checked(read_frame(path), PROFILING_RUNS, str(path))
