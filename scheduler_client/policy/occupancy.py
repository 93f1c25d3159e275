"""Which run is on which card with how much memory, and who was beside it."""

from collections.abc import Sequence
from dataclasses import replace

from data.domain import Resident, Segment
from data.errors import ClusterError, shown
from scheduler_client.clusters import Launch
from scheduler_client.local.segments import Stay, segments_of
from scheduler_client.policy.view import CardState


class Occupancy:
    """The cards of a cluster and the runs on them; knows nothing of processes or clocks.

    Parameters
    ----------
    cards : sequence of CardState
        All cards, empty.
    """

    def __init__(self, cards: Sequence[CardState]) -> None:
        self._cards = {card.card_id: card for card in cards}
        self._launches: dict[str, Launch] = {}
        self._stays: dict[str, list[Stay]] = {card.card_id: [] for card in cards}

    def cards(self) -> tuple[CardState, ...]:
        """Return all cards with their residents and what is free."""
        return tuple(self._cards.values())

    def enter(self, launch: Launch, start_time: float) -> None:
        """Put a run on its cards.

        Raises
        ------
        ClusterError
            If a card is unknown, named twice, or has too little free memory, or the job is here
            already. Nothing is then changed.
        """
        self._check(launch)
        self._launches[launch.job_id] = launch
        for card_id, mem_mib in zip(launch.card_ids, launch.mem_mib, strict=True):
            resident = Resident(launch.job_id, launch.job_key)
            self._cards[card_id] = self._cards[card_id].with_resident(resident, mem_mib)
            stay = Stay(launch.job_id, launch.job_key, card_id, start_time)
            self._stays[card_id].append(stay)

    def leave(self, job_id: str, finish_time: float) -> None:
        """Take a run from its cards; ask for its segments before the next `forget`."""
        launch = self._launches.pop(job_id)
        for card_id, mem_mib in zip(launch.card_ids, launch.mem_mib, strict=True):
            card = self._cards[card_id]
            residents = tuple(r for r in card.residents if r.job_id != job_id)
            free_mib = card.free_mem_mib + mem_mib
            self._cards[card_id] = replace(card, residents=residents, free_mem_mib=free_mib)
            stays = self._stays[card_id]
            at = next(
                i for i, s in enumerate(stays) if s.job_id == job_id and s.finish_time is None
            )
            stays[at] = replace(stays[at], finish_time=max(stays[at].start_time, finish_time))

    def discard(self, job_id: str) -> None:
        """Take a run from its cards as if it had never been there."""
        card_ids = self._launches[job_id].card_ids
        self.leave(job_id, float("-inf"))
        for card_id in card_ids:
            self._stays[card_id] = [
                s
                for s in self._stays[card_id]
                if s.job_id != job_id or s.finish_time != s.start_time
            ]

    def segments(self, job_id: str, finish_time: float) -> tuple[Segment, ...]:
        """Return a run's stretches with unchanged neighbours, by card and time."""
        found: list[Segment] = []
        for card_id, stays in self._stays.items():
            for stay in (s for s in stays if s.job_id == job_id):
                end = finish_time if stay.finish_time is None else stay.finish_time
                others = [s for s in stays if s is not stay]
                model = self._cards[card_id].gpu_model
                found += segments_of(stay, max(end, stay.start_time), others, model)
        return tuple(found)

    def forget(self) -> None:
        """Drop the stays that no present run was beside."""
        for card_id, stays in self._stays.items():
            present = [s.start_time for s in stays if s.finish_time is None]
            since = min(present, default=float("inf"))
            self._stays[card_id] = [
                s for s in stays if s.finish_time is None or s.finish_time > since
            ]

    def is_alone(self, job_id: str) -> bool:
        """Return whether a run shares none of its cards."""
        card_ids = self._launches[job_id].card_ids
        return all(len(self._cards[card_id].residents) == 1 for card_id in card_ids)

    def _check(self, launch: Launch) -> None:
        unknown = [card_id for card_id in launch.card_ids if card_id not in self._cards]
        if unknown or not launch.card_ids:
            raise ClusterError(
                f"job {launch.job_id}: found cards {shown(unknown)}, wanted known ones"
            )
        if len(set(launch.card_ids)) < len(launch.card_ids):
            raise ClusterError(f"job {launch.job_id}: found a card twice in {launch.card_ids}")
        if launch.job_id in self._launches:
            raise ClusterError(f"job {launch.job_id} runs already")
        for card_id, mem_mib in zip(launch.card_ids, launch.mem_mib, strict=True):
            free_mib = self._cards[card_id].free_mem_mib
            if not 0 <= mem_mib <= free_mib:
                asked = f"{mem_mib} MiB on {card_id}"
                raise ClusterError(f"job {launch.job_id}: found {asked}, wanted at most {free_mib}")
