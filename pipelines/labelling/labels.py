"""Labels: how much slower each colocated run was than the same job alone."""

from typing import Literal

import pandas as pd

from data.domain import Outcome
from data.errors import MissingBaselineError
from data.schemas import LABELS, checked
from features.profiles import proven_exclusive

KEYS = ["job_key", "gpu_model"]
Measure = Literal["steps_per_s", "jct_s"]


def slowdown_labels(runs: pd.DataFrame) -> pd.DataFrame:
    """Label each colocated run with its slowdown against the same job alone.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.PROFILING_RUNS``
        Colocated runs that did not end well, or have no speed, are passed over: the audit says
        of each why it has no label.

    Returns
    -------
    DataFrame, ``data.schemas.LABELS``, in the order of `runs`
        ``slowdown`` is JCT colocated / JCT exclusive (dimensionless, 1 is none). The baseline is
        the median over the proven exclusive runs of the same job key on the same GPU model; its
        run ids, count and spread, (max - min) / median, are kept.

    Raises
    ------
    MissingBaselineError
        If a colocated job has no such run.

    Notes
    -----
    Speed is steps per second where both runs count steps, else the reciprocal of JCT: the
    inverse of the speed ratio of Hu et al., "Lucid", ASPLOS 2023. A neighbour of which no run
    is known counts as a family of its own.

    Examples
    --------
    >>> runs = pd.DataFrame({"run_id": ["1", "2", "3"], "job_key": "a", "family": "f",
    ...     "gpu_model": "v100", "neighbour_key": [None, None, "b"], "outcome": "ok",
    ...     "is_exclusive": [True, True, False], "jct_s": [10.0, 12.0, 22.0]})
    >>> slowdown_labels(runs)[["neighbour_key", "slowdown", "baseline_runs"]].to_dict("records")
    [{'neighbour_key': 'b', 'slowdown': 2.0, 'baseline_runs': 2.0}]
    """
    labels = partial_labels(runs)
    if labels["slowdown"].isna().any():
        raise MissingBaselineError(set(labels.loc[labels["slowdown"].isna(), "job_key"]))
    return checked(labels[LABELS.names], LABELS, "profiling runs")


def partial_labels(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the labels of all colocated runs that have a speed, missing where no baseline is.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.PROFILING_RUNS``

    Returns
    -------
    DataFrame indexed as `runs`
        The columns of ``data.schemas.LABELS``, and ``pace``: seconds per step, or per job,
        whichever measure the slowdown was taken in.
    """
    together = runs[colocated(runs) & (runs["outcome"] == Outcome.OK) & has_speed(runs)]
    exclusive = runs[proven_exclusive(runs)]
    by_steps = _against(together, exclusive, "steps_per_s")
    by_jct = _against(together, exclusive, "jct_s")
    best = by_steps.where(by_steps["slowdown"].notna(), by_jct)
    families = _families(runs)
    described = together[["run_id", "job_key", "neighbour_key", "gpu_model", "family"]]
    neighbour = together["neighbour_key"].map(families)
    return pd.concat(
        [
            described,
            neighbour.fillna(together["neighbour_key"]).rename("neighbour_family"),
            best,
        ],
        axis="columns",
    )


def colocated(runs: pd.DataFrame) -> pd.Series:
    """Return which of `runs` name a neighbour, as a Series of bool with their index."""
    return runs["neighbour_key"].notna()


def has_speed(runs: pd.DataFrame) -> pd.Series:
    """Return which of `runs` have steps per second or a JCT above zero."""
    speeds = runs.reindex(columns=["steps_per_s", "jct_s"])
    return (speeds > 0).any(axis="columns")


def paces(runs: pd.DataFrame) -> pd.DataFrame:
    """Return how long each run took for a step, or for the whole job where no steps count.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.PROFILING_RUNS``

    Returns
    -------
    DataFrame indexed as `runs`
        ``pace`` (s, NaN where neither was measured) and ``measure``, the column it comes from.
    """
    speeds = runs.reindex(columns=["steps_per_s", "jct_s"])
    counts_steps = speeds["steps_per_s"] > 0
    jct = speeds["jct_s"].where(speeds["jct_s"] > 0)
    pace = (1 / speeds["steps_per_s"].where(counts_steps)).fillna(jct)
    measure = counts_steps.map({True: "steps_per_s", False: "jct_s"})
    return pd.DataFrame({"pace": pace, "measure": measure})


def baselines(exclusive: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    """Return the baseline of each job key on each GPU model in one measure of speed.

    Parameters
    ----------
    exclusive : DataFrame, ``data.schemas.PROFILING_RUNS``
        Proven exclusive runs only.
    measure : {"steps_per_s", "jct_s"}

    Returns
    -------
    DataFrame, index ``job_key`` and ``gpu_model``
        ``alone`` (median, in the measure's unit), ``baseline_runs``, ``baseline_spread`` and
        ``baseline_run_ids``.
    """
    if measure not in exclusive.columns:
        exclusive = exclusive.assign(**{measure: float("nan")})
    measured = exclusive[exclusive[measure] > 0]
    groups = measured.groupby(KEYS)
    table = groups[measure].agg(["median", "min", "max", "size"])
    return pd.DataFrame(
        {
            "alone": table["median"],
            "baseline_runs": table["size"].astype("float64"),
            "baseline_spread": (table["max"] - table["min"]) / table["median"],
            "baseline_run_ids": groups["run_id"].agg(" ".join),
        }
    )


def _against(together: pd.DataFrame, exclusive: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    found = baselines(exclusive, measure)
    keys = pd.MultiIndex.from_frame(together[KEYS])
    alone = found.reindex(keys).set_axis(together.index)
    speed = together.reindex(columns=[measure])[measure]
    speed = speed.where(speed > 0)
    ratio = alone["alone"] / speed if measure == "steps_per_s" else speed / alone["alone"]
    columns = ["baseline_runs", "baseline_spread", "baseline_run_ids"]
    pace = 1 / speed if measure == "steps_per_s" else speed
    return alone[columns].where(ratio.notna()).assign(slowdown=ratio, pace=pace)


def _families(runs: pd.DataFrame) -> pd.Series:
    return runs.drop_duplicates("job_key").set_index("job_key")["family"]
