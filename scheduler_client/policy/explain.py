"""Why a pending job waits, in one sentence with its numbers."""

from scheduler_client.policy.decisions import Reason, Waiting

_SENTENCES = {
    Reason.IMPOSSIBLE: "asks for more than the whole cluster has",
    Reason.UNKNOWN_QUEUE: "its queue is not in the configuration",
    Reason.HELD: "its queue is held",
    Reason.QUOTA: "its queue may hold no more GPUs now",
    Reason.HEALTH: "no card is healthy",
    Reason.GPU_MODEL: "no healthy card is of the model it asks for",
    Reason.CARD_FULL: "every card that would do has as many jobs as a card may have",
    Reason.MEMORY: "no card with room for one more job has enough free memory",
    Reason.NO_PREDICTION: "every free place is beside a job with which it was never predicted",
    Reason.TOLERANCE: "every free place would slow somebody down more than is tolerated",
    Reason.RESERVED: "the cards that would do are kept for a job that has waited longer",
    Reason.GANG: "fewer cards would do than it needs at once",
    Reason.FREEING: "cards are being freed for it; those who leave them are ending",
}


def explanation(waiting: Waiting) -> str:
    """Return the dominant reason with its evidence.

    Examples
    --------
    >>> explanation(Waiting("7", Reason.TOLERANCE, (("tolerance", 1.5), ("least_slowdown", 1.72))))
    'every free place would slow somebody down more than is tolerated (tolerance 1.5, least
    slowdown 1.72)'
    """
    numbers = ", ".join(f"{_words(name)} {value:g}" for name, value in waiting.evidence)
    sentence = _SENTENCES[waiting.reason]
    return f"{sentence} ({numbers})" if numbers else sentence


def _words(name: str) -> str:
    return name.replace("_", " ")
