"""What every group of equal cards passes: memory, predictions, tolerance, holds, quota."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from scheduler_client.policy.card_groups import Integers
from scheduler_client.policy.decisions import Reason
from scheduler_client.policy.ledger import changes_beside
from scheduler_client.policy.placing import Search

Flags = npt.NDArray[np.bool_]


def needed(search: Search) -> Integers:
    """Return the memory needed on each group's cards (MiB), -1 where nobody knows."""
    groups, need = search.board.groups, search.demand.mem_mib
    by_model = [need.get(model) for model in groups.models]
    table = np.array([-1 if mib is None else mib for mib in by_model], dtype=np.int64)
    return table[groups.column("model")] if len(table) else np.zeros(0, dtype=np.int64)


def tests_of(search: Search) -> list[tuple[Reason, Flags]]:
    """Return, beside memory and quota, what each group has to pass, and whether it does."""
    groups, rules = search.board.groups, search.rules
    tests = []
    if rules.asks:
        worst, _, _ = search.outlook.columns()
        known = worst[groups.column("card_class")]
        tests.append((Reason.NO_PREDICTION, ~np.isnan(known)))
        tests.append((Reason.TOLERANCE, known <= rules.tolerance))
    if search.board.holds.holds:
        open_ = np.array(search.board.holds.open_to(search.job.job_id), dtype=np.bool_)
        tests.append((Reason.RESERVED, open_[groups.column("hold")]))
    return tests


def quota_allows(search: Search) -> Flags:
    """Return whether the quota allows one card, by the set of queues that are on it."""
    book, queue = search.board.ledger.book, search.job.queue
    beside = book.allowed_beside(queue)
    allowed = []
    for owners in search.board.groups.owner_sets:
        if len(owners) == 1:
            allowed.append(bool(beside[book.index.get(owners[0], -1)]))
        else:
            allowed.append(book.allows(queue, changes_beside(queue, owners)))
    return np.array(allowed, dtype=np.bool_)


def spared_cells(search: Search) -> Flags | None:
    """Return whether spared queues' jobs tolerate this one on a card of each cell.

    None where there are no such queues.
    """
    groups, rules = search.board.groups, search.rules
    if not rules.spared or not rules.asks:
        return None
    spared = [not rules.spared.isdisjoint(owners) for owners in groups.owner_sets]
    worst, _, _ = search.outlook.columns()
    slowed = worst[groups.column("card_class")] > rules.spared_tolerance
    owners, group = groups.cell_column("owners"), groups.cell_column("group")
    return ~(np.array(spared, dtype=np.bool_)[owners] & slowed[group])


def counted(search: Search, allowed: Flags) -> Integers:
    """Return how many cards of each group are allowed."""
    groups = search.board.groups
    count = np.where(allowed, groups.cell_column("count"), 0)
    sums = np.bincount(groups.cell_column("group"), count, minlength=len(groups.cells_of))
    return sums.astype(np.int64)


def allows_all(search: Search) -> bool:
    """Return whether the quota allows even whole cards: then it allows every part of them."""
    job = search.job
    return search.board.ledger.book.allows(job.queue, {job.queue: float(job.gpus)})


def facts_of(reason: Reason, search: Search, failing: Flags) -> dict[str, float]:
    """Return the number behind a reason for which groups fail."""
    groups = search.board.groups
    if reason is Reason.MEMORY:
        return {"free": float(groups.column("free")[failing].max())}
    if reason is Reason.TOLERANCE:
        worst, _, _ = search.outlook.columns()
        return {"slowdown": float(worst[groups.column("card_class")[failing]].min())}
    return {}


def number_of(values: Sequence[str], value: str) -> int:
    """Return the place of a value, -1 where it is not there."""
    return values.index(value) if value in values else -1
