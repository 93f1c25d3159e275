"""What the scheduler writes down about an attempt when it starts it, and reads when it ends."""

from dataclasses import dataclass, replace

from data.domain import Estimate
from data.errors import WireError
from data.wire import Json, from_json
from scheduler_client.policy.decisions import Admission, Level


@dataclass(frozen=True, slots=True)
class Joined:
    """That another job came to share a card, and what was predicted to follow from it.

    Attributes
    ----------
    time : float
        When it came (s since 1970, UTC).
    neighbour_key : str
    slowdown : float, optional
        Predicted from then on for the job that was there already.
    """

    time: float
    neighbour_key: str
    slowdown: float | None


@dataclass(frozen=True, slots=True)
class PlacementNote:
    """The decision behind an attempt.

    Attributes
    ----------
    slowdown : Estimate, optional
        Predicted for the job when it was placed; None where the policy does not ask.
    runtime : Estimate, optional
        Predicted then (s).
    neighbour_keys : tuple of str
        Who was there when it came.
    joined : tuple of Joined
        Who came later.
    answer_age_s : float, optional
        How old the oldest answer was that it was predicted from (s).
    """

    policy: str
    card_ids: tuple[str, ...]
    mem_mib: tuple[int, ...]
    level: Level
    reason: str
    is_guaranteed: bool
    slowdown: Estimate | None = None
    runtime: Estimate | None = None
    neighbour_keys: tuple[str, ...] = ()
    joined: tuple[Joined, ...] = ()
    answer_age_s: float | None = None

    @property
    def model_version(self) -> str | None:
        """Which model predicted the slowdown; None where none did."""
        return None if self.slowdown is None else self.slowdown.model_version

    def with_joined(self, joined: Joined) -> "PlacementNote":
        """Return this note with one more neighbour."""
        return replace(self, joined=(*self.joined, joined))

    def to_json(self) -> dict[str, Json]:
        """Return the note as a JSON object, as `to_json` would; a cycle may write a thousand."""
        return {
            "policy": self.policy,
            "card_ids": list(self.card_ids),
            "mem_mib": list(self.mem_mib),
            "level": self.level.value,
            "reason": self.reason,
            "is_guaranteed": self.is_guaranteed,
            "slowdown": _estimate_document(self.slowdown),
            "runtime": _estimate_document(self.runtime),
            "neighbour_keys": list(self.neighbour_keys),
            "joined": [
                {"time": j.time, "neighbour_key": j.neighbour_key, "slowdown": j.slowdown}
                for j in self.joined
            ],
            "answer_age_s": self.answer_age_s,
        }


def placement_note(
    admission: Admission, policy: str, runtime: Estimate | None, neighbour_keys: tuple[str, ...]
) -> PlacementNote:
    """Return what to write down about an admission."""
    return PlacementNote(
        policy=policy,
        card_ids=admission.card_ids,
        mem_mib=admission.mem_mib,
        level=admission.level,
        reason=admission.reason,
        is_guaranteed=admission.is_guaranteed,
        slowdown=admission.slowdown,
        runtime=runtime,
        neighbour_keys=neighbour_keys,
        answer_age_s=admission.answer_age_s,
    )


def read_note(document: object) -> PlacementNote | None:
    """Return the note that was written; None where there is none that this version can read."""
    try:
        return from_json(PlacementNote, document)
    except WireError:  # an attempt of an older version: its decision does not matter any more
        return None


def _estimate_document(estimate: Estimate | None) -> Json:
    if estimate is None:
        return None
    return {
        "value": estimate.value,
        "lower": estimate.lower,
        "upper": estimate.upper,
        "model_version": estimate.model_version,
        "source": estimate.source.value,
        "in_domain": estimate.in_domain,
    }
