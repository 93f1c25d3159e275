"""Which cards are kept for whom in one cycle, and who may use them meanwhile (backfill)."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Hold:
    """Cards that are kept for one job.

    Attributes
    ----------
    ready_time : float
        When it is expected to start on them (s since 1970, UTC); infinity where nobody knows.
    """

    job_id: str
    card_ids: tuple[str, ...]
    ready_time: float = float("inf")


@dataclass(frozen=True, slots=True)
class Holds:
    """All holds of a cycle.

    Attributes
    ----------
    holds : tuple of Hold
        No card is in two of them.
    latest_end : mapping of str to float
        By when each pending job would surely have finished if it started now (s since 1970,
        UTC); a job that is absent might never.
    yielding : set of str
        Jobs that let anybody have what is kept for them.
    """

    holds: tuple[Hold, ...] = ()
    latest_end: Mapping[str, float] = field(default_factory=dict)
    yielding: Set[str] = frozenset()

    @property
    def numbers(self) -> dict[str, int]:
        """Return the number (from 1) of the hold that each held card is in."""
        return {c: n for n, hold in enumerate(self.holds, 1) for c in hold.card_ids}

    def open_to(self, job_id: str) -> Sequence[bool]:
        """Return for each number, 0 being no hold at all, whether a job may use its cards now.

        One's own cards always; others' only for as long as they are not needed.

        Examples
        --------
        >>> holds = Holds((Hold("gang", ("gpu0",), ready_time=60.0),), {"short": 50.0})
        >>> holds.open_to("gang"), holds.open_to("short"), holds.open_to("unknown")
        ([True, True], [True, True], [True, False])
        """
        if not self.holds:
            return [True]
        end = self.latest_end.get(job_id, float("inf"))
        mine = {job_id, *self.yielding}
        return [
            True,
            *(hold.job_id in mine or end <= hold.ready_time < float("inf") for hold in self.holds),
        ]

    def yielded_by(self, job_ids: Set[str]) -> "Holds":
        """Return the holds as they are for one to whom these jobs yield."""
        return replace(self, yielding=job_ids)

    def lets(self, job_id: str, card_id: str) -> bool:
        """Return whether a job may use a card now."""
        number = next((n for n, h in enumerate(self.holds, 1) if card_id in h.card_ids), 0)
        return self.open_to(job_id)[number]
