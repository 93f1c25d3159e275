"""Runs of the measured sample as finished jobs, in the order in which they were measured."""

from math import isnan

from data.domain import PROFILE_COLUMNS, FinishedJob, Outcome, Segment
from data.sample_data import sample_runs
from pipelines.initial_tables import sample_structures
from pipelines.retraining.finished_jobs import FinishedJobs


def divided(together, alone, known_together):
    """Return older runs of the sample, and its newest ones as jobs of a log.

    `together` colocated and `alone` exclusive runs become jobs. All other exclusive runs, but
    only `known_together` colocated ones, are the older runs: training takes long with all.
    """
    runs = sample_runs().sort_values("start_time").reset_index(drop=True)
    is_alone = runs["neighbour_key"].isna()
    recent = runs.loc[[*runs[~is_alone].tail(together).index, *runs[is_alone].tail(alone).index]]
    others = runs.drop(recent.index)
    older = others.drop(others[others["neighbour_key"].notna()].index[:-known_together])
    structures = sample_structures()
    jobs = [_job(row, structures.get(row["job_key"])) for _, row in recent.sort_index().iterrows()]
    return older, FinishedJobs("log", list(range(1, len(jobs) + 1)), jobs)


def _job(run, structure):
    neighbour = run["neighbour_key"]
    alone = not isinstance(neighbour, str)
    start, finish = run["start_time"], run["start_time"] + run["jct_s"]
    segment = Segment(start, finish, "cpu0", run["gpu_model"], () if alone else (neighbour,))
    measured = {name: run[name] for name in PROFILE_COLUMNS if not isnan(run[name])}
    facts = ("ada", "q", run["job_key"], 1, start, start, finish, Outcome(run["outcome"]))
    return FinishedJob(
        run["run_id"], 1, *facts, segments=(segment,), structure=structure,
        signals=measured if alone else {},
    )  # fmt: skip
