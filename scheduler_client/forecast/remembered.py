"""What a scheduler knows from its past, kept in the spool across restarts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from data.domain import FinishedJob
from data.errors import WireError
from data.wire import from_json, to_json
from scheduler_client.events import log_fault
from scheduler_client.forecast.profiles import ProfileBook
from scheduler_client.jobs.spool import Spool
from scheduler_client.policy.ahead import ahead_by_queue, whole_gpus
from scheduler_client.policy.usage import Usage
from scheduler_client.policy.view import ClusterView, UserKey

KEEP_S = 5.0
"""The most of the past that a crash may cost."""


@dataclass(frozen=True, slots=True)
class _Charged:
    queue: str
    user: str
    gpu_time_s: float


@dataclass(frozen=True, slots=True)
class _Ahead:
    queue: str
    gpu_time_s: float


@dataclass(frozen=True, slots=True)
class _StoredUsage:
    as_of_time: float
    charged: tuple[_Charged, ...]
    ahead: tuple[_Ahead, ...] = ()


class Remembered:
    """Usage history, measured profiles, and when a scheduler was last alive.

    Parameters
    ----------
    spool : Spool
        Where it is kept.
    half_life_s : float
        In so long past usage counts half.
    now : float
        Seconds since 1970, UTC.

    Attributes
    ----------
    profiles : ProfileBook
    last_seen_time : float
        When the previous scheduler was last alive; `now` where there was none.
    """

    def __init__(self, spool: Spool, half_life_s: float, now: float) -> None:
        self._spool, self._half_life_s = spool, half_life_s
        seen = spool.noted("last_seen_time")
        self.last_seen_time = min(now, float(seen)) if isinstance(seen, int | float) else now
        self._usage, self._ahead = _stored_usage(spool, now)
        self.profiles = _stored_profiles(spool)
        self._held: dict[UserKey, float] = {}
        self._whole: dict[str, float] = {}
        self._kept_time = float("-inf")
        self._has_learnt = False

    def with_history(self, view: ClusterView) -> ClusterView:
        """Charge what is held up to now; return `view` with the usage history, and who is ahead."""
        elapsed_s = view.now - self._usage.as_of_time
        self._ahead = ahead_by_queue(self._ahead, elapsed_s, self._whole, view.queues)
        self._whole = whole_gpus(view.running)
        self._usage = self._usage.advanced(view.now, self._held, self._half_life_s)
        gpus = self._usage.gpus(self._half_life_s)
        return replace(view, history_gpus=gpus, ahead_gpu_s=self._ahead)

    def holds(self, held: Mapping[UserKey, float]) -> None:
        """Take in which GPUs are held from now on, by queue and user."""
        self._held = dict(held)

    def learn(self, job: FinishedJob) -> None:
        """Take in a finished job."""
        self._has_learnt |= self.profiles.observe(job)

    def keep(self, now: float) -> None:
        """Write everything down, unless that was done a short while ago."""
        if 0 <= now - self._kept_time < KEEP_S:
            return
        charged = [_Charged(q, u, s) for (q, u), s in self._usage.gpu_time_s.items()]
        ahead = [_Ahead(*pair) for pair in self._ahead.items()]
        stored = _StoredUsage(self._usage.as_of_time, tuple(charged), tuple(ahead))
        self._spool.note("usage", to_json(stored))
        if self._has_learnt:
            self._spool.note("profiles", self.profiles.to_json())
            self._has_learnt = False
        self._spool.note("last_seen_time", now)
        self._kept_time = now


def _stored_usage(spool: Spool, now: float) -> tuple[Usage, dict[str, float]]:
    document = spool.noted("usage")
    if document is None:
        return Usage(now), {}
    try:
        stored = from_json(_StoredUsage, document)
    except WireError as error:
        log_fault("usage_forgotten", error=str(error))
        return Usage(now), {}
    usage = Usage(stored.as_of_time, {(c.queue, c.user): c.gpu_time_s for c in stored.charged})
    return usage, {ahead.queue: ahead.gpu_time_s for ahead in stored.ahead}


def _stored_profiles(spool: Spool) -> ProfileBook:
    try:
        return ProfileBook.from_json(spool.noted("profiles"))
    except WireError as error:
        log_fault("profiles_forgotten", error=str(error))
        return ProfileBook()
