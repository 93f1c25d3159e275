"""What the labels say against each other: unit errors, swapped sides, imputed values, baselines.

Every function takes labels and returns the evidence as a Series of texts with the index of
those rows that it concerns.
"""

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from pipelines.labelling.audit_rules import AuditRules

JOB = ["gpu_model", "job_key"]
NEIGHBOUR = ["gpu_model", "neighbour_key"]
ENOUGH = 4  # rows from which a median is more than one measurement's word
SWEEPS = 4  # of the median polish; the effects are stable to three digits after that
EQUAL = 1e-9


def expected_slowdowns(labels: pd.DataFrame) -> pd.DataFrame:
    """Return what each job's and each neighbour's other runs lead one to expect.

    Parameters
    ----------
    labels : DataFrame
        ``gpu_model``, ``job_key``, ``neighbour_key`` and ``slowdown``.

    Returns
    -------
    DataFrame indexed as `labels`
        ``expected`` (slowdown) and ``job_effect``, the factor by which the job's slowdowns lie
        above those of the others. A job or neighbour with few rows has no effect of its own.

    Notes
    -----
    Tukey's median polish (Exploratory Data Analysis, 1977) of the log slowdown by job and
    neighbour: a median is not moved by the error that it is to reveal.
    """
    values = logs(labels["slowdown"])
    typical = values.groupby(labels["gpu_model"]).transform("median")
    job = neighbour = pd.Series(0.0, index=labels.index)
    for _ in range(SWEEPS):
        job = _group_medians(values - typical - neighbour, labels, JOB)
        neighbour = _group_medians(values - typical - job, labels, NEIGHBOUR)
    return pd.DataFrame({"expected": exps(typical + job + neighbour), "job_effect": exps(job)})


def _group_medians(values: pd.Series, labels: pd.DataFrame, keys: list[str]) -> pd.Series:
    groups = values.groupby([labels[key] for key in keys])
    medians: pd.Series = groups.transform("median")
    return medians.where(groups.transform("size") >= ENOUGH, 0.0)


def unit_errors(labels: pd.DataFrame, rules: AuditRules) -> pd.Series:
    """Return the rows that are off by a factor which no interference explains.

    Parameters
    ----------
    labels : DataFrame, as for `expected_slowdowns`
    rules : AuditRules

    Returns
    -------
    Series of str
        Single runs that are off, all runs of a job whose baseline is off, and slowdowns so far
        below 1 that no noise makes them.
    """
    expected = expected_slowdowns(labels)
    ratio = labels["slowdown"] / expected["expected"]
    job = expected["job_effect"]
    limit = np.log(rules.unit_factor)
    evidence = pd.Series(index=labels.index, dtype="str")
    impossible = labels["slowdown"] < 1 / rules.unit_factor
    evidence = evidence.mask(impossible, _texts("slowdown {:.3g}: a speed-up", labels["slowdown"]))
    run = _texts("{:.3g} times what this job and this neighbour give elsewhere", ratio)
    evidence = evidence.mask(logs(ratio).abs() > limit, run)
    whole = _texts("all runs of this job {:.3g} times those of others: its baseline", job)
    return evidence.mask(logs(job).abs() > limit, whole).dropna()


def other_sides(rows: pd.DataFrame) -> pd.DataFrame:
    """Return, for each row, what the run of the same pair's other side says.

    Parameters
    ----------
    rows : DataFrame
        ``run_id``, ``neighbour_run_id``, ``pace`` (s) and the columns of `expected_slowdowns`.

    Returns
    -------
    DataFrame indexed as `rows`
        ``slowdown``, ``expected``, ``pace`` and ``alone_pace``; NaN where there is no such row.
    """
    columns = {
        "slowdown": rows["slowdown"],
        "expected": expected_slowdowns(rows)["expected"],
        "pace": rows["pace"],
        "alone_pace": rows["pace"] / rows["slowdown"],
    }
    by_run = pd.DataFrame(columns).set_axis(rows["run_id"])
    return by_run.reindex(rows["neighbour_run_id"]).set_axis(rows.index)


def swapped_sides(labels: pd.DataFrame, other: pd.DataFrame, rules: AuditRules) -> pd.Series:
    """Return the rows that fit far better with the measurement of the other side.

    Parameters
    ----------
    labels : DataFrame, as for `expected_slowdowns`, and ``pace`` (s per step or per job)
    other : DataFrame, from `other_sides`
    rules : AuditRules

    Notes
    -----
    Either the raw measurement or the ratio may have been written to the wrong side. A row is
    named only if, as it stands, its pair is off by `swap_factor` taken over both sides, and
    exchanged it is within a quarter of that: small asymmetries cannot be told from noise.
    """
    expected = expected_slowdowns(labels)["expected"]
    now = _misfit(labels["slowdown"], expected) + _misfit(other["slowdown"], other["expected"])
    alone_pace = labels["pace"] / labels["slowdown"]
    raw = _misfit(other["pace"] / alone_pace, expected)
    raw_other = _misfit(labels["pace"] / other["alone_pace"], other["expected"])
    ratios = _misfit(other["slowdown"], expected) + _misfit(labels["slowdown"], other["expected"])
    exchanged = pd.concat([raw + raw_other, ratios], axis="columns").min(axis="columns")
    distinct = labels["job_key"] != labels["neighbour_key"]
    found = distinct & (now > np.log(rules.swap_factor)) & (exchanged < now / 4)
    text = _texts("the pair is {:.3g} times off", exps(now))
    text = text + _texts(", with its sides exchanged {:.3g} times", exps(exchanged))
    named: pd.Series = text[found]
    return named


def _misfit(slowdowns: pd.Series, expected: pd.Series) -> pd.Series:
    return logs(slowdowns / expected).abs()


def imputed(labels: pd.DataFrame, rules: AuditRules) -> pd.Series:
    """Return the rows of jobs that have one and the same slowdown beside every neighbour."""
    groups = labels.groupby(JOB)
    lowest, highest = groups["slowdown"].transform("min"), groups["slowdown"].transform("max")
    neighbours = groups["neighbour_key"].transform("nunique")
    constant = (highest - lowest <= EQUAL * lowest) & (neighbours >= rules.min_neighbours)
    text = _texts("exactly {:.3f} beside all", lowest) + _texts(" {:.0f} neighbours", neighbours)
    named: pd.Series = text[constant]
    return named


def suspect_baselines(labels: pd.DataFrame, rules: AuditRules) -> pd.DataFrame:
    """Return the jobs that are on the whole faster in company than alone.

    Parameters
    ----------
    labels : DataFrame, as for `expected_slowdowns`
    rules : AuditRules

    Returns
    -------
    DataFrame, index ``gpu_model`` and ``job_key``
        ``median`` (slowdown) and ``evidence``.

    Notes
    -----
    Company never makes a job faster, so a median slowdown below 1 means a baseline measured too
    slow. One-sided sign test, which no single wild run decides.
    """
    found = {}
    for key, slowdowns in labels.groupby(JOB)["slowdown"]:
        below, runs = int((slowdowns < 1).sum()), len(slowdowns)
        if runs < rules.min_neighbours or slowdowns.median() >= 1:
            continue
        p = binomtest(below, runs, alternative="greater").pvalue
        if p < rules.significance:
            median = float(slowdowns.median())
            found[key] = (median, f"faster than alone in {below} of {runs} runs, p = {p:.1g}")
    index = pd.MultiIndex.from_tuples(list(found), names=JOB) if found else _no_jobs()
    return pd.DataFrame(list(found.values()), index=index, columns=["median", "evidence"])


def _no_jobs() -> pd.MultiIndex:
    return pd.MultiIndex.from_arrays([[], []], names=JOB)


def _texts(form: str, values: pd.Series) -> pd.Series:
    texts: pd.Series = values.map(form.format)
    return texts


def logs(values: pd.Series) -> pd.Series:
    """Return the natural logarithms of a Series, with its index."""
    return pd.Series(np.log(values.to_numpy(dtype="float64")), index=values.index)


def exps(values: pd.Series) -> pd.Series:
    """Return the exponentials of a Series, with its index."""
    return pd.Series(np.exp(values.to_numpy(dtype="float64")), index=values.index)
