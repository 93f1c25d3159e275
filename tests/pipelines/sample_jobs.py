"""Runs of the measured sample as finished jobs, in the order in which they were measured."""

from data.domain import PROFILE_COLUMNS, FinishedJob, Outcome, Segment
from data.sample_data import sample_runs
from pipelines.finished_jobs import FinishedJobs
from pipelines.initial_tables import sample_structures


def divided(newest):
    """Return the older runs of the sample, and its `newest` ones as jobs of a log."""
    runs = sample_runs().sort_values("start_time").reset_index(drop=True)
    recent = runs.tail(newest)
    structures = sample_structures()
    jobs = [_job(row, structures.get(row["job_key"])) for _, row in recent.iterrows()]
    older = runs.head(len(runs) - newest)
    return older, FinishedJobs("log", list(range(1, newest + 1)), jobs)


def _job(run, structure):
    neighbour = run["neighbour_key"]
    alone = not isinstance(neighbour, str)
    start, finish = run["start_time"], run["start_time"] + run["jct_s"]
    segment = Segment(start, finish, "cpu0", run["gpu_model"], () if alone else (neighbour,))
    measured = {name: run[name] for name in PROFILE_COLUMNS if run[name] == run[name]}
    facts = ("ada", "q", run["job_key"], 1, start, start, finish, Outcome(run["outcome"]))
    return FinishedJob(
        run["run_id"], 1, *facts, segments=(segment,), structure=structure,
        signals=measured if alone else {},
    )  # fmt: skip
