"""How many GPUs each user has held lately: usage that fades with a half-life."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import log

from scheduler_client.policy.view import CardState, RunningJob, UserKey


@dataclass(frozen=True, slots=True)
class Usage:
    """Decayed GPU time by queue and user.

    Attributes
    ----------
    as_of_time : float
        Moment to which everything has decayed (s since 1970, UTC).
    gpu_time_s : mapping of (queue, user) to float
        GPU seconds, each halved for every half-life since it was used.
    """

    as_of_time: float
    gpu_time_s: Mapping[UserKey, float] = field(default_factory=dict)

    def advanced(
        self, now: float, held_gpus: Mapping[UserKey, float], half_life_s: float
    ) -> "Usage":
        """Return the usage at `now`, given the GPUs held since `as_of_time`.

        Notes
        -----
        Exact for constant holdings, so it does not depend on how often it is called. The form of
        Kueue's admission fair sharing (``usageHalfLifeTime``).

        Examples
        --------
        >>> usage = Usage(0.0, {("q", "ada"): 100.0}).advanced(60.0, {}, half_life_s=60.0)
        >>> usage.gpu_time_s
        {('q', 'ada'): 50.0}
        """
        elapsed_s = max(0.0, now - self.as_of_time)  # a clock set back charges nothing
        decay = float(0.5 ** (elapsed_s / half_life_s))
        window_s = half_life_s / log(2)
        charged = {
            key: self.gpu_time_s.get(key, 0.0) * decay
            + held_gpus.get(key, 0.0) * window_s * (1 - decay)
            for key in self.gpu_time_s.keys() | held_gpus.keys()
        }
        return Usage(now, {key: value for key, value in sorted(charged.items()) if value > 1e-6})

    def gpus(self, half_life_s: float) -> dict[UserKey, float]:
        """Return the usage as a rate: what it would be for somebody who always held n GPUs is n.

        Examples
        --------
        >>> forever = Usage(0.0).advanced(1e9, {("q", "ada"): 2.0}, half_life_s=60.0)
        >>> round(forever.gpus(half_life_s=60.0)["q", "ada"], 6)
        2.0
        """
        return {key: value * log(2) / half_life_s for key, value in self.gpu_time_s.items()}


def card_shares(cards: Iterable[CardState]) -> dict[str, float]:
    """Return how many cards each resident job holds; residents of one card hold equal parts.

    Examples
    --------
    >>> from data.domain import Resident
    >>> pair = (Resident("1", "bert"), Resident("2", "gan"))
    >>> card_shares((CardState("gpu0", "A100", 100, 0, pair), CardState("gpu1", "A100", 9, 9)))
    {'1': 0.5, '2': 0.5}
    """
    shares: dict[str, float] = {}
    for card in cards:
        for resident in card.residents:
            shares[resident.job_id] = shares.get(resident.job_id, 0.0) + 1 / len(card.residents)
    return shares


def held_gpus(cards: Iterable[CardState], running: Iterable[RunningJob]) -> dict[UserKey, float]:
    """Return how many cards each user holds now, shared cards in equal parts."""
    shares = card_shares(cards)
    held: dict[UserKey, float] = {}
    for job in running:
        key = (job.queue, job.user)
        held[key] = held.get(key, 0.0) + shares.get(job.job_id, 0.0)
    return held
