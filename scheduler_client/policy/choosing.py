"""The best cards for a job out of groups of equal ones: what `judged` says, for all at once."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, merge, nsmallest
from itertools import islice

import numpy as np
import numpy.typing as npt

from scheduler_client.policy.card_groups import Integers
from scheduler_client.policy.decisions import Reason, RunnerUp
from scheduler_client.policy.filtering import reserved_mem_mib
from scheduler_client.policy.group_tests import (
    Flags,
    allows_all,
    counted,
    facts_of,
    needed,
    number_of,
    quota_allows,
    spared_cells,
    tests_of,
)
from scheduler_client.policy.ledger import added, changes_beside
from scheduler_client.policy.placing import Placed, Search, refusals
from scheduler_client.policy.predictions import UNPREDICTED, CardClass
from scheduler_client.policy.scoring import Candidate, score, worst_slowdown
from scheduler_client.policy.view import CardState

SHOWN = 2
"""Runners-up that are kept with an admission."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Choice:
    """The cards that were found, or how many were refused for which reason.

    Attributes
    ----------
    fitting : int
        Cards that each would do.
    best_free_mem_mib, least_slowdown : number, optional
        The most free memory where memory was short, the least slowdown where it was too much.
    runners_up : tuple of RunnerUp
        The best cards beside those of `placed`.
    """

    placed: Placed | None
    fitting: int
    refused: Counter[Reason]
    best_free_mem_mib: int | None = None
    least_slowdown: float | None = None
    runners_up: tuple[RunnerUp, ...] = ()


@dataclass(frozen=True, slots=True)
class _Judged:
    """The answer for every group.

    Attributes
    ----------
    fits : array of shape (n_groups,), bool
    count : array of shape (n_groups,), int64
        Cards of each group that are allowed.
    scores : array of shape (n_groups,), float64
    allowed : array of shape (n_cells,), bool, optional
        Whether one card is allowed, whosever jobs are on it: by the quota, and by what is
        tolerated beside them; None where all are.
    is_quota_free : bool
        Whether the quota allows all cards that the job asks for, whatever they are.
    """

    fits: Flags
    count: Integers
    scores: Floats
    allowed: Flags | None
    is_quota_free: bool


def best_cards(search: Search) -> Choice:
    """Return the job's best cards, all of one model and all or none of them.

    Cards are ranked by score, then by id; taken are the first that the quota allows together.
    """
    groups, wanted = search.board.groups, search.demand.gpu_model
    refused = refusals(search)
    count = groups.column("count")
    fits = count > 0
    if wanted is not None:
        fits = fits & (groups.column("model") == number_of(groups.models, wanted))
    facts: dict[str, float] = {}
    need = needed(search)
    roomy = np.where(need < 0, groups.column("residents") == 0, need <= groups.column("free"))
    tests = [(Reason.MEMORY, roomy), *tests_of(search)]
    is_quota_free = allows_all(search)
    allowed = None if is_quota_free else quota_allows(search)[groups.cell_column("owners")]
    for reason, does in tests:
        failing = fits & ~does
        if failing.any():
            refused[reason] += int(count[failing].sum())
            facts.update(facts_of(reason, search, failing))
            fits = fits & does
        if reason is Reason.MEMORY and allowed is not None:
            before, count = count, counted(search, allowed)
            refused[Reason.QUOTA] += int((before - count)[fits].sum())
            fits = fits & (count > 0)
    gentle = spared_cells(search)
    if gentle is not None:
        allowed = gentle if allowed is None else allowed & gentle
        before, count = count, counted(search, allowed)
        refused[Reason.TOLERANCE] += int((before - count)[fits].sum())
        fits = fits & (count > 0)
    fitting = int(count[fits].sum())
    placed: Placed | None = None
    runners_up: tuple[RunnerUp, ...] = ()
    if fitting >= search.job.gpus:
        judged = _Judged(fits, count, _scores(search, need), allowed, is_quota_free)
        placed = _best_gang(search, judged)
        if placed is not None:
            runners_up = _runners_up(search, judged, placed)
    return Choice(
        placed,
        fitting,
        +refused,
        int(facts["free"]) if "free" in facts else None,
        facts.get("slowdown"),
        runners_up,
    )


def fitting_cards(search: Search) -> list[str]:
    """Return cards that would do if the quota were no matter, at most as many as are wanted.

    Of each group; in the order of their ids.
    """
    groups, wanted = search.board.groups, search.demand.gpu_model
    need = needed(search)
    fits = np.where(need < 0, groups.column("residents") == 0, need <= groups.column("free"))
    if wanted is not None:
        fits = fits & (groups.column("model") == number_of(groups.models, wanted))
    for _, does in tests_of(search):
        fits = fits & does
    found: list[str] = []
    gentle = spared_cells(search)
    for group in np.flatnonzero(fits):
        cells = (c for c in groups.cells_of[group] if gentle is None or gentle[c])
        ids = merge(*(groups.ids[cell] for cell in cells))
        found += islice(ids, search.job.gpus)
    return sorted(found)


def _scores(search: Search, need: Integers) -> Floats:
    """Return the score of every group, to the last bit as ``scoring.score`` computes it."""
    groups, rules = search.board.groups, search.rules
    total, free = groups.column("total"), groups.column("free")
    residents = groups.column("residents")
    used = total - free
    mem = np.where(need < 0, free, need)
    capacity = np.maximum(1, total)
    if rules.asks:
        _, contention, util = search.outlook.columns()
        of_class = groups.column("card_class")
        cost, util_cost = contention[of_class], util[of_class]
        by_node = 0.5 * util_cost + 0.5 * (used + mem) / capacity
        cost = np.where(np.isnan(util_cost), cost, by_node)
    else:
        cost = np.zeros(len(total))
    filled = np.minimum(1.0, (used + mem) / capacity)
    first, second, third = rules.weights.factors(gang_waits=rules.gang_waits)
    shared = np.where(residents > 0, 1.0, 0.0)
    weighted = first * (1 / (1 + cost)) + second * (1 - filled) + third * shared
    return np.asarray(weighted / (first + second + third), dtype=np.float64)


def _best_gang(search: Search, judged: _Judged) -> Placed | None:
    """Return the best gang of any model; the higher total score, then the later model name."""
    groups = search.board.groups
    model = groups.column("model")
    gangs = []
    for number, name in enumerate(groups.models):
        of_model = np.flatnonzero(judged.fits & (model == number))
        if len(of_model):
            gang = _gang(search, judged, of_model)
            if gang is not None:
                gangs.append((sum(s.total for s in gang.scores), name, gang))
    return max(gangs, key=lambda found: found[:2])[2] if gangs else None


def _gang(search: Search, judged: _Judged, of_model: Integers) -> Placed | None:
    """Return the first cards that the quota allows together; None where they are too few."""
    if int(judged.count[of_model].sum()) < search.job.gpus:
        return None
    changes: dict[str, float] = {}
    chosen: list[str] = []
    for groups in _levels(judged.scores, of_model):
        changes = _taken(search, judged, groups, chosen, changes)
        if len(chosen) == search.job.gpus:
            return _placed(search, chosen, changes)
    return None


def _levels(scores: Floats, of_model: Integers) -> Iterator[list[int]]:
    """Yield groups of equal score together, the best first."""
    order = of_model[np.argsort(-scores[of_model], kind="stable")]
    ends = np.flatnonzero(np.diff(scores[order])) + 1
    first = 0
    for end in (*ends, len(order)):
        yield [int(group) for group in order[first:end]]
        first = end


def _taken(
    search: Search,
    judged: _Judged,
    of_level: list[int],
    chosen: list[str],
    changes: dict[str, float],
) -> dict[str, float]:
    """Take cards of one level by their ids, as many as are wanted; return the new changes.

    A cell whose cards the quota refuses is put aside until the next card has been taken.
    """
    groups, queue, book = search.board.groups, search.job.queue, search.board.ledger.book
    owners, ids, allowed = groups.cell_column("owners"), groups.ids, judged.allowed
    cells = [cell for group in of_level for cell in groups.cells_of[group] if ids[cell]]
    heap = [(ids[c][0], c, 0) for c in cells if allowed is None or allowed[c]]
    heapify(heap)
    aside: list[int] = []
    while heap and len(chosen) < search.job.gpus:
        card_id, cell, place = heappop(heap)
        together = added(changes, changes_beside(queue, groups.owner_sets[owners[cell]]))
        if not judged.is_quota_free and not book.allows(queue, together):
            aside.append(cell)
            continue
        changes = together
        chosen.append(card_id)
        if place + 1 < len(ids[cell]):
            heappush(heap, (ids[cell][place + 1], cell, place + 1))
        for other in aside:
            later = bisect_right(ids[other], card_id)
            if later < len(ids[other]):
                heappush(heap, (ids[other][later], other, later))
        aside = []
    return changes


def _placed(search: Search, card_ids: Sequence[str], changes: dict[str, float]) -> Placed:
    rules = search.rules
    candidates = tuple(_candidate(search, search.board.ledger.cards[c]) for c in card_ids)
    scores = tuple(
        score(candidate, rules.bound, rules.weights, gang_waits=rules.gang_waits)
        for candidate in candidates
    )
    return Placed(candidates, scores, changes)


def _runners_up(search: Search, judged: _Judged, placed: Placed) -> tuple[RunnerUp, ...]:
    """Return the first card of each of the best groups that none of the chosen is in."""
    groups = search.board.groups
    chosen = {groups.group_of(candidate.card) for candidate in placed.candidates}
    found: list[str] = []
    for level in _levels(judged.scores, np.flatnonzero(judged.fits)):
        # Groups are numbered as their cards are listed: only ids rank those of equal score.
        firsts = (_first_card(search, judged.allowed, g) for g in level if g not in chosen)
        found += nsmallest(SHOWN - len(found), firsts)
        if len(found) == SHOWN:
            break
    return tuple(_runner_up(search, card_id) for card_id in found)


def _first_card(search: Search, allowed: Flags | None, group: int) -> str:
    groups = search.board.groups
    cells = (c for c in groups.cells_of[group] if allowed is None or allowed[c])
    return min(groups.ids[cell][0] for cell in cells if groups.ids[cell])


def _runner_up(search: Search, card_id: str) -> RunnerUp:
    rules, card = search.rules, search.board.ledger.cards[card_id]
    candidate = _candidate(search, card)
    graded = score(candidate, rules.bound, rules.weights, gang_waits=rules.gang_waits)
    beside = tuple(resident.job_key for resident in card.residents)
    worst = worst_slowdown(candidate.colocation, rules.bound)
    return RunnerUp(card_id, graded.total, graded.terms, beside, worst)


def _candidate(search: Search, card: CardState) -> Candidate:
    mem_mib = reserved_mem_mib(card, search.demand.mem_mib[card.gpu_model])
    if not search.rules.asks:
        return Candidate(card, mem_mib, UNPREDICTED)
    found = search.forecast.colocation(CardClass.of(card.gpu_model, card.residents))
    return Candidate(card, mem_mib, found or UNPREDICTED)
