"""The retrainer: tails the job log, and when enough new evidence arrived, challenges champions."""

import fcntl
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Protocol, Self

from data.errors import ColocastError, JobLogError, RegistryError, ServiceStartError
from data.joblog import JobLog, tail
from pipelines.retraining.finished_jobs import FinishedJobs
from pipelines.retraining.gate import Verdict
from pipelines.retraining.state import (
    RetrainRules,
    RetrainState,
    begun,
    due,
    ended,
    fatal,
    load_state,
    observed,
    save_state,
    withdrawn,
)

LOG = logging.getLogger("colocast.retrain")
WINDOW_JOBS = 200_000  # newest finished jobs that are trained from; about 2 kB of memory each
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class Challenge:
    """What became of one challenger.

    Attributes
    ----------
    model : str
        Registered name.
    version : str, optional
        Of the challenger; None where none was registered.
    previous : str, optional
        The champion's version before.
    verdict : Verdict
    """

    model: str
    version: str | None
    previous: str | None
    verdict: Verdict


class Challenger(Protocol):
    """Trains, judges and registers the models of one kind."""

    def __call__(self, finished: FinishedJobs) -> Sequence[Challenge]:
        """Return one challenge a model.

        Raises
        ------
        RegistryError
            If the registry is out of reach now; the same attempt may succeed later.
        ColocastError
            If these jobs cannot be trained from; the same attempt would fail again.
        """
        ...


class Retrainer:
    """Reads the job log on from where it stopped, and retrains each kind when it is due.

    Parameters
    ----------
    joblog_url : str
    state_path : Path
        Where the position and the counts are kept. A process killed at any point goes on from
        there: what was not counted is counted, what was not attempted is attempted.
    challengers : mapping of kind (``retrain_state.KINDS``) to Challenger
    rules : RetrainRules
    clock : callable
        Seconds since 1970, UTC.
    """

    def __init__(
        self,
        joblog_url: str,
        state_path: Path,
        challengers: Mapping[str, Challenger],
        rules: RetrainRules,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._url, self._path, self._challengers = joblog_url, state_path, challengers
        self._rules, self._clock = rules, clock
        self._log: JobLog | None = None
        self._state = self._without_fatal(load_state(state_path))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def step(self) -> list[Challenge]:
        """Count what finished since the last call, and retrain what is due.

        Raises
        ------
        JobLogError
            If the job log, or the retrainer's own state, cannot be read or written now.
        RegistryError
            If the registry is out of reach now.
        """
        self._count()
        challenges: list[Challenge] = []
        for kind in due(self._state, self._rules, self._clock()):
            challenges += self._attempt(kind)
        return challenges

    def run(
        self,
        poll_s: float,
        stop: Event,
        tell: Callable[[Sequence[Challenge]], object] = lambda _: None,
    ) -> None:
        """Step every `poll_s` seconds until `stop` is set; an outage only makes it wait.

        Parameters
        ----------
        poll_s : float
        stop : Event
        tell : callable
            Given the challenges of each step that made any.
        """
        LOG.info("event=watching poll_s=%g min_jobs=%d", poll_s, self._rules.min_jobs)
        pause_s = FIRST_PAUSE_S
        while not stop.is_set():
            try:
                if made := self.step():
                    tell(made)
                pause_s = FIRST_PAUSE_S
                stop.wait(poll_s)
            except (JobLogError, RegistryError) as error:
                LOG.warning("event=outage retry_s=%g reason=%s", pause_s, error)
                stop.wait(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def close(self) -> None:
        """Close the job log."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def _count(self) -> None:
        before = self._state
        while page := self._joblog().since(self._state.sequence):
            self._state = observed(self._state, page)
        if self._state != before:
            save_state(self._state, self._path)

    def _attempt(self, kind: str) -> Sequence[Challenge]:
        cause = self._state.kinds[kind]
        LOG.info(
            "event=retraining kind=%s jobs=%d evidence=%d since=%d until=%d",
            *(kind, cause.jobs, cause.evidence, cause.attempted_sequence, self._state.sequence),
        )
        self._save(begun(self._state, kind))
        try:
            challenges = self._challengers[kind](self._window())
        except (JobLogError, RegistryError, SystemExit):  # an outage, or we are asked to end
            self._save(withdrawn(self._state, kind))
            raise
        except ColocastError as error:
            LOG.error("event=untrainable kind=%s reason=%s", kind, error)
            challenges = []
        self._save(ended(self._state, kind, self._clock()))
        for challenge in challenges:
            _report(challenge)
        return challenges

    def _window(self) -> FinishedJobs:
        start = max(0, self._state.sequence - WINDOW_JOBS)
        entries = [e for e in tail(self._joblog(), start) if e[0] <= self._state.sequence]
        return FinishedJobs(
            self._state.joblog, [n for n, _ in entries], [job for _, job in entries]
        )

    def _joblog(self) -> JobLog:
        if self._log is None:
            log = JobLog(self._url)
            try:
                self._recognise(log.identity())
            except JobLogError:
                log.close()
                raise
            self._log = log
        return self._log

    def _recognise(self, joblog: str) -> None:
        if joblog != self._state.joblog:
            LOG.info("event=new_joblog joblog=%s before=%s", joblog, self._state.joblog or "none")
            self._state = RetrainState(joblog=joblog)

    def _save(self, state: RetrainState) -> None:
        save_state(state, self._path)
        self._state = state

    def _without_fatal(self, state: RetrainState) -> RetrainState:
        for kind in fatal(state):
            LOG.error("event=fatal kind=%s reason=it ended this process repeatedly", kind)
            state = ended(state, kind, self._clock())
        return state


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Hold the lock file at `path` for the block; the kernel frees it when the process ends.

    Raises
    ------
    ServiceStartError
        If another process holds it: two retrainers would register everything twice.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
    except BlockingIOError as error:
        raise ServiceStartError(
            f"another retrainer runs on {path.parent}; stop it, or set another COLOCAST_HOME"
        ) from error


def _report(challenge: Challenge) -> None:
    found = challenge.verdict
    LOG.info(
        "event=%s model=%s version=%s previous=%s reason=%s",
        "promoted" if found.promote else "kept",
        *(challenge.model, challenge.version, challenge.previous, found.reason),
    )
