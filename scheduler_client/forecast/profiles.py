"""Profiles measured by this scheduler itself: what the heuristic goes by without a model."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from data.domain import FinishedJob, Outcome
from data.wire import Json, from_json, to_json

KEPT = 10_000
"""Kinds of jobs remembered; the ones that ran last."""


@dataclass(frozen=True, slots=True)
class MeasuredProfile:
    """Mean signals of the runs of one job key on one GPU model.

    Attributes
    ----------
    signals : mapping of str to float
        Means over `runs` runs, by ``PROFILE_COLUMNS`` names.
    """

    job_key: str
    gpu_model: str
    signals: Mapping[str, float]
    runs: int = 1


@dataclass(frozen=True, slots=True)
class _Stored:
    profiles: tuple[MeasuredProfile, ...] = field(default_factory=tuple)


class ProfileBook:
    """Remembers the profile of every kind of job that finished well with exclusive intervals."""

    def __init__(self, profiles: Iterable[MeasuredProfile] = ()) -> None:
        self._profiles = {(p.job_key, p.gpu_model): p for p in profiles}

    def signals(self, job_key: str, gpu_model: str) -> Mapping[str, float] | None:
        """Return the measured signals of a kind of job, or None."""
        profile = self._profiles.get((job_key, gpu_model))
        return None if profile is None else profile.signals

    def observe(self, job: FinishedJob) -> bool:
        """Take in a finished job; return whether it taught anything."""
        models = {segment.gpu_model for segment in job.segments}
        if job.outcome is not Outcome.OK or len(models) != 1 or not job.signals:
            return False
        key = (job.job_key, models.pop())
        known = self._profiles.pop(key, None)
        new = MeasuredProfile(*key, dict(job.signals)) if known is None else _merged(known, job)
        self._profiles[key] = new  # at the end: the one that ran last
        while len(self._profiles) > KEPT:
            del self._profiles[next(iter(self._profiles))]
        return True

    def to_json(self) -> Json:
        """Return everything remembered, for `from_json`."""
        return to_json(_Stored(tuple(self._profiles.values())))

    @classmethod
    def from_json(cls, document: Json) -> "ProfileBook":
        """Return the book that `to_json` described; an empty one for None."""
        return cls() if document is None else cls(from_json(_Stored, document).profiles)


def _merged(known: MeasuredProfile, job: FinishedJob) -> MeasuredProfile:
    names = known.signals.keys() | job.signals.keys()
    runs = known.runs + 1
    merged = {}
    for name in sorted(names):
        old, new = known.signals.get(name), job.signals.get(name)
        merged[name] = _first(old, new) if old is None or new is None else old + (new - old) / runs
    return replace(known, signals=merged, runs=runs)


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)
