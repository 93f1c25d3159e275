"""Measured workloads for the jobs of a trace: who is like which, and what is known of pairs."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import SettingError, TableError
from data.loaders import read_any
from features.profiles import profiles
from pipelines.labelling.audit import audited
from pipelines.labelling.audit_rules import AuditRules
from scheduler_client.replay.trace import Trace
from scheduler_client.replay.truth import GroundTruth, MeasuredPairs, fitting, slowdown_matrix

CARD_MEM_MIB = 24_576
"""Of the RTX 3090 on which Lucid's pairs were measured."""

SCORE_EDGES = (0.35, 0.6)

WIDTH = 0.2
"""Of the kernel of `draw`: so far a job's rank in length lies from its workload's in load."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Workloads:
    """Measured workloads, in two halves: to learn from, and to schedule.

    Attributes
    ----------
    truth : GroundTruth
        Of the workloads of the half that is scheduled, by measured pairs among them alone.
    scheduled, learnt : DataFrame, ``data.schemas.PROFILES``
        Profiles of both halves; the rows of `scheduled` are in the order of ``truth.names``.
    labels, scheduled_labels : DataFrame, ``data.schemas.LABELS``
        Audited slowdowns of pairs within the half to learn from, and within the other.
    """

    truth: GroundTruth
    scheduled: pd.DataFrame
    learnt: pd.DataFrame
    labels: pd.DataFrame
    scheduled_labels: pd.DataFrame

    @property
    def has_signals(self) -> bool:
        """Whether anything is known of how busy a workload keeps a card alone."""
        return bool(_signals(self.scheduled, "gpu_util_mean").notna().any())


def of_gpu_model(runs: pd.DataFrame, gpu_model: str | None) -> pd.DataFrame:
    """Return the profiling runs of one GPU model.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.PROFILING_RUNS``
    gpu_model : str or None
        None will do where the runs are of one GPU model only.

    Raises
    ------
    SettingError
        There is no run of that GPU model, or there are several and none is named.
    """
    names = sorted(set(runs["gpu_model"]))
    wanted = names[0] if gpu_model is None and len(names) == 1 else gpu_model
    if wanted not in names:
        raise SettingError(f"--gpu-model must be one of {', '.join(names)}, got {gpu_model}")
    return runs[runs["gpu_model"] == wanted].reset_index(drop=True)


def workloads_of(
    runs: pd.DataFrame, seed: int, card_mem_mib: int = CARD_MEM_MIB, rules: AuditRules | None = None
) -> Workloads:
    """Split the measured workloads into halves that share neither workload nor pair.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.PROFILING_RUNS``
        Of one GPU model. Only pairs that pass the label audit count as measured: a speed that
        is the same beside every neighbour was imputed, and is no ground truth.
    seed : int
        Of the split: workloads with a measured pair, in random order, cut in the middle.

    Raises
    ------
    TableError
        Fewer than four workloads have a measured pair, or a half has none.
    """
    labels = audited(runs, rules or AuditRules()).labels
    names = sorted(set(labels["job_key"]) & set(labels["neighbour_key"]))
    if len(names) < 4:
        raise TableError("profiling runs", f"{len(names)} workloads with pairs", "at least four")
    shuffled = np.random.default_rng(seed).permutation(np.array(names, dtype=object))
    half = len(names) // 2
    learnt, scheduled = sorted(shuffled[:half]), sorted(shuffled[half:])
    table = profiles(runs).set_index("job_key", drop=False)
    return Workloads(
        truth=_truth(_within(labels, scheduled), table.loc[scheduled], card_mem_mib),
        scheduled_labels=_within(labels, scheduled),
        scheduled=table.loc[scheduled].reset_index(drop=True),
        learnt=table.loc[learnt].reset_index(drop=True),
        labels=_within(labels, learnt),
    )


def share_scores(workloads: Workloads, pairs: Path | None) -> tuple[int, ...]:
    """Return Lucid's share score (0, 1 or 2) of each scheduled workload.

    Its own classes where `pairs` is a path with a table ``share_labels``; a workload without one
    gets its class from utilisation: 2 from 0.6 on, 1 from 0.35 on, else 0.
    """
    busy = workloads.truth.utilisation
    guessed = np.digitize(busy, SCORE_EDGES).tolist()
    tables = read_any(pairs) if pairs is not None else {}
    if "share_labels" not in tables:
        return tuple(guessed)
    known = tables["share_labels"].set_index("job_key")["share_label"]
    names = workloads.truth.names
    return tuple(int(known.get(n, g)) for n, g in zip(names, guessed, strict=True))


def draw(trace: Trace, workloads: Workloads, seed: int) -> Trace:
    """Give every job of a trace a workload that suits its length, at random.

    Jobs are ranked by runtime, workloads by how busy they keep a card alone, both from 0 to 1.
    A job gets workload w with probability proportional to
    ``exp(-(rank of job - rank of w)² / (2 WIDTH²))``: long jobs tend to be heavy ones. So most
    GPU time is spent in workloads that are hard to colocate; a draw without regard to length
    would make sharing look better.

    Parameters
    ----------
    seed : int
        Of the draw alone; the split of the workloads has its own.
    """
    busy = workloads.truth.utilisation
    load = _ranks(busy)
    length = _ranks(trace.runtime_s)
    random = np.random.default_rng(seed).random(len(trace))
    chosen = np.empty(len(trace), np.int64)
    for part in np.array_split(np.arange(len(trace)), max(1, len(trace) // 10_000)):
        weight = np.exp(-((length[part, None] - load[None, :]) ** 2) / (2 * WIDTH**2))
        upto = np.cumsum(weight / weight.sum(axis=1, keepdims=True), axis=1)
        chosen[part] = np.minimum((random[part, None] > upto).sum(axis=1), len(load) - 1)
    return replace(trace, workload=chosen)


def _within(labels: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    inside = labels["job_key"].isin(names) & labels["neighbour_key"].isin(names)
    return labels[inside].reset_index(drop=True)


def _truth(labels: pd.DataFrame, table: pd.DataFrame, card_mem_mib: int) -> GroundTruth:
    at = {name: index for index, name in enumerate(table["job_key"])}
    pairs = MeasuredPairs(
        labels["job_key"].map(at).to_list(),
        labels["neighbour_key"].map(at).to_list(),
        labels["slowdown"].to_list(),
    )
    slowdown, is_measured = slowdown_matrix(len(at), pairs)
    memory = _signals(table, "gpu_mem_mib_mean")
    # Without memory: those fit that were seen to run together.
    fits = (
        fitting(memory.fillna(card_mem_mib).to_numpy(), card_mem_mib)
        if memory.notna().any()
        else is_measured | is_measured.T
    )
    busy = _signals(table, "gpu_util_mean").to_numpy()
    return GroundTruth(
        slowdown=slowdown,
        is_measured=is_measured,
        fits=fits,
        utilisation=_load_ranks(slowdown, is_measured) if np.isnan(busy).all() else busy,
        names=tuple(at),
    )


def _signals(table: pd.DataFrame, name: str) -> pd.Series:
    missing = pd.Series(np.nan, index=table.index)
    return table.get(name, missing).astype("float64")


def _load_ranks(slowdown: Floats, is_measured: NDArray[np.bool_]) -> Floats:
    """Return how heavy a workload is for its neighbours, from above 0 to 1: a rank, no share.

    What stands for utilisation where no signal was measured.
    """
    count = np.maximum(1, is_measured.sum(axis=0))
    return (_ranks(np.where(is_measured, slowdown, 0).sum(axis=0) / count) + 0.1) / 1.1


def _ranks(values: Floats) -> Floats:
    order = values.argsort(kind="stable").argsort(kind="stable")
    return np.asarray(order, np.float64) / max(1, len(values) - 1)
