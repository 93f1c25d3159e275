"""First in, first out: with fixed quotas, over one pool, and sharing cards blindly."""

from collections import deque

from data.errors import SettingError
from scheduler_client.baselines.room import blind_cards
from scheduler_client.replay.simulation import Simulation
from scheduler_client.replay.truth import Flags


class FifoFixed:
    """Each queue on cards of its own, strictly in order of arrival, nothing shared.

    Notes
    -----
    The baseline of the sources ("fixed quotas"): a queue that is full waits, whoever else is
    idle, and its first job blocks those behind it.
    """

    name = "fifo_fixed"

    def begin(self, simulation: Simulation) -> None:
        """Get ready for a replay.

        Raises
        ------
        SettingError
            If the quotas are more than there is, or a gang is larger than its queue's quota.
        """
        self._simulation = simulation
        self._free = list(simulation.site.quotas)
        largest = [0] * len(self._free)
        for queue, gpus in zip(simulation.queue, simulation.gpus, strict=True):
            largest[queue] = max(largest[queue], gpus)
        too_small = any(most > quota for most, quota in zip(largest, self._free, strict=True))
        if sum(self._free) > simulation.cards.count or too_small:
            wanted = f"at least {largest}, together at most {simulation.cards.count}"
            raise SettingError(f"fixed quotas: found {self._free}, wanted {wanted}")
        self._waiting: list[deque[int]] = [deque() for _ in self._free]

    def submitted(self, job: int) -> None:
        """Take in a job that has arrived."""
        self._waiting[self._simulation.queue[job]].append(job)

    def finished(self, job: int) -> None:
        """Take note that a job has left its cards."""
        self._free[self._simulation.queue[job]] += self._simulation.gpus[job]

    def schedule(self) -> None:
        """Start the first jobs of every queue that has cards for them."""
        simulation = self._simulation
        for queue, waiting in enumerate(self._waiting):
            while waiting and simulation.gpus[waiting[0]] <= self._free[queue]:
                job = waiting.popleft()
                self._free[queue] -= simulation.gpus[job]
                simulation.start(job, simulation.cards.take_empty(simulation.gpus[job]), "alone")


class FifoPooled:
    """All cards in one pool, strictly in order of arrival, nothing shared."""

    name = "fifo_pooled"

    def begin(self, simulation: Simulation) -> None:
        """Get ready for a replay."""
        self._simulation = simulation
        self._waiting: deque[int] = deque()

    def submitted(self, job: int) -> None:
        """Take in a job that has arrived."""
        self._waiting.append(job)

    def finished(self, job: int) -> None:
        """Take note that a job has left its cards."""

    def schedule(self) -> None:
        """Start the first jobs as long as there are cards for them."""
        simulation, waiting = self._simulation, self._waiting
        while waiting and simulation.gpus[waiting[0]] <= len(simulation.cards.empty):
            job = waiting.popleft()
            simulation.start(job, simulation.cards.take_empty(simulation.gpus[job]), "alone")


class FifoShared:
    """One pool in order of arrival; where no card is empty, any that has memory is shared.

    Parameters
    ----------
    fits : array of shape (w, w), bool
        Whether two workloads fit one card's memory.

    Notes
    -----
    "Kubernetes shared" of the Sparse document: GPU sharing by memory and count, without asking
    what the neighbours do to each other.
    """

    name = "fifo_shared"

    def __init__(self, fits: Flags) -> None:
        self._fits: list[list[bool]] = fits.tolist()

    def begin(self, simulation: Simulation) -> None:
        """Get ready for a replay."""
        self._simulation = simulation
        self._waiting: deque[int] = deque()

    def submitted(self, job: int) -> None:
        """Take in a job that has arrived."""
        self._waiting.append(job)

    def finished(self, job: int) -> None:
        """Take note that a job has left its cards."""

    def schedule(self) -> None:
        """Start the first jobs as long as cards with room are enough for them."""
        simulation, waiting = self._simulation, self._waiting
        while waiting:
            job = waiting[0]
            cards = blind_cards(simulation, job, self._fits[simulation.workload[job]])
            if cards is None:
                return
            waiting.popleft()
            simulation.start(job, cards, "wherever memory allows")
