"""A profiling session that measures the pairs from which most is learnt."""

from dataclasses import replace
from itertools import combinations_with_replacement

import pandas as pd

from data.errors import ProfilerError
from features.profiles import profiles
from pipelines.interference.next_pairs import next_pairs
from pipelines.labelling.audit import audited
from pipelines.profiling.session import Progress, Session, profile


def profile_next(
    session: Session, count: int, progress: Progress = iter, suffix: str = ".csv"
) -> pd.DataFrame:
    """Measure every job alone, then the pairs of which least can be told from the others.

    Parameters
    ----------
    session : Session
        Its plan's number of pairs does not count.
    count : int
        How many pairs to measure that were not measured before (>= 1).
    progress, suffix
        As for `profile`.

    Returns
    -------
    DataFrame, ``data.schemas.PROFILING_RUNS``
        All that was ever measured in ``session.out``.

    Raises
    ------
    ProfilerError
        As `profile`; if `count` is below 1, or no job ran alone as it should.
    """
    if count < 1:
        raise ProfilerError(f"the number of pairs to measure next must be at least 1, got {count}")
    alone = replace(session, plan=replace(session.plan, chosen=()))
    chosen = _chosen(session, profile(alone, progress, suffix), count)
    return profile(replace(session, plan=replace(session.plan, chosen=chosen)), progress, suffix)


def _chosen(session: Session, runs: pd.DataFrame, count: int) -> tuple[tuple[str, str], ...]:
    table = profiles(runs)
    known = set(table["job_key"])
    names = [job.name for job in session.workloads if job.paired and job.name in known]
    if not names:
        raise ProfilerError("found no command that ran well alone and exclusively, wanted some")
    pairs = pd.DataFrame(
        combinations_with_replacement(names, 2), columns=["job_key", "neighbour_key"]
    ).assign(gpu_model=session.device.model)
    tried = runs[runs["neighbour_key"].notna()]
    # A pair that was measured and quarantined is not worth another try.
    before = {
        frozenset(pair) for pair in zip(tried["job_key"], tried["neighbour_key"], strict=True)
    }
    is_new = [
        frozenset(pair) not in before
        for pair in zip(pairs["job_key"], pairs["neighbour_key"], strict=True)
    ]
    labels = audited(runs).labels
    labels = labels[labels["job_key"].isin(known) & labels["neighbour_key"].isin(known)]
    found = next_pairs(labels, table, count, session.plan.seed, pairs[is_new])
    return tuple(zip(found["job_key"], found["neighbour_key"], strict=True))
