"""What the service remembers of finished jobs: rebuilt from the job log, then following it."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

import pandas as pd

from data.domain import FinishedJob, JobRequest
from data.errors import JobLogError
from data.joblog import Appended, JobLog
from data.jobs_frame import jobs_frame
from features.history import RuntimeHistory
from features.requests import requests_frame, running_frame
from features.usual_speed import UsualSpeed
from serving.live.colocations import Colocation, LiveColocations
from serving.live.profiles import LiveProfiles

PAGE = 5_000


class HistoryState:
    """The runtime history of one worker, equal to every other worker's at the same sequence.

    Parameters
    ----------
    open_log : callable
        Opens the job log; tried again at each use until it succeeds, so that a service starts
        while the log is out of reach.

    Attributes
    ----------
    on_finished : callable, optional
        Given the jobs of each page, at the usual speed of their cards.
    """

    def __init__(self, open_log: Callable[[], JobLog]) -> None:
        self._open_log = open_log
        self._log: JobLog | None = None
        self._history = RuntimeHistory()
        self._profiles = LiveProfiles()
        self._colocations = LiveColocations()
        self._speed = UsualSpeed()
        self._sequence = 0
        self.on_finished: Callable[[Sequence[FinishedJob]], None] | None = None
        # `observe` changes what `transform` reads, and the two are called from different threads.
        self._lock = threading.Lock()
        self._catching_up = threading.Lock()

    @property
    def sequence(self) -> int:
        """The newest entry of the job log that the history holds; 0 before the first."""
        return self._sequence

    @property
    def profiles(self) -> pd.DataFrame:
        """Profiles of the jobs that ran alone; the same object until they change."""
        return self._profiles.table

    @property
    def colocations(self) -> tuple[Colocation, ...]:
        """Colocated runs of finished jobs; the same object until there are more."""
        return self._colocations.latest

    def alone_s(self, job_key: str, gpu_model: str) -> float | None:
        """Return how long a job takes alone on a GPU model (s), or None where nobody knows."""
        return self._profiles.alone_s(job_key, gpu_model)

    def catch_up(self) -> int:
        """Read what is new in the job log, page by page, and return how many jobs that were.

        Raises
        ------
        JobLogError
            If the log cannot be read now; what was read stays.
        """
        count = 0
        with self._catching_up:
            while page := self._opened().since(self._sequence, PAGE):
                jobs = jobs_frame(job for _, job in page)
                usual = [self._speed.normal(job) for _, job in page]
                self._profiles.observe(usual)
                self._colocations.observe(usual)
                if self.on_finished is not None:
                    self.on_finished(usual)
                with self._lock:
                    self._history.observe(jobs)
                    self._sequence = page[-1][0]
                count += len(page)
        return count

    def features(
        self, jobs: Sequence[JobRequest], running: Sequence[JobRequest] = ()
    ) -> pd.DataFrame:
        """Return the runtime features of requests, from all finished jobs known here.

        Parameters
        ----------
        jobs : sequence of JobRequest
        running : sequence of JobRequest
            Jobs that run now: that they still do says how long alike ones take at least.

        Returns
        -------
        DataFrame of shape (n, n_features), RangeIndex
            ``features.history.USER_FEATURES``.
        """
        requests, others = requests_frame(jobs), running_frame(running)
        with self._lock:
            return self._history.transform(requests, running=others)

    def append(self, jobs: Sequence[FinishedJob]) -> Appended:
        """Append finished jobs to the log, then learn what is new there.

        Raises
        ------
        JobLogError
            If the log cannot be written now; nothing was taken.
        """
        appended = self._opened().append(jobs)
        with suppress(JobLogError):  # they are in the log; the next turn of the tail reads them
            self.catch_up()
        return appended

    def close(self) -> None:
        """Close the log's connections."""
        if self._log is not None:
            self._log.close()

    def _opened(self) -> JobLog:
        if self._log is None:
            self._log = self._open_log()
        return self._log
