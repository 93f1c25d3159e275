"""Who was beside whom on a card, and when: exact, whatever the order in which it is learnt."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from data.domain import Segment


@dataclass(frozen=True, slots=True)
class Stay:
    """One run's time on one card; `finish_time` is None while it lasts (s since 1970, UTC)."""

    job_id: str
    job_key: str
    card_id: str
    start_time: float
    finish_time: float | None = None


def segments_of(
    stay: Stay, finish_time: float, others: Iterable[Stay], gpu_model: str
) -> tuple[Segment, ...]:
    """Return the stretches of a stay during which its neighbours did not change.

    Parameters
    ----------
    finish_time : float
        When the stay ended, or up to when it is asked about.
    others : iterable of Stay
        All other stays on the same card, also past ones; one without `finish_time` lasts.

    Returns
    -------
    tuple of Segment
        In order, without gaps from the stay's start to its end; none has length 0, unless the
        whole stay has.

    Examples
    --------
    >>> mine = Stay("1", "bert", "gpu0", 0.0)
    >>> segments = segments_of(mine, 30.0, [Stay("2", "gan", "gpu0", 10.0, 20.0)], "A100")
    >>> [(s.start_time, s.finish_time, s.neighbour_keys) for s in segments]
    [(0.0, 10.0, ()), (10.0, 20.0, ('gan',)), (20.0, 30.0, ())]
    """
    beside = [s for s in others if s.start_time < finish_time and _end(s) > stay.start_time]
    moments = {stay.start_time, finish_time}
    for other in beside:
        moments.update((other.start_time, _end(other)))
    cuts = sorted(moment for moment in moments if stay.start_time <= moment <= finish_time)
    spans = list(pairwise(cuts)) or [(stay.start_time, finish_time)]
    return tuple(
        Segment(start, end, stay.card_id, gpu_model, _keys_within(beside, start, end))
        for start, end in spans
    )


def _end(stay: Stay) -> float:
    return float("inf") if stay.finish_time is None else stay.finish_time


def _keys_within(beside: Iterable[Stay], start: float, end: float) -> tuple[str, ...]:
    there = (s.job_key for s in beside if s.start_time < end and _end(s) > start)
    return tuple(sorted(there))
