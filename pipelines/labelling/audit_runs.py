"""What a run itself says against it: outcome, length, neighbour, baseline."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from data.domain import Outcome
from features.profiles import proven_exclusive
from pipelines.labelling.audit_outliers import logs
from pipelines.labelling.audit_rules import AuditRules, Reason
from pipelines.labelling.labels import KEYS, colocated, has_speed, paces, partial_labels

Finding = tuple[Reason, pd.Series]


def rows_with_labels(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the colocated runs with the columns of their labels, missing where there is none."""
    together = runs[colocated(runs)]
    labels = partial_labels(runs)
    new = labels[labels.columns.difference(together.columns)]
    return pd.concat([together, new.reindex(together.index)], axis="columns")


def run_faults(rows: pd.DataFrame, runs: pd.DataFrame, rules: AuditRules) -> Iterator[Finding]:
    """Yield what is wrong with colocated runs as such: outcome, speed, length, neighbour.

    Parameters
    ----------
    rows : DataFrame
        The colocated runs.
    runs : DataFrame, ``data.schemas.PROFILING_RUNS``
        All runs, to look up the neighbour's own outcome.
    rules : AuditRules
    """
    outcome = rows["outcome"]
    ended = "outcome " + outcome
    ok = outcome == Outcome.OK
    yield Reason.OUT_OF_MEMORY, ended[outcome == Outcome.OOM]
    yield Reason.FAILED, ended[~ok & (outcome != Outcome.OOM)]
    yield Reason.NO_SPEED, _constant("neither steps_per_s nor jct_s", rows[ok & ~has_speed(rows)])
    rows = rows[ok & has_speed(rows)]
    length = lengths_s(rows)
    short = length[length < rules.min_run_s]
    yield Reason.TOO_SHORT, short.map("ran {:.3g} s".format)
    rows = rows.drop(index=short.index)
    changed = _neighbour_changed(rows, runs, rules)
    yield Reason.NEIGHBOUR_CHANGED, changed
    yield Reason.NEIGHBOUR_ABSENT, _neighbour_absent(rows.drop(index=changed.index), runs, rules)


def lengths_s(runs: pd.DataFrame) -> pd.Series:
    """Return how long each run lasted (s), NaN where that is not known."""
    columns = runs.reindex(columns=["jct_s", "start_time", "finish_time"])
    clock = columns["finish_time"] - columns["start_time"]
    return columns["jct_s"].fillna(clock)


def _neighbour_changed(rows: pd.DataFrame, runs: pd.DataFrame, rules: AuditRules) -> pd.Series:
    rows = rows.reindex(columns=[*rows.columns.union(["neighbour_overlap", "neighbour_run_id"])])
    overlap = rows["neighbour_overlap"]
    seldom = overlap[overlap < rules.min_overlap].map("overlap {:.2f}".format)
    outcomes = runs.set_index("run_id")["outcome"]
    ended = rows.loc[overlap.isna(), "neighbour_run_id"].map(outcomes).dropna()
    failed = "overlap unknown, neighbour " + ended[ended != Outcome.OK]
    return pd.concat([seldom, failed])


def _neighbour_absent(rows: pd.DataFrame, runs: pd.DataFrame, rules: AuditRules) -> pd.Series:
    """Return the runs on whose card no more memory was in use than one of the jobs takes."""
    own_mib = _own_memory(runs)
    sides = [
        own_mib.reindex(pd.MultiIndex.from_frame(rows[[side, "gpu_model"]])).to_numpy()
        for side in ("job_key", "neighbour_key")
    ]
    larger, smaller = np.maximum(*sides), np.minimum(*sides)
    card = rows.reindex(columns=["card_mem_mib"])["card_mem_mib"]
    second = (card - larger) / np.where(smaller > 0, smaller, np.nan)
    absent: pd.Series = second[second < rules.min_second_memory].clip(lower=0)
    return absent.map("the card held the larger job's memory and {:.0%} of the other's".format)


def _own_memory(runs: pd.DataFrame) -> pd.Series:
    alone = runs[proven_exclusive(runs)].reindex(columns=[*KEYS, "gpu_mem_mib_mean"])
    return alone.groupby(KEYS)["gpu_mem_mib_mean"].median()


def no_baselines(
    rows: pd.DataFrame, runs: pd.DataFrame, left_out: pd.DataFrame
) -> Iterator[Finding]:
    """Yield the colocated runs that have no slowdown, because there is no fit baseline.

    Parameters
    ----------
    rows : DataFrame
        Colocated runs with a speed and ``slowdown``.
    runs, left_out : DataFrame
        All runs, and the exclusive ones that no baseline uses.
    """
    absent = rows[rows["slowdown"].isna()]
    reasons = left_out.groupby(KEYS)["reason"].agg(lambda texts: ", ".join(sorted(set(texts))))
    keys = pd.MultiIndex.from_frame(absent[KEYS])
    why = pd.Series(reasons.reindex(keys).to_numpy(), index=absent.index, dtype="str")
    unproven = why == str(Reason.BASELINE_NOT_PROVEN)
    yield (
        Reason.BASELINE_NOT_PROVEN,
        _constant("ran alone, but the card was not proven unshared", absent[unproven]),
    )
    others = absent["job_key"].isin(runs.loc[proven_exclusive(runs), "job_key"])
    text = others.map({True: "none on this GPU model or in this measure", False: "none at all"})
    left = why.notna() & ~unproven
    yield Reason.NO_BASELINE, text.mask(left, "exclusive runs left out: " + why)[~unproven]


def unusable_baselines(runs: pd.DataFrame, rules: AuditRules) -> pd.DataFrame:
    """Return the exclusive runs from which no baseline may be taken, and why.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.PROFILING_RUNS``
    rules : AuditRules

    Returns
    -------
    DataFrame indexed as `runs`
        ``run_id``, ``job_key``, ``neighbour_key`` (null), ``gpu_model``, ``reason`` and
        ``evidence``.
    """
    alone = runs[~colocated(runs)]
    evidence = pd.Series(index=alone.index, dtype="str")
    reason = pd.Series(index=alone.index, dtype="str")
    for why, found in _baseline_faults(alone, rules):
        fresh = found.index[reason[found.index].isna()]
        reason[fresh], evidence[fresh] = str(why), found[fresh]
    table = alone[["run_id", "job_key", "neighbour_key", "gpu_model"]]
    return table.assign(reason=reason, evidence=evidence)[reason.notna()]


def _baseline_faults(alone: pd.DataFrame, rules: AuditRules) -> Iterator[Finding]:
    outcome = alone["outcome"]
    ended = "outcome " + outcome
    yield Reason.OUT_OF_MEMORY, ended[outcome == Outcome.OOM]
    yield Reason.FAILED, ended[(outcome != Outcome.OK) & (outcome != Outcome.OOM)]
    yield Reason.NO_SPEED, _constant("neither steps_per_s nor jct_s", alone[~has_speed(alone)])
    unproven = alone[~alone["is_exclusive"].astype("bool")]
    yield Reason.BASELINE_NOT_PROVEN, _constant("the card was not proven unshared", unproven)
    length = lengths_s(alone)
    yield Reason.TOO_SHORT, length[length < rules.min_run_s].map("ran {:.3g} s".format)
    yield Reason.UNIT_ERROR, _disagreeing(alone[proven_exclusive(alone) & has_speed(alone)], rules)


def _disagreeing(alone: pd.DataFrame, rules: AuditRules) -> pd.Series:
    """Return the exclusive runs far off their job's median; of only two, both."""
    measured = pd.concat([alone, paces(alone)], axis="columns")
    medians = measured.groupby([*KEYS, "measure"])["pace"].transform("median")
    sizes = measured.groupby([*KEYS, "measure"])["pace"].transform("size")
    # The median of two lies between them: the one is off by the factor if the ratio is.
    half = (sizes == 2) & medians.notna()
    ratio = (measured["pace"] / medians).where(~half, _ratio_of_two(measured))
    off = logs(ratio).abs() > np.log(rules.unit_factor)
    evidence: pd.Series = ratio[off].map("{:.3g} times the job's other exclusive runs".format)
    return evidence


def _ratio_of_two(measured: pd.DataFrame) -> pd.Series:
    groups = measured.groupby([*KEYS, "measure"])["pace"]
    other: pd.Series = groups.transform("min") + groups.transform("max") - measured["pace"]
    return measured["pace"] / other


def _constant(text: str, rows: pd.DataFrame) -> pd.Series:
    return pd.Series(text, index=rows.index, dtype="str")
