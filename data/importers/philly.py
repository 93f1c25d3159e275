"""The Philly trace by virtual cluster, as flattened for the simulator of Sia.

Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads",
ATC 2019; ``philly.csv`` of Jayaram Subramanya et al., "Sia", SOSP 2023.
"""

from pathlib import Path

import pandas as pd

from data.importers.locating import expected, located
from data.importers.source import SourceTable
from data.schemas import JOBS, checked

FILES = ("philly_vc.csv.gz", "philly_vc.csv", "philly.csv")
COLUMNS = ("timestamp", "duration", "num_gpus", "gpu_time", "cluster")


def recognises(path: Path) -> bool:
    """Whether `path` is such a file, whatever its name, or a directory that holds one."""
    return located(path, FILES, COLUMNS) is not None


def read(path: Path) -> dict[str, pd.DataFrame]:
    """Return the jobs of Philly, in the file's order, which is not that of time.

    Parameters
    ----------
    path : Path
        The csv file, whatever its name, or its directory.

    Returns
    -------
    dict with ``jobs``
        The virtual cluster is both queue and user: the file names no users. It holds neither
        starts nor outcomes: ``start_time`` is the *submission*, as if nobody had waited,
        ``finish_time`` follows from the duration, and every outcome reads ``ok``. Times carry
        no zone and are read as UTC. Rows that repeat are kept, under ids of their own.

    Raises
    ------
    TableError
        A column is missing, or a value is missing, out of range or in another unit: GPU time
        must be duration times GPUs.
    """
    source = SourceTable.read(expected(path, FILES, COLUMNS), COLUMNS, ["cluster"])
    runtime, gpus = source.number("duration", 0), source.whole("num_gpus", 0)
    gpu_time = source.number("gpu_time", 0)
    off = (gpu_time - runtime * gpus).abs() > 1
    source.refuse(off, "gpu_time", "duration (s) x num_gpus")
    submitted = source.moment("timestamp")
    cluster = source.text("cluster")
    jobs = pd.DataFrame(
        {
            "job_id": [f"philly-{row}" for row in range(1, len(runtime) + 1)],
            "attempt": 0,
            "user": cluster,
            "queue": cluster,
            "gpus": gpus,
            "submit_time": submitted,
            "start_time": submitted,
            "finish_time": submitted + runtime,
            "runtime_s": runtime,
            "outcome": "ok",
        }
    )
    return {"jobs": checked(jobs, JOBS, source.name)}
