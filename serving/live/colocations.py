"""Colocated runs of finished jobs: how much they slowed down beside whom, known at once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pandas as pd

from data.domain import FinishedJob, Outcome
from features.exposure import Exposure, exposure, lone_neighbour
from serving.inference.bundle import Bundle

MOST_PAIRS = 2_000  # ordered; what adapting costs grows with its cube
KEPT_RUNS = 16  # a pair; medians hardly move beyond
LARGEST_SLOWDOWN = 100.0  # beyond, the two runs did not do the same work

PAIR = ["job_key", "neighbour_key", "gpu_model"]


@dataclass(frozen=True, slots=True)
class Colocation:
    """A run beside one neighbour."""

    job_key: str
    neighbour_key: str
    gpu_model: str
    exposure: Exposure


PairKey = tuple[str, str, str]
"""Job key, neighbour key, GPU model."""


@dataclass(slots=True)
class LiveColocations:
    """Runs of finished jobs that met exactly one neighbour.

    ``observe`` a finished job, read ``latest``, which is a new object only after an ordered pair's
    first, second, fourth, eighth, … run: what is computed from it may be kept until then.

    Attributes
    ----------
    runs : mapping of (job key, neighbour key, GPU model) to list of Colocation
    latest : tuple of Colocation
    """

    runs: dict[PairKey, list[Colocation]] = field(default_factory=dict)
    latest: tuple[Colocation, ...] = ()

    def observe(self, jobs: Iterable[FinishedJob]) -> None:
        """Remember the jobs that ended well on one GPU, beside one neighbour."""
        is_news = False
        for job in jobs:
            found = exposure(job)
            if job.outcome is not Outcome.OK or job.gpus != 1 or len(found.neighbours) != 1:
                continue
            (neighbour,) = found.neighbours
            key = (job.job_key, neighbour, found.gpu_model)
            if key not in self.runs and len(self.runs) >= MOST_PAIRS:
                continue
            runs = self.runs.setdefault(key, [])
            if len(runs) < KEPT_RUNS:
                runs.append(Colocation(*key, found))
                is_news |= len(runs).bit_count() == 1
        if is_news:
            self.latest = tuple(run for runs in self.runs.values() for run in runs)


def live_slowdowns(colocations: Sequence[Colocation], bundle: Bundle) -> pd.DataFrame:
    """Return the slowdowns of colocated runs whose job has a baseline.

    Parameters
    ----------
    colocations : sequence of Colocation
    bundle : Bundle
        Of ``colocast-interference``. The baseline is ``exclusive_jct_s`` of its table
        ``profiles``: the same job key on the same GPU model is taken to be the same work.

    Returns
    -------
    DataFrame of shape (k, 4)
        ``job_key``, ``neighbour_key``, ``gpu_model`` and ``slowdown``, at least the bundle's
        floor: what lies below is more than the noise explains, and the audit would refuse it.
    """
    profiles = bundle.tables["profiles"]
    keys = zip(profiles["job_key"], profiles["gpu_model"], strict=True)
    known_s = profiles.reindex(columns=["exclusive_jct_s"])["exclusive_jct_s"].fillna(0.0)
    baseline_s = dict(zip(keys, known_s, strict=True))
    rows = []
    for run in colocations:
        alone_s = baseline_s.get((run.job_key, run.gpu_model), 0.0)
        one = lone_neighbour(run.exposure, alone_s) if alone_s > 0 else None
        if one and bundle.spec.floor <= one[1] <= LARGEST_SLOWDOWN:
            rows.append((run.job_key, run.neighbour_key, run.gpu_model, one[1]))
    return pd.DataFrame(rows, columns=[*PAIR, "slowdown"])
