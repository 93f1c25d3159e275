"""What a cluster is to the loop: cards to look at, jobs to start and stop, ends to collect."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from data.domain import Outcome, Segment
from scheduler_client.policy.view import CardState


@dataclass(frozen=True, slots=True)
class Launch:
    """One attempt of a job, ready to run.

    Attributes
    ----------
    card_ids : tuple of str
    mem_mib : tuple of int
        GPU memory reserved on each card (MiB).
    limit_s : float, optional
        Run time after which the cluster ends it with ``Outcome.TIMEOUT``.
    """

    job_id: str
    attempt: int
    job_key: str
    command: tuple[str, ...]
    card_ids: tuple[str, ...]
    mem_mib: tuple[int, ...]
    limit_s: float | None = None
    working_directory: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EndedRun:
    """How an attempt went.

    Attributes
    ----------
    start_time, finish_time : float
        Seconds since 1970, UTC.
    segments : tuple of Segment
        By card and time, with the neighbours on it.
    signals : mapping of str to float
        ``PROFILE_COLUMNS`` measured while it had no neighbour.
    """

    job_id: str
    attempt: int
    outcome: Outcome
    start_time: float
    finish_time: float
    segments: tuple[Segment, ...]
    signals: Mapping[str, float] = field(default_factory=dict)


class Cluster(Protocol):
    """Where jobs run: this machine's devices, or the tests' memory."""

    def cards(self) -> tuple[CardState, ...]:
        """Return all cards as they are now, with residents and free memory."""
        ...

    def start(self, launch: Launch) -> float:
        """Start an attempt and return the moment (s since 1970, UTC).

        Raises
        ------
        ClusterError
            If it cannot be started; nothing then runs.
        """
        ...

    def stop(self, job_ids: Iterable[str], outcome: Outcome, grace_s: float) -> None:
        """Tell jobs to end, and end them after `grace_s`; `poll` returns them once they have."""
        ...

    def poll(self) -> tuple[EndedRun, ...]:
        """Return the runs that have ended since the last call, each once."""
        ...

    def saved_times(self) -> Mapping[str, float]:
        """Return when each running job last said that its work was saved (s since 1970, UTC).

        A job that never did is left out.
        """
        ...
