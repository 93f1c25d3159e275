"""Which kinds of cards a cycle may meet, so that all can be predicted before it decides."""

from collections.abc import Iterable, Sequence

from scheduler_client.policy.predictions import CardClass
from scheduler_client.policy.view import CardState

MOST_KEYS = 64
"""Of so many kinds of pending jobs it is asked what would happen beside them."""


def card_classes(
    cards: Iterable[CardState], pending_keys: Sequence[str], max_jobs_per_card: int
) -> tuple[CardClass, ...]:
    """Return the classes of all cards with room, and of those that one more job would make.

    Parameters
    ----------
    pending_keys : sequence of str
        Job keys of pending jobs: any of them may be placed before the job that is asked about.

    Examples
    --------
    >>> cards = [CardState("gpu0", "A100", 8192, 8192), CardState("gpu1", "A100", 8192, 8192)]
    >>> [found.resident_keys for found in card_classes(cards, ["bert"], 2)]
    [(), ('bert',)]
    """
    open_cards = [c for c in cards if c.is_healthy and len(c.residents) < max_jobs_per_card]
    now = {CardClass.of(card.gpu_model, card.residents) for card in open_cards}
    keys = list(dict.fromkeys(pending_keys))[:MOST_KEYS]
    next_ = {
        CardClass(found.gpu_model, tuple(sorted((*found.resident_keys, key))))
        for found in now
        if len(found.resident_keys) + 1 < max_jobs_per_card
        for key in keys
    }
    alone = {CardClass(card.gpu_model) for card in open_cards}  # what memory is asked with
    return tuple(sorted(now | next_ | alone, key=lambda c: (c.gpu_model, c.resident_keys)))
