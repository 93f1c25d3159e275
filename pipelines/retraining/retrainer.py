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
from data.joblog import JobLog
from pipelines.retraining.finished_jobs import FinishedJobs
from pipelines.retraining.gate_terms import Verdict
from pipelines.retraining.newest_jobs import NewestJobs
from pipelines.retraining.state import (
    Cause,
    RetrainRules,
    RetrainState,
    begun,
    drifted,
    due,
    ended,
    fatal,
    load_state,
    observed,
    save_state,
    to_watch,
    watched,
    withdrawn,
)
from pipelines.retraining.watch import Drift

LOG = logging.getLogger("colocast.retrain")
WINDOW_JOBS = 200_000  # newest finished jobs that are trained from; about 2 kB of memory each
WATCHED_JOBS = 20_000  # newest ones that drift is looked for in, at least
WATCHED_STEP = 5_000  # their first one moves on by so many: what is known of the others stays true
PASSED = ("promoted", "shadow")  # stages of a challenger that the gate let through
CHANGED = ("promoted", "rolled_back")  # stages at which another version became champion
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
    stage : {"promoted", "kept", "shadow", "rolled_back"}
        Whether the champion changed; ``shadow`` is a challenger that passed the gate and answers
        beside the champion now.
    """

    model: str
    version: str | None
    previous: str | None
    verdict: Verdict
    stage: str = "kept"


class Challenger(Protocol):
    """Trains, judges and registers the models of one kind."""

    def __call__(self, finished: FinishedJobs, cause: Cause) -> Sequence[Challenge]:
        """Return one challenge a model.

        Raises
        ------
        RegistryError
            If the registry is out of reach now; the same attempt may succeed later.
        ColocastError
            If these jobs cannot be trained from; the same attempt would fail again.
        """
        ...


@dataclass(frozen=True, slots=True)
class Watched:
    """What a look at the jobs that finished found.

    Attributes
    ----------
    drift : Drift, optional
    settled : sequence of Challenge
        Challengers whose shadow run ended, and champions that were rolled back.
    """

    drift: Drift | None = None
    settled: Sequence[Challenge] = ()


class Watcher(Protocol):
    """Looks at how the champions of one kind do, and whoever runs in their shadow."""

    def __call__(self, finished: FinishedJobs, since: int) -> Watched:
        """Return what was found; drift among the jobs after entry `since` alone.

        Raises
        ------
        RegistryError
            If the registry is out of reach now.
        """
        ...


@dataclass(frozen=True, slots=True)
class Duty:
    """What is done for one kind of model.

    Attributes
    ----------
    challenger : Challenger
    watcher : Watcher, optional
        Without one, new evidence alone leads to retraining.
    """

    challenger: Challenger
    watcher: Watcher | None = None


class Retrainer:
    """Reads the job log on from where it stopped, and retrains each kind when it is due.

    Parameters
    ----------
    joblog_url : str
    state_path : Path
        Where the position and the counts are kept. A process killed at any point goes on from
        there: what was not counted is counted, what was not attempted is attempted.
    duties : mapping of kind (``state.KINDS``) to Duty
    rules : RetrainRules
    clock : callable
        Seconds since 1970, UTC.

    Attributes
    ----------
    after_promotion : callable, optional
        Given the newest finished jobs once a champion changed, such as to prune old versions.
    champion_changed : callable, optional
        Given the registered name of each model whose champion changed, as soon as it has.
    """

    def __init__(
        self,
        joblog_url: str,
        state_path: Path,
        duties: Mapping[str, Duty],
        rules: RetrainRules,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._url, self._path, self._duties = joblog_url, state_path, duties
        self._rules, self._clock = rules, clock
        self.after_promotion: Callable[[FinishedJobs], object] | None = None
        self.champion_changed: Callable[[str], object] | None = None
        self._log: JobLog | None = None
        self._newest = NewestJobs(WATCHED_JOBS + WATCHED_STEP)
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
        for kind in to_watch(self._state, self._rules):
            challenges += self._watch(kind)
        for kind, cause in due(self._state, self._rules, self._clock()).items():
            challenges += self._attempt(kind, cause)
        if self.after_promotion and any(made.stage == "promoted" for made in challenges):
            self.after_promotion(self._window(WINDOW_JOBS))
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
            self._newest.add(page)
        if self._state != before:
            save_state(self._state, self._path)

    def _watch(self, kind: str) -> Sequence[Challenge]:
        watcher, before = self._duties[kind].watcher, self._state.kinds[kind]
        found = Watched()
        if watcher is not None:
            try:
                length = WATCHED_JOBS + self._state.sequence % WATCHED_STEP
                found = watcher(self._window(length), before.watched_since)
            except (JobLogError, RegistryError):
                raise
            except ColocastError as error:
                LOG.warning("event=unwatchable kind=%s reason=%s", kind, error)
        self._save(self._after(kind, found))
        self._report(found.settled)
        return found.settled

    def _after(self, kind: str, found: Watched) -> RetrainState:
        drift = found.drift
        if drift is None or self._state.kinds[kind].drift:
            return watched(self._state, kind)
        LOG.warning("event=drift kind=%s reason=%s", kind, drift.reason)
        return drifted(self._state, kind, Cause(drift.reason, drift.since), drift.rows)

    def _attempt(self, kind: str, cause: Cause) -> Sequence[Challenge]:
        before = self._state.kinds[kind]
        LOG.info(
            "event=retraining kind=%s jobs=%d evidence=%d since=%d until=%d cause=%s",
            *(kind, before.jobs, before.evidence, before.attempted_sequence),
            *(self._state.sequence, cause.reason),
        )
        self._save(begun(self._state, kind))
        try:
            challenges = self._duties[kind].challenger(self._window(WINDOW_JOBS), cause)
        except (JobLogError, RegistryError, SystemExit):  # an outage, or we are asked to end
            self._save(withdrawn(self._state, kind))
            raise
        except ColocastError as error:
            LOG.error("event=untrainable kind=%s reason=%s", kind, error)
            challenges = []
        is_refused = not any(made.stage in PASSED for made in challenges)
        self._save(ended(self._state, kind, self._clock(), is_refused=is_refused))
        self._report(challenges)
        return challenges

    def _report(self, challenges: Sequence[Challenge]) -> None:
        for made in challenges:
            LOG.info(
                "event=%s model=%s version=%s previous=%s reason=%s",
                *(made.stage, made.model, made.version, made.previous, made.verdict.reason),
            )
            if self.champion_changed and made.stage in CHANGED:
                self.champion_changed(made.model)

    def _window(self, length: int) -> FinishedJobs:
        entries = self._newest.until(self._state.sequence, length, self._joblog())
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
            self._newest.clear()

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
