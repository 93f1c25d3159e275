"""What the service answered, believed only if it can be true: shapes, ranges, order, ids."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape
from re import sub
from typing import TypeVar

from data.domain import Card, Estimate, Placement, ServedModel
from data.errors import PredictionInvalidError, WireError
from data.wire import from_json
from scheduler_client.forecast.quick_answers import quick_estimate, quick_placement

T = TypeVar("T")

LEAST_SLOWDOWN, MOST_SLOWDOWN = 0.05, 1e4
MOST_MIB = 1e9
MOST_RUNTIME_S = 1e10
SHOWN_CHARACTERS = 200
SLACK = 1e-9  # bounds that were computed in another order


@dataclass(frozen=True, slots=True)
class FinishedReceipt:
    """What the service did with finished jobs: newly logged, known before, newest log entry."""

    accepted: int
    duplicates: int
    sequence: int


def placements_from(body: bytes, cards: Sequence[Card]) -> tuple[Placement, ...]:
    """Return one placement for each of `cards`, in their order.

    Raises
    ------
    PredictionInvalidError
        If the body says anything else, or something that cannot be.
    """
    items = _list(_object(body), "placements")
    found = [quick_placement(item) or _decoded(Placement, item) for item in items]
    by_card = {placement.card_id: placement for placement in found}
    asked = {card.card_id for card in cards}
    if len(found) != len(cards) or by_card.keys() != asked:
        raise PredictionInvalidError(
            f"found placements on {len(by_card)} cards, wanted one for each of {len(asked)}"
        )
    return tuple(_checked_placement(by_card[card.card_id], card) for card in cards)


def runtimes_from(body: bytes, jobs: int) -> tuple[Estimate, ...]:
    """Return the runtime estimates (s) of so many jobs, in the order they were asked.

    Raises
    ------
    PredictionInvalidError
        If the body says anything else, or something that cannot be.
    """
    items = _list(_object(body), "estimates")
    found = [quick_estimate(item) or _decoded(Estimate, item) for item in items]
    if len(found) != jobs:
        raise PredictionInvalidError(f"found {len(found)} estimates, wanted {jobs}")
    return tuple(_within("runtime", estimate, 0, MOST_RUNTIME_S) for estimate in found)


def receipt_from(body: bytes) -> FinishedReceipt:
    """Return what became of finished jobs, or raise `PredictionInvalidError`."""
    document = _object(body)
    names = ("accepted", "duplicates", "sequence")
    known = {name: document[name] for name in names if name in document}
    return _decoded(FinishedReceipt, known)


def models_from(body: bytes) -> tuple[ServedModel, ...]:
    """Return what the service says of its models, or raise `PredictionInvalidError`."""
    return tuple(_decoded(ServedModel, item) for item in _list(_object(body), "models"))


def error_text(body: bytes) -> str:
    """Return what an error answer says, whatever its shape, in one short line.

    BentoML answers errors of the application as ``{"error": ...}``, its own as plain text, and
    proxies before it as HTML or with nothing.

    Examples
    --------
    >>> error_text(b'{"error": "found gpus = 0, wanted at least 1"}')
    'found gpus = 0, wanted at least 1'
    >>> error_text(b"<html><body><h1>502 Bad Gateway</h1></body></html>"), error_text(b"")
    ('502 Bad Gateway', 'no explanation')
    """
    text = body.decode("utf-8", "replace")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict) and document.get("error"):
        text = str(document["error"])
    plain = " ".join(unescape(sub(r"<[^>]*>", " ", text)).split())
    return plain[:SHOWN_CHARACTERS] or "no explanation"


def _object(body: bytes) -> dict[str, object]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise PredictionInvalidError(f"found {_start(body)}, wanted JSON") from error
    if not isinstance(document, dict):
        raise PredictionInvalidError(f"found {_start(body)}, wanted a JSON object")
    return document


def _start(body: bytes) -> str:
    return repr(body[:60]) if body else "an empty body"


def _list(document: dict[str, object], name: str) -> list[object]:
    items = document.get(name)
    if not isinstance(items, list):
        raise PredictionInvalidError(f"found no list {name!r}, wanted one")
    return items


def _decoded(kind: type[T], item: object) -> T:
    try:
        return from_json(kind, item)
    except WireError as error:
        raise PredictionInvalidError(str(error)) from error


def _checked_placement(placement: Placement, card: Card) -> Placement:
    neighbours = placement.neighbour_slowdowns
    if len(neighbours) != len(card.residents):
        found = f"{len(neighbours)} slowdowns of neighbours on {card.card_id}"
        raise PredictionInvalidError(f"found {found}, wanted {len(card.residents)}")
    for estimate in (placement.job_slowdown, *neighbours):
        _within("slowdown", estimate, LEAST_SLOWDOWN, MOST_SLOWDOWN)
    _within("memory", placement.memory, 0, MOST_MIB)
    return placement


def _within(name: str, estimate: Estimate, least: float, most: float) -> Estimate:
    lower, value, upper = estimate.lower, estimate.value, estimate.upper
    ordered = lower <= value * (1 + SLACK) and value <= upper * (1 + SLACK)
    if not (ordered and least <= value and upper <= most):
        found = f"{name} {value:g} in [{lower:g}, {upper:g}]"
        wanted = f"a value within its interval and in [{least:g}, {most:g}]"
        raise PredictionInvalidError(f"found {found}, wanted {wanted}")
    return estimate
