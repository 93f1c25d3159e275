"""What ``make run`` says at the end: the same jobs run exclusively and colocated, side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from data.domain import FinishedJob, Outcome

EVERYONE = "all"


@dataclass(frozen=True, slots=True)
class UserRow:
    """Means of one user's jobs in both passes, in seconds.

    Attributes
    ----------
    jobs : int
        Jobs that ended well in both passes.
    """

    user: str
    jobs: int
    exclusive_jct_s: float
    colocated_jct_s: float
    exclusive_queueing_delay_s: float
    colocated_queueing_delay_s: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """One colocated job: the slowdown its placement was decided on, and what was measured."""

    job_id: str
    job_key: str
    predicted: float
    measured: float


def user_rows(exclusive: Sequence[FinishedJob], colocated: Sequence[FinishedJob]) -> list[UserRow]:
    """Return a row a user, and one of all, over jobs that ended well.

    Parameters
    ----------
    exclusive, colocated : sequence of FinishedJob
        The same submissions under both policies.

    Raises
    ------
    ValueError
        If no job ended well in one of the passes.
    """
    passes = (_ended_well(exclusive), _ended_well(colocated))
    if not all(passes):
        raise ValueError("found no job that ended well in one pass, wanted some in both")
    users = sorted({job.user for jobs in passes for job in jobs})
    rows = [_row(user, *[[j for j in jobs if j.user == user] for jobs in passes]) for user in users]
    return [*(row for row in rows if row is not None), *_everyone(passes)]


def _everyone(passes: tuple[list[FinishedJob], list[FinishedJob]]) -> list[UserRow]:
    row = _row(EVERYONE, *passes)
    return [] if row is None else [row]


def _row(user: str, exclusive: list[FinishedJob], colocated: list[FinishedJob]) -> UserRow | None:
    if not exclusive or not colocated:
        return None
    return UserRow(
        user=user,
        jobs=min(len(exclusive), len(colocated)),
        exclusive_jct_s=_mean_jct_s(exclusive),
        colocated_jct_s=_mean_jct_s(colocated),
        exclusive_queueing_delay_s=_mean_delay_s(exclusive),
        colocated_queueing_delay_s=_mean_delay_s(colocated),
    )


def _ended_well(jobs: Sequence[FinishedJob]) -> list[FinishedJob]:
    return [job for job in jobs if job.outcome is Outcome.OK]


def _mean_jct_s(jobs: Sequence[FinishedJob]) -> float:
    return fmean(job.finish_time - job.submit_time for job in jobs)


def _mean_delay_s(jobs: Sequence[FinishedJob]) -> float:
    return fmean(job.start_time - job.submit_time for job in jobs)


def makespan_s(jobs: Sequence[FinishedJob]) -> float:
    """Return the time from the first submission to the last finish, in seconds."""
    return max(job.finish_time for job in jobs) - min(job.submit_time for job in jobs)


def predictions(
    exclusive: Sequence[FinishedJob], colocated: Sequence[FinishedJob]
) -> list[Prediction]:
    """Return predicted beside measured slowdown of every job placed beside a neighbour.

    A job that was alone when it started had nothing predicted of the neighbours that came later.
    Measured is the job's runtime over the median runtime of its job key in the exclusive pass,
    hence of this machine in this very run.
    """
    alone = _exclusive_runtimes_s(exclusive)
    return [
        Prediction(
            job.job_id, job.job_key, job.predicted_slowdown, job.runtime_s / alone[job.job_key]
        )
        for job in _ended_well(colocated)
        if job.predicted_slowdown is not None
        and job.job_key in alone
        and job.segments
        and job.segments[0].neighbour_keys
    ]


def _exclusive_runtimes_s(exclusive: Sequence[FinishedJob]) -> dict[str, float]:
    runtimes: dict[str, list[float]] = {}
    for job in _ended_well(exclusive):
        runtimes.setdefault(job.job_key, []).append(job.runtime_s)
    return {job_key: median(values) for job_key, values in runtimes.items()}


def summary_lines(
    exclusive: Sequence[FinishedJob],
    colocated: Sequence[FinishedJob],
    versions: Mapping[str, int],
) -> list[str]:
    """Return the summary as lines of text.

    Parameters
    ----------
    exclusive, colocated : sequence of FinishedJob
    versions : mapping of str to int
        Answers counted by the model version that gave them.
    """
    titles = f"{'JCT alone':>12}{'JCT ours':>11}{'wait alone':>12}{'wait ours':>11}"
    lines = [f"{'user':<10}{'jobs':>5}{titles}"]
    lines += [
        f"{row.user:<10}{row.jobs:>5}{row.exclusive_jct_s:>10.2f} s{row.colocated_jct_s:>9.2f} s"
        f"{row.exclusive_queueing_delay_s:>10.2f} s{row.colocated_queueing_delay_s:>9.2f} s"
        for row in user_rows(exclusive, colocated)
    ]
    lines.append(
        f"makespan {makespan_s(exclusive):.1f} s alone, {makespan_s(colocated):.1f} s ours"
    )
    lines += _prediction_lines(predictions(exclusive, colocated))
    answered = ", ".join(f"{name} ({count})" for name, count in sorted(versions.items()))
    lines.append(f"answered by {answered or 'no model'}")
    return lines


def _prediction_lines(rows: Sequence[Prediction]) -> list[str]:
    if not rows:
        return ["no job was placed beside a neighbour"]
    error = fmean(abs(row.predicted - row.measured) for row in rows)
    return [
        f"{len(rows)} jobs were placed beside another: mean slowdown predicted "
        f"{fmean(row.predicted for row in rows):.2f}, measured "
        f"{fmean(row.measured for row in rows):.2f}, mean absolute error {error:.2f}"
    ]
