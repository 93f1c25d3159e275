"""Which cards a job could go to at all: health, model, count and memory, in this order."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil

from data.domain import Estimate, JobRequest, Source
from scheduler_client.policy.decisions import Reason
from scheduler_client.policy.view import CardState, PendingJob

_GUESSED = (Source.COLD_START, Source.HEURISTIC)


@dataclass(frozen=True, slots=True)
class Demand:
    """What one job asks of each of its cards.

    Attributes
    ----------
    gpu_model : str, optional
        The only model that will do.
    mem_mib : mapping of str to (int or None)
        Memory to reserve by GPU model (MiB); None where nobody knows.
    max_jobs_per_card : int
    """

    gpu_model: str | None
    mem_mib: Mapping[str, int | None]
    max_jobs_per_card: int


def refusal(card: CardState, demand: Demand) -> Reason | None:
    """Return why `card` will not do, or None.

    Examples
    --------
    >>> card = CardState("gpu0", "A100", 40960, free_mem_mib=8191)
    >>> refusal(card, Demand(None, {"A100": 8192}, 2))
    <Reason.MEMORY: 'memory'>
    """
    if not card.is_healthy:
        return Reason.HEALTH
    if demand.gpu_model is not None and card.gpu_model != demand.gpu_model:
        return Reason.GPU_MODEL
    if len(card.residents) >= demand.max_jobs_per_card:
        return Reason.CARD_FULL
    return None if fits(card, demand.mem_mib.get(card.gpu_model)) else Reason.MEMORY


def fits(card: CardState, mem_mib: int | None) -> bool:
    """Return whether a job that needs `mem_mib` fits; of unknown need, only on an empty card.

    Examples
    --------
    >>> fits(CardState("gpu0", "A100", 40960, 40960), None)
    True
    """
    if mem_mib is None:
        return not card.residents
    return mem_mib <= card.free_mem_mib


def reserved_mem_mib(card: CardState, mem_mib: int | None) -> int:
    """Return what to reserve on `card`: the need, or everything free where it is unknown."""
    return card.free_mem_mib if mem_mib is None else mem_mib


def needed_mem_mib(job: JobRequest, estimate: Estimate | None, largest_mib: int) -> int | None:
    """Return the memory to reserve for `job` on each card (MiB), or None if nobody knows.

    The upper end of a learnt estimate counts, and a request above it. A mere guess yields to a
    request. No estimate makes a job unplaceable: it is cut at the largest card there is.

    Parameters
    ----------
    largest_mib : int
        Total memory of the largest card the job may go to.

    Examples
    --------
    >>> job = JobRequest("7", "ada", "research", "bert", 0.0, gpu_mem_mib=2048)
    >>> estimate = Estimate(3000.0, 2500.0, 3500.2, "colocast-memory/3", Source.MODEL)
    >>> needed_mem_mib(job, estimate, 40960)
    3501
    """
    request = job.gpu_mem_mib
    if estimate is None:
        return request
    if request is not None and (estimate.source in _GUESSED or not estimate.in_domain):
        return request
    return max(request or 0, min(ceil(estimate.upper), largest_mib))


class Capacity:
    """How large the cards of a cluster are, busy or not, healthy or not.

    Attributes
    ----------
    largest_mib : dict of str to int
        Total memory of the largest card of each GPU model.
    """

    def __init__(self, cards: Iterable[CardState]) -> None:
        self._totals: dict[str, list[int]] = {}
        for card in cards:
            self._totals.setdefault(card.gpu_model, []).append(card.total_mem_mib)
        for totals in self._totals.values():
            totals.sort()
        self.largest_mib = {model: totals[-1] for model, totals in self._totals.items()}

    def is_impossible(self, pending: PendingJob) -> bool:
        """Return whether even the empty cluster could not hold the job as requested."""
        need, wanted = pending.job.gpu_mem_mib or 0, pending.gpu_model
        usable = self._totals if wanted is None else {wanted: self._totals.get(wanted, [])}
        enough = sum(len(totals) - bisect_left(totals, need) for totals in usable.values())
        return enough < pending.job.gpus
