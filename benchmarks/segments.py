"""Labels from production runs whose neighbours came and went; ``make bench-segments``.

Slowdowns are planted: log-uniform in [1, 2] for each ordered pair of 12 job keys, run times off
by 3 %. Each job runs alone for a part of its work and beside one to three others, one after the
other. Compared are the labels that the audit keeps with the runs as they are, and solved together.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd

from data.domain import FinishedJob, Outcome, Segment
from data.schemas import PROFILING_RUNS, checked
from pipelines.labelling.audit import audited
from pipelines.retraining import production

KEYS, NOISE, ALONE_RUNS = 12, 0.03, 3
WORK_S = np.geomspace(300, 30_000, KEYS)
NOTHING = checked(pd.DataFrame(columns=PROFILING_RUNS.names), PROFILING_RUNS, "none")


def world(jobs: int, seed: int) -> tuple[list[FinishedJob], dict[tuple[str, str], float]]:
    """Return a log of `jobs` finished jobs, and the slowdowns that made it."""
    rng = np.random.default_rng(seed)
    truth = np.exp(rng.uniform(0, np.log(2), (KEYS, KEYS)))
    log = [_job(rng, truth, key, f"alone-{key}-{n}", 0) for key in range(KEYS) for n in range(3)]
    met = rng.integers(1, 4, jobs)
    keys = rng.integers(0, KEYS, jobs)
    log += [_job(rng, truth, keys[n], f"shared-{n}", met[n]) for n in range(jobs)]
    table = {(f"k{i}", f"k{j}"): float(truth[i, j]) for i in range(KEYS) for j in range(KEYS)}
    return log, table


def _job(
    rng: np.random.Generator, truth: np.ndarray, key: int, name: str, others: int
) -> FinishedJob:
    work = WORK_S[key] * np.exp(rng.normal(0, NOISE)) * rng.dirichlet(np.ones(others + 1))
    who = rng.choice(KEYS, others, replace=False)
    at, segments = 0.0, []
    for part, other in zip(work, [None, *who], strict=True):
        seconds = part * (1.0 if other is None else truth[key, other])
        beside = () if other is None else (f"k{other}",)
        segments.append(Segment(at, at + seconds, "g0", "card", beside))
        at += seconds
    facts = (name, 1, "ada", "q", f"k{key}", 1, 0.0, 0.0, at, Outcome.OK, tuple(segments))
    return FinishedJob(*facts)


def rows(jobs: int) -> Iterator[dict[str, object]]:
    """Yield how many labels there are and how good, runs as they are first."""
    log, truth = world(jobs, seed=jobs)
    told = production._told
    for name in ("as they are", "solved together"):
        production._told = told if name == "solved together" else lambda *_: {}
        began_s = time.perf_counter()
        try:
            labels = audited(production.production_runs(log, NOTHING)).labels
        finally:
            production._told = told
        pairs = zip(labels["job_key"], labels["neighbour_key"], strict=True)
        planted = np.array([truth[cast("tuple[str, str]", pair)] for pair in pairs])
        error = np.abs(np.log(labels["slowdown"].to_numpy() / planted))
        yield {
            "jobs": jobs,
            "runs": name,
            "labels": len(labels),
            "pairs": len(labels[["job_key", "neighbour_key"]].drop_duplicates()),
            "median_error": float(np.median(error)) if len(error) else None,
            "p95_error": float(np.quantile(error, 0.95)) if len(error) else None,
            "seconds": time.perf_counter() - began_s,
        }


def main() -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    given = parser.parse_args()
    found = [row for jobs in (100, 1_000, 10_000) for row in rows(jobs)]
    sys.stdout.write(pd.DataFrame(found).round(3).to_string(index=False) + "\n")
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
