"""The immutable snapshot that every policy reads; the loop makes one each cycle."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from data.domain import Card, Estimate, JobRequest, Resident

UserKey = tuple[str, str]
"""Queue and user: where usage is charged."""


@dataclass(frozen=True, slots=True)
class CardState:
    """One card as the cluster sees it now; memory in whole MiB, never as a fraction.

    Attributes
    ----------
    free_mem_mib : int
        What no resident has reserved, in [0, `total_mem_mib`]; unknown memory counts as taken.
    residents : tuple of Resident
        Jobs on this card, in the order they came.
    is_healthy : bool
        Whether jobs may still be placed here.
    """

    card_id: str
    gpu_model: str
    total_mem_mib: int
    free_mem_mib: int
    residents: tuple[Resident, ...] = ()
    is_healthy: bool = True

    def as_card(self) -> Card:
        """Return the card in the form that the service is asked with."""
        return Card(self.card_id, self.gpu_model, self.free_mem_mib, self.residents)

    def with_resident(self, resident: Resident, mem_mib: int) -> "CardState":
        """Return this card with one more job that has reserved `mem_mib`."""
        free = self.free_mem_mib - mem_mib
        return replace(self, free_mem_mib=free, residents=(*self.residents, resident))


@dataclass(frozen=True, slots=True)
class PendingJob:
    """A job that waits: what was requested, its priority, and which attempt it would be.

    Attributes
    ----------
    priority : int
        Higher goes first among the jobs of one user; never across users or queues.
    gpu_model : str, optional
        Only cards of this model will do; None: any.
    attained_gpu_s : float
        GPU time that earlier attempts have had (>= 0).
    """

    job: JobRequest
    priority: int = 0
    attempt: int = 1
    gpu_model: str | None = None
    attained_gpu_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that holds cards.

    Attributes
    ----------
    start_time : float
        Seconds since 1970, UTC.
    mem_mib : tuple of int
        Reserved on each card (MiB); empty where that is not known.
    runtime : Estimate, optional
        Of the whole run (s), as predicted when it started, or since, given how long it had lasted.
    limit_s : float, optional
        After so long it is ended.
    saved_time : float, optional
        When it last said that its work was saved (s since 1970, UTC).
    is_stopping : bool
        It has been told to end.
    request : JobRequest, optional
        What the models may know of it; None where it is not predicted anew.
    attained_gpu_s : float
        GPU time that earlier attempts had had when it started (>= 0).
    """

    job_id: str
    user: str
    queue: str
    job_key: str
    card_ids: tuple[str, ...]
    start_time: float
    is_guaranteed: bool = True
    priority: int = 0
    mem_mib: tuple[int, ...] = ()
    runtime: Estimate | None = None
    limit_s: float | None = None
    saved_time: float | None = None
    is_stopping: bool = False
    request: JobRequest | None = None
    attained_gpu_s: float = 0.0


class Whom(StrEnum):
    """Whose jobs a queue may have evicted, in Kueue's words."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    ANY = "Any"


@dataclass(frozen=True, slots=True)
class PastEviction:
    """That a job was evicted for another; `time` in seconds since 1970, UTC."""

    job_id: str
    for_job_id: str
    time: float


@dataclass(frozen=True, slots=True)
class Reservation:
    """Cards that are kept for a pending job until it starts.

    Attributes
    ----------
    card_ids : tuple of str
        The very cards, freed for it by evictions; none: as many as it needs, those that come
        free first.
    victims : tuple of str
        Who was evicted for it.
    """

    job_id: str
    since_time: float
    card_ids: tuple[str, ...] = ()
    victims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Queue:
    """Where quota hangs, in Kueue's words.

    Attributes
    ----------
    nominal_quota_gpus : float
        GPUs the queue is entitled to (>= 0); a share of one where there are more queues than
        cards.
    cohort : str, optional
        Queues of one cohort lend to each other; without one nothing is borrowed.
    borrowing_limit_gpus, lending_limit_gpus : float, optional
        The most it may use above, and lend out of, its nominal quota; None: no limit.
    weight : float
        Of its share in fair ordering (> 0).
    is_held : bool
        Nothing of it is started (Kueue's ``stopPolicy: Hold``).
    reclaims : Whom
        Whose jobs are evicted when others of the cohort hold what is within its nominal quota
        (``reclaimWithinCohort``).
    preempts : Whom
        Whether a job of higher priority evicts one of the same user, and where attained GPU time
        orders, one that has had less any of the queue (``withinClusterQueue``; never ``ANY``).
    borrows : Whom
        Whether, where attained GPU time orders, a job that has had less evicts one of the cohort
        that runs on what others lent (``borrowWithinCohort.policy``; never ``ANY``).
    """

    name: str
    nominal_quota_gpus: float
    cohort: str | None = None
    borrowing_limit_gpus: float | None = None
    lending_limit_gpus: float | None = None
    weight: float = 1.0
    is_held: bool = False
    reclaims: Whom = Whom.NEVER
    preempts: Whom = Whom.NEVER
    borrows: Whom = Whom.NEVER


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Everything a policy may know.

    Attributes
    ----------
    now : float
        Seconds since 1970, UTC.
    history_gpus : mapping of (queue, user) to float
        How many GPUs each has used lately, by the decayed usage history (GPUs, >= 0).
    ahead_gpu_s : mapping of str to float
        GPU time that queues have had and would not have had from their nominal quota alone by
        now (GPU seconds, > 0); see ``scheduler_client.policy.ahead``.
    reservations : tuple of Reservation
        As the previous decision left them.
    evictions : tuple of PastEviction
        Of jobs that have not finished.
    """

    now: float
    cards: tuple[CardState, ...]
    pending: tuple[PendingJob, ...] = ()
    running: tuple[RunningJob, ...] = ()
    queues: tuple[Queue, ...] = ()
    history_gpus: Mapping[UserKey, float] = field(default_factory=dict)
    ahead_gpu_s: Mapping[str, float] = field(default_factory=dict)
    reservations: tuple[Reservation, ...] = ()
    evictions: tuple[PastEviction, ...] = ()


def pressure(view: ClusterView) -> float:
    """Return the share of the cluster's GPUs that running and pending jobs ask for, in [0, 1].

    Examples
    --------
    >>> cards = tuple(CardState(f"gpu{i}", "A100", 40960, 40960) for i in range(4))
    >>> job = JobRequest("7", "ada", "research", "bert", 0.0, gpus=2)
    >>> pressure(ClusterView(0.0, cards, pending=(PendingJob(job),)))
    0.5
    """
    gpus = sum(card.is_healthy for card in view.cards)
    return min(1.0, asked_gpus(view) / gpus) if gpus else 1.0


def asked_gpus(view: ClusterView) -> int:
    """Return how many GPUs running and pending jobs ask for, each for all of its own."""
    held = sum(len(job.card_ids) for job in view.running)
    return held + sum(pending.job.gpus for pending in view.pending)
