"""The label audit: which colocated runs may teach a model, and why the others may not."""

from dataclasses import asdict, dataclass, replace

import numpy as np
import pandas as pd

from data.schemas import LABELS, checked
from features.profiles import proven_exclusive
from pipelines.labelling.audit_noise import Noise, ceiling_r2, measured_noise
from pipelines.labelling.audit_outliers import (
    JOB,
    imputed,
    other_sides,
    suspect_baselines,
    swapped_sides,
    unit_errors,
)
from pipelines.labelling.audit_rules import LABELLED, AuditRules, Reason
from pipelines.labelling.audit_runs import (
    no_baselines,
    rows_with_labels,
    run_faults,
    unusable_baselines,
)
from pipelines.labelling.labels import paces

ENTRY = ["run_id", "job_key", "neighbour_key", "gpu_model", "reason", "evidence"]


@dataclass(frozen=True, slots=True)
class Audit:
    """What the audit found.

    Attributes
    ----------
    labels : DataFrame, ``data.schemas.LABELS``
        The colocated runs that may be learnt from.
    quarantine : DataFrame
        ``run_id``, ``job_key``, ``neighbour_key``, ``gpu_model``, ``reason`` (`Reason`) and
        ``evidence``: every other colocated run, once. Both together are all colocated runs.
    flags : DataFrame, columns as `quarantine`
        Rows of `labels` with a reason that the rules only flag; a row may have several.
    left_out : DataFrame, columns as `quarantine`
        Exclusive runs that no baseline uses.
    noise : Noise
    """

    labels: pd.DataFrame
    quarantine: pd.DataFrame
    flags: pd.DataFrame
    left_out: pd.DataFrame
    noise: Noise

    def reasons(self) -> pd.DataFrame:
        """Return how many rows each reason quarantined and flagged, index ``reason``."""
        counts = {
            "quarantined": self.quarantine["reason"].value_counts(),
            "flagged": self.flags["reason"].value_counts(),
        }
        table = pd.DataFrame(counts).fillna(0).astype("int64")
        order = [str(reason) for reason in Reason if str(reason) in table.index]
        return table.reindex(pd.Index(order, name="reason"))

    def example(self, reason: str) -> str:
        """Return the first job that has `reason`, with its evidence."""
        both = pd.concat([self.quarantine, self.flags], ignore_index=True)
        found = both[both["reason"] == reason].head(1)
        texts = [f"{row.job_key}: {row.evidence}" for row in found.itertuples()]
        return texts[0] if texts else ""

    def summary(self) -> dict[str, float | None]:
        """Return flat counts and the noise, with None for what is not known.

        Returns
        -------
        dict
            ``rows``, ``kept``, ``quarantined``, ``flagged`` (rows with any flag), ``left_out``;
            ``quarantined_<reason>`` with the names of `Reason` in small letters, all of them;
            ``flagged_<reason>`` of those in ``LABELLED``; and the fields of `Noise`.
        """
        reasons = self.reasons().reindex([str(reason) for reason in Reason], fill_value=0)
        by_reason = {
            f"{column}_{reason.name.lower()}": int(counts[str(reason)])
            for column, counts in reasons.items()
            for reason in Reason
            if column == "quarantined" or reason in LABELLED
        }
        return {
            "rows": len(self.labels) + len(self.quarantine),
            "kept": len(self.labels),
            "quarantined": len(self.quarantine),
            "flagged": int(self.flags["run_id"].nunique()),
            "left_out": len(self.left_out),
            **by_reason,
            **{name: _known(value) for name, value in asdict(self.noise).items()},
        }


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None


def audited(runs: pd.DataFrame, rules: AuditRules | None = None) -> Audit:
    """Audit all colocated runs, and label those that stand.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.PROFILING_RUNS``
    rules : AuditRules, optional
        ``AuditRules()`` without; see ``audit_rules.STRICT`` and ``audit_rules.ALL_ROWS``.

    Returns
    -------
    Audit
        Kept and quarantined rows together are the colocated rows of `runs`, each once.

    Notes
    -----
    In Lucid's public file (Hu et al., ASPLOS 2023) it finds that every speed of PPO and TD3 is
    exactly 1.000, and that most VGG configurations ran faster in company than alone.
    """
    rules = rules or AuditRules()
    runs = runs.reset_index(drop=True)
    left_out = unusable_baselines(runs, rules)
    usable = runs.drop(index=left_out.index)
    docket = _Docket(rows_with_labels(usable), rules)
    for reason, evidence in run_faults(docket.rows, runs, rules):
        docket.judge(reason, evidence)
    for reason, evidence in no_baselines(docket.rows, runs, left_out):
        docket.judge(reason, evidence)
    docket.judge(Reason.SWAPPED, swapped_sides(docket.rows, other_sides(docket.rows), rules))
    docket.judge(Reason.UNIT_ERROR, unit_errors(docket.rows, rules))
    docket.judge(Reason.IMPUTED, imputed(docket.rows, rules))
    noise = _noise(docket.unflagged(), usable, rules)
    _judge_baselines(docket, noise, rules)
    low = docket.rows["slowdown"][docket.rows["slowdown"] < noise.floor]
    docket.judge(Reason.BELOW_ONE, low.map(f"slowdown {{:.3f}}, floor {noise.floor:.3f}".format))
    return _closed(docket, left_out, noise)


class _Docket:
    """The rows still under audit, and what was found about the others."""

    def __init__(self, rows: pd.DataFrame, rules: AuditRules) -> None:
        self.rows = rows
        self.quarantined: list[pd.DataFrame] = []
        self.flagged: list[pd.DataFrame] = []
        self._flag_only = rules.flag_only

    def judge(self, reason: Reason, evidence: pd.Series) -> None:
        """File the rows in `evidence` under `reason`; drop them unless it only flags."""
        found = self.rows.loc[evidence.index].assign(reason=str(reason), evidence=evidence)
        if reason in self._flag_only:
            self.flagged.append(found[ENTRY])
        else:
            self.quarantined.append(found[ENTRY])
            self.rows = self.rows.drop(index=evidence.index)

    def unflagged(self) -> pd.DataFrame:
        """Return the rows about which nothing was found."""
        flagged = [index for part in self.flagged for index in part.index]
        return self.rows.drop(index=list(set(flagged)))


def _noise(rows: pd.DataFrame, runs: pd.DataFrame, rules: AuditRules) -> Noise:
    # Jobs that never shared a card say nothing of the labels' noise.
    alone = runs[proven_exclusive(runs) & runs["job_key"].isin(rows["job_key"])]
    # The sides of a self-pair are no repeats: they ran at the same time.
    beside = rows[rows["job_key"] != rows["neighbour_key"]].drop(columns="pace")
    measured = pd.concat([alone, beside], ignore_index=True)
    repeats = pd.concat([measured, paces(measured)], axis="columns").dropna(subset="pace")
    return measured_noise(rows, repeats, rules.noise_sds, rules.assumed_noise_sd)


def _judge_baselines(docket: _Docket, noise: Noise, rules: AuditRules) -> None:
    found = suspect_baselines(docket.rows, rules)
    wrong = found["median"] < noise.floor
    for reason, jobs in (
        (Reason.WRONG_BASELINE, found[wrong]),
        (Reason.SUSPECT_BASELINE, found[~wrong]),
    ):
        evidence = pd.Series(
            jobs["evidence"].reindex(pd.MultiIndex.from_frame(docket.rows[JOB])).to_numpy(),
            index=docket.rows.index,
            dtype="str",
        )
        docket.judge(reason, evidence.dropna())


def _closed(docket: _Docket, left_out: pd.DataFrame, noise: Noise) -> Audit:
    labels = checked(docket.rows[LABELS.names], LABELS, "audited labels")
    ceiling = ceiling_r2(labels["slowdown"], noise.repeat_sd, noise.self_pair_rms)
    return Audit(
        labels=labels,
        quarantine=_entries(docket.quarantined),
        flags=_entries(docket.flagged),
        left_out=left_out.reset_index(drop=True),
        noise=replace(noise, ceiling_r2=ceiling),
    )


def _entries(parts: list[pd.DataFrame]) -> pd.DataFrame:
    filled = [part for part in parts if not part.empty]
    if not filled:
        return pd.DataFrame(columns=ENTRY, dtype="str")
    return pd.concat(filled, ignore_index=True).astype("str")
