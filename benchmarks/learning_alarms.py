"""How often drift is cried where nothing changes, and how soon where something does.

Errors, coverage and speed are those of DRAC's own jobs as a model that was trained on the first
days answered them, of real users at real times. Stationary is what they become when they are put
in another order: nothing then depends on time, whatever their distribution.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.learning_world import DAY_S, Drifts, World, made_world
from data.jobs_frame import jobs_frame
from pipelines.retraining.observations import family_of, gpu_model_of
from pipelines.retraining.speeds import relative_times
from pipelines.retraining.watch import Drift, Observations, WatchRules, drifts
from pipelines.runtime.rows import job_rows

MONTH_S = 30 * DAY_S
PLANTED_DAY, KNOWN_DAY = 30.0, 10.0
"""What finished before the tenth day is known; drift is looked for from there on."""

NEVER = float("inf")
PLANS = {
    "a driver that slows one GPU model by 15 %": {"slow_driver": PLANTED_DAY},
    "a new GPU model": {"new_gpu_model": PLANTED_DAY},
    "a new family becomes dominant": {"new_family": PLANTED_DAY},
    "a third of the users halve their jobs": {"halving_users": PLANTED_DAY},
}
NOTHING = Drifts(NEVER, NEVER, NEVER, NEVER, NEVER, NEVER)


def planted_delays(folder: Path) -> dict[str, tuple[float, str]]:
    """Return days from each planted drift to the first alarm since, and its stream.

    The errors are those of the anchor that runtime models start from, which needs no training.
    """
    found = {}
    for name, plan in PLANS.items():
        world = made_world(folder, replace(NOTHING, **plan))
        late = [
            ((moment - world.start_time) / DAY_S - PLANTED_DAY, drift.stream)
            for moment, drift in _alarms_of(world)
            if moment >= world.start_time + PLANTED_DAY * DAY_S
        ]
        found[name] = min(late, default=(NEVER, "none"))
    return found


def alarms_without_drift(folder: Path) -> list[str]:
    """Return the streams that raise an alarm in sixty days in which nothing was planted."""
    return [drift.stream for _, drift in _alarms_of(made_world(folder, NOTHING))]


def _alarms_of(world: World) -> list[tuple[float, Drift]]:
    finish = np.array([job.finish_time for job in world.jobs])
    rows = _observed(world, finish)
    return [(float(finish[drift.sequence]), drift) for drift in drifts(rows)]


def _observed(world: World, finish: np.ndarray) -> Observations:
    jobs = world.jobs
    start_time = world.start_time + KNOWN_DAY * DAY_S
    at_start = job_rows(jobs_frame(jobs)).at_start
    slower = relative_times(jobs)
    known = {(family_of(job), gpu_model_of(job)) for job in jobs if job.finish_time < start_time}
    families, models = ({pair[side] for pair in known} for side in (0, 1))
    unseen = [
        float(family_of(job) not in families or gpu_model_of(job) not in models)
        if job.structure
        else np.nan
        for job in jobs
    ]
    labels = {
        "user": np.array([job.user for job in jobs], dtype=np.str_),
        "gpu_model": np.array([gpu_model_of(job) for job in jobs], dtype=np.str_),
    }
    batches = np.array([f"{j.user} {j.job_key} {j.submit_time // 60}" for j in jobs], dtype=np.str_)
    error = np.abs(at_start.runtime_log - at_start.features["anchor_log"].to_numpy(np.float64))
    signals = {"error": error, "slower": slower, "faster": -slower, "input": np.array(unseen)}
    rows = Observations(np.arange(len(jobs)), finish, signals, labels, batches)
    return rows.where(finish >= start_time)


def stationary(rows: Observations, seed: int) -> Observations:
    """Return the same observations with everything but the moments in another order."""
    order = np.random.default_rng(seed).permutation(len(rows))
    return replace(
        rows,
        signals={name: values[order] for name, values in rows.signals.items()},
        labels={name: values[order] for name, values in rows.labels.items()},
    )


def alarms_a_month(rows: Observations, repeats: int, rules: WatchRules | None = None) -> float:
    """Return the mean number of first alarms a month over reordered copies of `rows`."""
    months = float(np.ptp(rows.finish_time)) / MONTH_S
    merged = rows.merged()
    found = [bool(drifts(stationary(merged, seed), rules)) for seed in range(repeats)]
    return float(np.mean(found)) / months
