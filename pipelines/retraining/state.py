"""What the retrainer remembers between runs, and when it is due to retrain."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from data.domain import FinishedJob, Outcome
from data.errors import JobLogError, WireError
from data.wire import dumps, loads

KINDS = ("interference", "runtime", "memory")
"""What is retrained together: ``runtime`` is both runtime models, ``memory`` also demand."""

BY_GPU_MODEL = ("interference",)
"""Kinds that are retrained once half as much again is known of a GPU model as they learnt of it."""

MOST_TRIES = 2
MOST_DOUBLINGS = 1  # of the evidence wanted, while challengers are refused


@dataclass(frozen=True, slots=True)
class KindState:
    """Where one kind stands.

    Attributes
    ----------
    jobs : int
        Finished jobs since the last attempt.
    evidence : int
        Those of them that may become a training row of this kind.
    attempted_sequence : int
        Sequence number up to which the log was known at the last attempt.
    attempted_time : float
        When that was, in seconds since 1970, UTC; 0 before the first.
    tries : int
        Attempts that were begun since then and never ended: the process was killed.
    learnt : int
        Evidence of all attempts so far.
    watched : int
        Of `jobs`, those that had finished when drift was last looked for.
    watched_evidence : int
        Of `evidence`, likewise.
    watched_since : int
        Entry of the log up to which every drift was a cause already.
    drift : str
        What changed since the last attempt, in one sentence; empty if nothing did.
    drift_since : int
        Entry of the log from which it probably did.
    drift_rows : int
        Evidence from that entry on, less `evidence`.
    gpu_models : dict of str to int
        `evidence` by GPU model, of the kinds that are learnt by it.
    learnt_gpu_models : dict of str to int
        Of it, that of all attempts so far.
    refused : int
        Attempts in a row, since the last drift, after which the champion stayed.
    """

    jobs: int = 0
    evidence: int = 0
    attempted_sequence: int = 0
    attempted_time: float = 0.0
    tries: int = 0
    learnt: int = 0
    watched: int = 0
    watched_evidence: int = 0
    watched_since: int = 0
    drift: str = ""
    drift_since: int = 0
    drift_rows: int = 0
    refused: int = 0
    gpu_models: dict[str, int] = field(default_factory=dict)
    learnt_gpu_models: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a kind is retrained.

    Attributes
    ----------
    reason : str
        One sentence with the numbers.
    since : int
        Entry of the log where a drift began; 0 where new evidence is the cause.
    """

    reason: str
    since: int = 0


@dataclass(frozen=True, slots=True)
class RetrainState:
    """How far which job log was read, and where each kind stands."""

    joblog: str = ""
    sequence: int = 0
    kinds: dict[str, KindState] = field(default_factory=lambda: dict.fromkeys(KINDS, KindState()))


@dataclass(frozen=True, slots=True)
class RetrainRules:
    """When to retrain.

    Attributes
    ----------
    min_jobs : int
        Finished jobs since the last attempt (>= 1).
    min_evidence : int
        Of them, jobs that may become training rows of the kind (>= 1); half of the rows judge.
    cooldown_s : float
        Seconds since the last attempt of the kind (>= 0).
    growth : float
        And no less than this share of all evidence so far (>= 0): what is known well needs
        retraining rarely; twice the share where the last challenger was refused: so much did
        not help. A drift needs only `min_evidence` since it began, and no `min_jobs`.
    watch_jobs : int
        Finished jobs between two looks for drift (>= 1).
    gpu_model_growth : float
        Share of what was learnt on a GPU model that suffices by itself (>= 0), of the kinds in
        ``BY_GPU_MODEL``.
    watch_evidence : int
        Of `watch_jobs`, jobs that may become training rows of the kind (>= 0): without them there
        is nothing to see.
    """

    min_jobs: int = 50
    min_evidence: int = 16
    cooldown_s: float = 60.0
    growth: float = 0.2
    watch_jobs: int = 50
    gpu_model_growth: float = 0.5
    watch_evidence: int = 8


def observed(state: RetrainState, jobs: Iterable[tuple[int, FinishedJob]]) -> RetrainState:
    """Return `state` after the next entries of the job log.

    Examples
    --------
    >>> job = FinishedJob("1", 1, "u", "q", "bert", 1, 0, 0, 9, Outcome.OK)
    >>> after = observed(RetrainState(), [(1, job)])
    >>> after.sequence, after.kinds["runtime"].evidence, after.kinds["memory"].evidence
    (1, 1, 0)
    """
    kinds, sequence = dict(state.kinds), state.sequence
    for number, job in jobs:
        sequence = number
        for name, kind in kinds.items():
            teaches = is_evidence(job, name)
            kinds[name] = replace(
                kind,
                jobs=kind.jobs + 1,
                evidence=kind.evidence + teaches,
                gpu_models=_more(kind.gpu_models, job, teaches and name in BY_GPU_MODEL),
            )
    return replace(state, sequence=sequence, kinds=kinds)


def is_evidence(job: FinishedJob, kind: str) -> bool:
    """Return whether `job` may become a training row of `kind`; the audit has the last word.

    A job that its own cluster did not measure may have been measured by a Prometheus.
    """
    if job.outcome != Outcome.OK:
        return False
    if kind == "interference":
        return any(segment.neighbour_keys for segment in job.segments)
    was_alone = any(not segment.neighbour_keys for segment in job.segments)
    is_measured = "gpu_mem_peak_mib" in job.signals or (not job.signals and was_alone)
    return kind == "runtime" or (job.structure is not None and is_measured)


def due(state: RetrainState, rules: RetrainRules, now: float) -> dict[str, Cause]:
    """Return the kinds to retrain now with their causes, in the order of ``KINDS``.

    Parameters
    ----------
    now : float
        Seconds since 1970, UTC.

    Notes
    -----
    An attempt starts the counts anew, whatever came of it, so no cause leads to a second one.
    """
    causes = {name: _cause(state.kinds[name], rules) for name in KINDS}
    return {
        name: cause
        for name, cause in causes.items()
        if cause and now - state.kinds[name].attempted_time >= rules.cooldown_s
    }


def to_watch(state: RetrainState, rules: RetrainRules) -> tuple[str, ...]:
    """Return the kinds of which so many jobs finished that drift is to be looked for."""
    return tuple(
        name
        for name in KINDS
        for kind in [state.kinds[name]]
        if kind.jobs - kind.watched >= rules.watch_jobs
        and kind.evidence - kind.watched_evidence >= min(rules.watch_evidence, rules.watch_jobs)
    )


def watched(state: RetrainState, kind: str) -> RetrainState:
    """Return `state` after drift was looked for and not found."""
    before = state.kinds[kind]
    looked = replace(before, watched=before.jobs, watched_evidence=before.evidence)
    return _with(state, kind, looked)


def drifted(state: RetrainState, kind: str, cause: Cause, rows: int) -> RetrainState:
    """Return `state` after a drift was found, with so many `rows` of evidence since it began."""
    before = state.kinds[kind]
    found = replace(
        before,
        drift=cause.reason,
        drift_since=cause.since,
        drift_rows=rows - before.evidence,
        refused=0,
    )
    return watched(_with(state, kind, found), kind)


def begun(state: RetrainState, kind: str) -> RetrainState:
    """Return `state` with one more try of `kind`, to be saved before it is made."""
    return _with(state, kind, replace(state.kinds[kind], tries=state.kinds[kind].tries + 1))


def withdrawn(state: RetrainState, kind: str) -> RetrainState:
    """Return `state` before `begun`: the attempt could not be made now, its cause remains."""
    return _with(state, kind, replace(state.kinds[kind], tries=state.kinds[kind].tries - 1))


def ended(state: RetrainState, kind: str, now: float, *, is_refused: bool = False) -> RetrainState:
    """Return `state` after an attempt of `kind` came to its end: its cause is used up."""
    before = state.kinds[kind]
    fresh = KindState(
        attempted_sequence=state.sequence,
        attempted_time=now,
        learnt=before.learnt + before.evidence,
        watched_since=state.sequence if before.drift else before.watched_since,
        refused=before.refused + 1 if is_refused else 0,
        learnt_gpu_models=_sum(before.learnt_gpu_models, before.gpu_models),
    )
    return _with(state, kind, fresh)


def fatal(state: RetrainState) -> tuple[str, ...]:
    """Return the kinds whose attempts ended this process ``MOST_TRIES`` times in a row."""
    return tuple(name for name in KINDS if state.kinds[name].tries >= MOST_TRIES)


def load_state(path: Path) -> RetrainState:
    """Return the state saved at `path`, or the beginning where there is none.

    Raises
    ------
    JobLogError
        If the file cannot be read, or is none that `save_state` wrote.
    """
    try:
        saved = loads(RetrainState, path.read_bytes())
    except FileNotFoundError:
        return RetrainState()
    except (OSError, WireError) as error:
        advice = "remove it: the job log is then counted anew"
        raise JobLogError(f"{path}: {error}; {advice}") from error
    return replace(saved, kinds=dict.fromkeys(KINDS, KindState()) | saved.kinds)


def save_state(state: RetrainState, path: Path) -> None:
    """Write `state` to `path`, wholly or not at all.

    Raises
    ------
    JobLogError
        If the folder cannot be written.
    """
    beside = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("w") as file:
            file.write(dumps(state))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise JobLogError(f"{path}: {error}; free space or give this user access") from error


def _cause(kind: KindState, rules: RetrainRules) -> Cause | None:
    if kind.drift and kind.drift_rows + kind.evidence >= rules.min_evidence:
        return Cause(kind.drift, kind.drift_since)
    growth = rules.growth * 2 ** min(kind.refused, MOST_DOUBLINGS)
    wanted = max(float(rules.min_evidence), growth * kind.learnt)
    if kind.jobs >= rules.min_jobs and kind.evidence >= wanted:
        return Cause(f"{kind.evidence} new jobs to learn from, wanted {wanted:.0f}")
    for gpu_model, fresh in kind.gpu_models.items():
        known = kind.learnt_gpu_models.get(gpu_model, 0)
        if kind.learnt and fresh >= max(rules.min_evidence, rules.gpu_model_growth * known):
            return Cause(f"{fresh} new jobs to learn from on {gpu_model}, {known} were learnt from")
    return None


def _more(counts: dict[str, int], job: FinishedJob, teaches: bool) -> dict[str, int]:
    models = {segment.gpu_model for segment in job.segments} if teaches else set()
    return _sum(counts, dict.fromkeys(models, 1)) if models else counts


def _sum(counts: dict[str, int], more: dict[str, int]) -> dict[str, int]:
    return {name: counts.get(name, 0) + more.get(name, 0) for name in {**counts, **more}}


def _with(state: RetrainState, name: str, kind: KindState) -> RetrainState:
    return replace(state, kinds={**state.kinds, name: kind})
