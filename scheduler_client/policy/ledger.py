"""What one cycle has given away so far: cards, and who is charged for them."""

from collections.abc import Collection, Iterable, Sequence
from copy import copy
from dataclasses import replace

from data.domain import JobRequest, Resident
from scheduler_client.policy.quota_book import QuotaBook
from scheduler_client.policy.usage import held_gpus
from scheduler_client.policy.view import CardState, ClusterView, RunningJob, UserKey

_NOBODY: UserKey = ("", "")


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
    book : QuotaBook
        The same by queue, with what each may still take.
    """

    def __init__(self, view: ClusterView) -> None:
        self.cards = {card.card_id: card for card in view.cards}
        self.held = held_gpus(view.cards, view.running)
        self.held_by_queue: dict[str, float] = {}
        for (queue, _), gpus in self.held.items():
            self.held_by_queue[queue] = self.held_by_queue.get(queue, 0.0) + gpus
        self.book = QuotaBook(view.queues, self.held_by_queue)
        self._owners: dict[str, UserKey] = {
            job.job_id: (job.queue, job.user) for job in view.running
        }
        self._changed: set[UserKey] = set()

    def admit(self, job: JobRequest, card_ids: Iterable[str], mem_mib: Iterable[int]) -> None:
        """Put a job on cards and move the charges of everybody there."""
        self._owners[job.job_id] = (job.queue, job.user)
        for card_id, reserved_mib in zip(card_ids, mem_mib, strict=True):
            before = self.cards[card_id]
            after = before.with_resident(Resident(job.job_id, job.job_key), reserved_mib)
            self._charge(before, -1.0)
            self._charge(after, +1.0)
            self.cards[card_id] = after

    def release(self, job: RunningJob) -> None:
        """Take a running job from its cards and move the charges of everybody there."""
        for place, card_id in enumerate(job.card_ids):
            before = self.cards[card_id]
            stay = tuple(r for r in before.residents if r.job_id != job.job_id)
            if len(stay) < len(before.residents):
                freed_mib = job.mem_mib[place] if job.mem_mib else 0
                if not stay:
                    freed_mib = before.total_mem_mib - before.free_mem_mib
                free_mib = min(before.total_mem_mib, before.free_mem_mib + freed_mib)
                after = replace(before, residents=stay, free_mem_mib=free_mib)
                self._charge(before, -1.0)
                self._charge(after, +1.0)
                self.cards[card_id] = after

    def freed_by(self, job: RunningJob, gone: Collection[str]) -> dict[str, float]:
        """Return by how much the queues hold more once a job leaves after others have.

        Its own holds less; that of a neighbour who stays has more of the card.
        """
        gained: dict[str, float] = {}
        for card_id in job.card_ids:
            here = [r.job_id for r in self.cards[card_id].residents if r.job_id not in gone]
            stay = [name for name in here if name != job.job_id]
            for names, sign in ((here, -1.0), (stay, 1.0)):
                for name in names:
                    queue = self._owners.get(name, _NOBODY)[0]
                    gained[queue] = gained.get(queue, 0.0) + sign / len(names)
        return gained

    def copy(self) -> "Ledger":
        """Return a ledger that moves on by itself, to try things out."""
        other = copy(self)
        other.cards, other.held = dict(self.cards), dict(self.held)
        other.held_by_queue, other._owners = dict(self.held_by_queue), dict(self._owners)
        other.book, other._changed = self.book.copy(), set()
        return other

    def changed(self) -> set[UserKey]:
        """Return whose holdings have changed since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def owners(self, card: CardState) -> tuple[str, ...]:
        """Return the queues of a card's residents, sorted; ``""`` for a resident of nobody's."""
        if not card.residents:
            return ()
        owners = [self._owners.get(resident.job_id, _NOBODY)[0] for resident in card.residents]
        owners.sort()
        return tuple(owners)

    def changes(self, queue: str, card: CardState) -> dict[str, float]:
        """Return how much more each queue would hold if a job of `queue` came to `card`.

        The residents' parts shrink as the new one's begins: together nothing changes on a card
        that is busy already.
        """
        return changes_beside(queue, self.owners(card))

    def _charge(self, card: CardState, gpus: float) -> None:
        for resident in card.residents:
            owner = self._owners.get(resident.job_id)
            if owner is not None:  # a resident that no scheduler of ours has started
                part = gpus / len(card.residents)
                self.held[owner] = self.held.get(owner, 0.0) + part
                by_queue = self.held_by_queue.get(owner[0], 0.0) + part
                self.held_by_queue[owner[0]] = by_queue
                self.book.hold(owner[0], by_queue)
                self._changed.add(owner)


def changes_beside(queue: str, owners: Sequence[str]) -> dict[str, float]:
    """Return how much more each queue would hold if a job of `queue` came beside jobs of `owners`.

    Examples
    --------
    >>> changes_beside("a", ["b"]), changes_beside("a", ["a"]), changes_beside("a", [])
    ({'a': 0.5, 'b': -0.5}, {'a': 0.0}, {'a': 1.0})
    """
    before, after = len(owners), len(owners) + 1
    changes = {queue: 1 / after}
    for owner in owners:
        if owner:
            changes[owner] = changes.get(owner, 0.0) - (1 / before - 1 / after)
    return changes


def added(changes: dict[str, float], more: dict[str, float]) -> dict[str, float]:
    """Return the sum of two sets of changes, by queue.

    Examples
    --------
    >>> added({"a": 0.5}, {"a": 0.5, "b": -0.5})
    {'a': 1.0, 'b': -0.5}
    """
    return changes | {queue: changes.get(queue, 0.0) + gpus for queue, gpus in more.items()}
