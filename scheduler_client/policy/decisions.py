"""What a policy answers: which jobs start where, and why the others wait."""

from dataclasses import dataclass
from enum import StrEnum

from data.domain import Estimate, Source
from scheduler_client.policy.view import Reservation

Evidence = tuple[tuple[str, float], ...]
"""Named numbers behind a decision, in the order in which to show them."""


class Level(StrEnum):
    """What the slowdowns behind a decision came from, best first; DESIGN calls it safe degrade."""

    MODEL = "model"
    LAST_GOOD = "last_good"
    HEURISTIC = "heuristic"
    EXCLUSIVE = "exclusive"
    NONE = "none"
    """The policy asks for no prediction."""


class Reason(StrEnum):
    """Why a job waits, from the furthest from starting to the nearest."""

    IMPOSSIBLE = "impossible"
    UNKNOWN_QUEUE = "unknown_queue"
    HELD = "held"
    QUOTA = "quota"
    HEALTH = "health"
    GPU_MODEL = "gpu_model"
    CARD_FULL = "card_full"
    MEMORY = "memory"
    NO_PREDICTION = "no_prediction"
    TOLERANCE = "tolerance"
    RESERVED = "reserved"
    GANG = "gang"
    FREEING = "freeing"


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """The best of the cards that a job was not given: what it would have been like there.

    Attributes
    ----------
    beside : tuple of str
        Job keys of its residents.
    worst_slowdown : float
        That joining would have caused; 1 where nobody is there.
    """

    card_id: str
    score: float
    terms: Evidence
    beside: tuple[str, ...]
    worst_slowdown: float


@dataclass(frozen=True, slots=True)
class Admission:
    """That a job may start now, and its placement.

    Attributes
    ----------
    card_ids : tuple of str
        As many different cards as the job asked GPUs.
    mem_mib : tuple of int
        GPU memory reserved on each of them (MiB).
    slowdown : Estimate, optional
        Predicted for the job, on the worst of its cards; None where the policy does not ask.
    neighbours : tuple of (str, Estimate or None)
        Job id of every resident beside it, with the slowdown predicted for that one.
    is_guaranteed : bool
        Whether it runs within its queue's nominal quota, or on borrowed GPUs (best-effort).
    evidence : tuple of (str, float)
        The terms of the score, the tolerance and the pressure it was placed under.
    runners_up : tuple of RunnerUp
        The next best cards, of other states than the chosen ones.
    refused : tuple of (Reason, int)
        How many cards would not do, by why.
    answer_age_s : float, optional
        How old the oldest of the service's answers was that it was decided by (s).
    """

    job_id: str
    attempt: int
    card_ids: tuple[str, ...]
    mem_mib: tuple[int, ...]
    slowdown: Estimate | None
    neighbours: tuple[tuple[str, Estimate | None], ...]
    is_guaranteed: bool
    level: Level
    reason: str
    evidence: Evidence = ()
    runners_up: tuple[RunnerUp, ...] = ()
    refused: tuple[tuple[Reason, int], ...] = ()
    answer_age_s: float | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a job does not start in this cycle: the dominant reason and its numbers."""

    job_id: str
    reason: Reason
    evidence: Evidence = ()


class Ground(StrEnum):
    """By what right a job has others evicted."""

    RECLAIM = "reclaim"
    """Its queue takes back nominal quota."""
    PRIORITY = "priority"
    """Its user ranks it higher."""
    SERVICE = "service"
    """It has had less GPU time, by levels."""
    PASSED = "passed"
    """Others of its queue started on nominal quota that was kept for it."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """That jobs must end so that another can start, on cards that are kept for it.

    Attributes
    ----------
    job_id : str
        The preemptor; it waits until the victims have left.
    victims : tuple of str
        Running jobs; without any of them it could not start.
    card_ids : tuple of str
        Where it will start.
    cost_gpu_s : float
        Work that is lost (GPU seconds), each victim's grown by its past evictions.
    ground : Ground
        By what right.
    """

    job_id: str
    victims: tuple[str, ...]
    card_ids: tuple[str, ...]
    cost_gpu_s: float
    ground: Ground


@dataclass(frozen=True, slots=True)
class Decision:
    """One cycle's answer; every pending job is admitted or waits.

    Attributes
    ----------
    waiting : tuple of Waiting
        In the order in which they had their turn.
    reservations : tuple of Reservation
        For the next view.
    """

    admissions: tuple[Admission, ...]
    waiting: tuple[Waiting, ...]
    evictions: tuple[Eviction, ...] = ()
    reservations: tuple[Reservation, ...] = ()


ALONE = Estimate(1.0, 1.0, 1.0, "none", Source.EXCLUSIVE)
"""The slowdown of a job that shares its card with nobody."""
