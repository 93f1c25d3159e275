"""By what the runtime trees were chosen: the jobs before the first day that is reported.

    python -m benchmarks.quality_choice --jobs PATH --before 2021-05-24

Each candidate answers the jobs that had finished before that day prequentially, as in the
evaluation. Its score is how much of both targets it reaches, at submission and at the start: the
mean of R² (log) as a share of 0.45 and of the jobs within a factor of two as a share of 0.60, at
most 1 each. Nothing of a later day is read.
"""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.quality_runtime import REACH_R2, REACH_WITHIN, SEED
from data.loaders import read_any
from features.history_levels import USER_LEVELS
from features.started_jobs import STARTED_STATISTICS
from pipelines.runtime.boosting import DEFAULT_BOOSTING, Boosting
from pipelines.runtime.metrics import runtime_metrics
from pipelines.runtime.prequential import Questions, prequential_estimates
from pipelines.runtime.rows import FinishedRows, JobRows, job_rows

EVERY_S = 6 * 86_400.0
MOMENTS = ("submit_time", "start_time")
STARTED = [f"{level.name}_{name}" for level in USER_LEVELS for name in STARTED_STATISTICS]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Trees, whether they see the jobs that have started, and as of when they learn.

    Attributes
    ----------
    boosting : Boosting
    sees_running : bool
        The newest started jobs besides the finished ones; those that run by how long so far.
    learns_as_of : {"start_time", "submit_time"}
        The moment as of which each finished job is described to be learnt from.
    """

    boosting: Boosting = DEFAULT_BOOSTING
    sees_running: bool = True
    learns_as_of: str = "start_time"


LARGE = DEFAULT_BOOSTING
SMALL = replace(LARGE, leaves=8, cluster_trees=100, user_trees=120)
CANDIDATES: Mapping[str, Candidate] = {
    "31 leaves and 200 trees (shipped)": Candidate(LARGE),
    "31 leaves": Candidate(replace(SMALL, leaves=31)),
    "16 leaves": Candidate(replace(SMALL, leaves=16)),
    "8 leaves": Candidate(SMALL),
    "squared loss, 8 leaves": Candidate(replace(SMALL, loss="regression")),
    "squared loss, 31 leaves and 200 trees": Candidate(replace(LARGE, loss="regression")),
    "linear from an error of 1 on, 8 leaves": Candidate(replace(SMALL, fair_c=1.0)),
    "31 leaves and 200 trees, linear from an error of 1 on": Candidate(replace(LARGE, fair_c=1.0)),
    "8 leaves, running jobs not seen": Candidate(SMALL, sees_running=False),
    "31 leaves and 200 trees, running jobs not seen": Candidate(LARGE, sees_running=False),
    "31 leaves and 200 trees, learnt as of submission": Candidate(
        LARGE, learns_as_of="submit_time"
    ),
    "31 leaves and 200 trees, neither": Candidate(
        LARGE, sees_running=False, learns_as_of="submit_time"
    ),
}


def main() -> None:
    """Print each candidate's numbers and score, and which is best."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=Path, required=True)
    parser.add_argument("--before", required=True, help="A day (UTC), such as 2021-05-24.")
    parser.add_argument("--only", choices=CANDIDATES, action="append")
    given = parser.parse_args()
    moment = pd.Timestamp(given.before, tz="UTC").timestamp()
    scores = {}
    jobs = read_any(given.jobs)["jobs"]
    rows, asked_time = known_rows(jobs, moment)
    for name in given.only or CANDIDATES:
        found = answers(rows, asked_time, CANDIDATES[name])
        scores[name] = score(found)
        text = "; ".join(f"{r2:.3f} / {within:.3f}" for r2, within in found)
        sys.stdout.write(f"{scores[name]:.4f}  {text}  {name}\n")
        sys.stdout.flush()
    sys.stdout.write(f"best: {max(scores, key=lambda name: scores[name])}\n")


def known_rows(jobs: pd.DataFrame, moment: float) -> tuple[JobRows, dict[str, np.ndarray]]:
    """Return the jobs that had finished before a moment, and when each was asked about."""
    known = jobs[jobs["finish_time"] < moment]
    known = known.sort_values("submit_time", kind="stable").reset_index(drop=True)
    return job_rows(known), {name: known[name].to_numpy(np.float64) for name in MOMENTS}


def answers(
    rows: JobRows, asked_time: Mapping[str, np.ndarray], candidate: Candidate
) -> list[tuple[float, float]]:
    """Return R² (log) and share within a factor of two, at submission and at the start."""
    if not candidate.sees_running:
        rows = JobRows(_blind(rows.at_start), _blind(rows.at_submission))
    parts = rows.at_submission, rows.at_start
    questions = {
        name: Questions(part.features, asked_time[name])
        for name, part in zip(MOMENTS, parts, strict=True)
    }
    learnt = rows if candidate.learns_as_of == "start_time" else replace(rows, at_start=parts[0])
    found = prequential_estimates(learnt, questions, EVERY_S, SEED, boosting=candidate.boosting)
    runtime_s = np.exp(rows.at_start.runtime_log)
    metrics = [runtime_metrics(runtime_s, found[name]) for name in MOMENTS]
    return [(float(one["r2_log"] or 0), float(one["within_2x"] or 0)) for one in metrics]


def score(found: list[tuple[float, float]]) -> float:
    """Return how much of both targets is reached, in [0, 1].

    Examples
    --------
    >>> score([(0.225, 0.3), (0.9, 0.6)])
    0.75
    """
    shares = [(r2 / REACH_R2, within / REACH_WITHIN) for r2, within in found]
    return float(np.mean([min(max(share, 0.0), 1.0) for pair in shares for share in pair]))


def _blind(rows: FinishedRows) -> FinishedRows:
    """Return the rows as if no job had been seen to start."""
    unseen = {name: 0.0 if name.endswith("_started") else np.nan for name in STARTED}
    return replace(rows, features=rows.features.assign(**unseen))


if __name__ == "__main__":
    main()
