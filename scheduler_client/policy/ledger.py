"""What one cycle has given away so far: cards, and who is charged for them."""

from collections.abc import Iterable

from data.domain import JobRequest, Resident
from scheduler_client.policy.usage import held_gpus
from scheduler_client.policy.view import CardState, ClusterView, UserKey


class Ledger:
    """The view's cards and holdings, moving on with every admission of one cycle.

    A job is charged its part of each card: residents of one card share the charge equally, so
    all holdings together never exceed the cards that are busy.

    Attributes
    ----------
    cards : dict of str to CardState
    held : dict of (queue, user) to float
        GPUs held, shared cards in equal parts.
    held_by_queue : dict of str to float
    """

    def __init__(self, view: ClusterView) -> None:
        self.cards = {card.card_id: card for card in view.cards}
        self.held = held_gpus(view.cards, view.running)
        self.held_by_queue: dict[str, float] = {}
        for (queue, _), gpus in self.held.items():
            self.held_by_queue[queue] = self.held_by_queue.get(queue, 0.0) + gpus
        self._owners: dict[str, UserKey] = {
            job.job_id: (job.queue, job.user) for job in view.running
        }

    def admit(self, job: JobRequest, card_ids: Iterable[str], mem_mib: Iterable[int]) -> None:
        """Put a job on cards and move the charges of everybody there."""
        self._owners[job.job_id] = (job.queue, job.user)
        for card_id, reserved_mib in zip(card_ids, mem_mib, strict=True):
            before = self.cards[card_id]
            after = before.with_resident(Resident(job.job_id, job.job_key), reserved_mib)
            self._charge(before, -1.0)
            self._charge(after, +1.0)
            self.cards[card_id] = after

    def changes(self, queue: str, card: CardState) -> dict[str, float]:
        """Return how much more each queue would hold if a job of `queue` came to `card`.

        The residents' parts shrink as the new one's begins: together nothing changes on a card
        that is busy already.
        """
        before, after = len(card.residents), len(card.residents) + 1
        changes = {queue: 1 / after}
        for resident in card.residents:
            owner = self._owners.get(resident.job_id)
            if owner is not None:
                less = 1 / before - 1 / after
                changes[owner[0]] = changes.get(owner[0], 0.0) - less
        return changes

    def _charge(self, card: CardState, gpus: float) -> None:
        for resident in card.residents:
            owner = self._owners.get(resident.job_id)
            if owner is not None:  # a resident that no scheduler of ours has started
                part = gpus / len(card.residents)
                self.held[owner] = self.held.get(owner, 0.0) + part
                self.held_by_queue[owner[0]] = self.held_by_queue.get(owner[0], 0.0) + part


def added(changes: dict[str, float], more: dict[str, float]) -> dict[str, float]:
    """Return the sum of two sets of changes, by queue.

    Examples
    --------
    >>> added({"a": 0.5}, {"a": 0.5, "b": -0.5})
    {'a': 1.0, 'b': -0.5}
    """
    return changes | {queue: changes.get(queue, 0.0) + gpus for queue, gpus in more.items()}
