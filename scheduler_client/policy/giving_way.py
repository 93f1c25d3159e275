"""Who may have to give way to a job that waits, and by what right."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from scheduler_client.policy.decisions import Ground
from scheduler_client.policy.eviction_cost import EvictionHistory, EvictionRules
from scheduler_client.policy.placing import Search
from scheduler_client.policy.quota import is_guaranteed
from scheduler_client.policy.service_levels import LevelRules, attained_gpu_s
from scheduler_client.policy.view import ClusterView, Queue, RunningJob, Whom

OWED = (Ground.RECLAIM, Ground.PASSED)
"""By which a queue takes back what is its own."""

_Test = Callable[[RunningJob], bool]


@dataclass(frozen=True, slots=True)
class Standing:
    """What goes by attained GPU time in a cycle; see `LevelRules`.

    Attributes
    ----------
    level : mapping of str to int
        Of every running job that has run so long that it may give way.
    highest : int
        The highest of these; 0 where there are none.
    """

    rules: LevelRules
    level: Mapping[str, int]
    highest: int


@dataclass(frozen=True, slots=True)
class Field:
    """What a search for victims goes by.

    Attributes
    ----------
    running : mapping of str to RunningJob
    costs : mapping of str to float
        Of evicting each running job (GPU seconds).
    spoken_for : set of str
        Jobs that are ending, or are victims already.
    kept_since : mapping of str to float
        Since when quota and cards are kept for the jobs with a reservation (s since 1970, UTC).
    whole_gpus : mapping of str to float
        Cards that each queue's jobs are on, shared ones whole.
    yielding : set of str
        Jobs that cards are kept for before they can be within their queue's quota.
    kept_cards : set of str
        Cards of those who had others evicted before in this cycle: nobody else gets in there.
    is_last_resort : bool
        Whether also those may give way who borrow only once their neighbours have left, and
        those yield who would borrow.
    standing : Standing, optional
        None where attained GPU time does not order.
    """

    queues: Mapping[str, Queue]
    running: Mapping[str, RunningJob]
    costs: Mapping[str, float]
    history: EvictionHistory
    rules: EvictionRules
    now: float
    spoken_for: frozenset[str]
    kept_since: Mapping[str, float]
    whole_gpus: Mapping[str, float]
    yielding: frozenset[str]
    kept_cards: frozenset[str] = frozenset()
    is_last_resort: bool = False
    standing: Standing | None = None


@dataclass(frozen=True, slots=True)
class Rights:
    """Whom a job that waits may have evicted, by id, and by what right."""

    ground: Ground
    field: Field
    victims: Mapping[str, RunningJob]


def standing_of(view: ClusterView, rules: LevelRules, within_quota: frozenset[str]) -> Standing:
    """Return the levels of the running jobs that may give way to one of a lower level.

    Not those of the queues `within_quota`.
    """
    since = view.now - rules.least_run_s
    levels = {
        job.job_id: rules.level(attained_gpu_s(job, view.now))
        for job in view.running
        if job.start_time <= since and job.queue not in within_quota
    }
    return Standing(rules, levels, max(levels.values(), default=0))


def queues_within_quota(view: ClusterView) -> frozenset[str]:
    """Return the queues that the nominal quota alone would do for.

    Their running and pending jobs ask for no more, and what they have borrowed before they would
    have had by now without: sharing owes them no less than cards of their own.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from data.domain import JobRequest
    >>> from scheduler_client.policy.view import PendingJob
    >>> queues = Queue("a", 2.0, "all"), Queue("b", 2.0, "all")
    >>> job = JobRequest("7", "ada", "a", "bert", 0.0, gpus=3)
    >>> view = ClusterView(0.0, (), (PendingJob(job),), queues=queues)
    >>> sorted(queues_within_quota(view))
    ['b']
    >>> sorted(queues_within_quota(replace(view, ahead_gpu_s={"b": 60.0})))
    []
    """
    asked = dict.fromkeys((queue.name for queue in view.queues), 0.0)
    for running in view.running:
        asked[running.queue] = asked.get(running.queue, 0.0) + len(running.card_ids)
    for pending in view.pending:
        queue = pending.job.queue
        asked[queue] = asked.get(queue, 0.0) + pending.job.gpus
    return frozenset(
        q.name
        for q in view.queues
        if asked[q.name] <= q.nominal_quota_gpus and not view.ahead_gpu_s.get(q.name)
    )


def rights_of(search: Search, field: Field, ground: Ground) -> Rights | None:
    """Return the running jobs that may have to give way to this one; None where there are none.

    ``RECLAIM``: a queue takes back what is within its nominal quota from queues that hold more
    than theirs. ``PRIORITY``: a job takes the place of another of the same user. ``SERVICE``: it
    takes the place of one of a higher level, of its queue or of one that has borrowed; a job
    within its queue's nominal quota counts as one of the lowest level. ``PASSED``: a gang with a
    reservation takes its nominal quota back from smaller jobs of its queue that started since, and
    as by ``RECLAIM``.
    """
    test = _TESTS[ground](search, field, field.queues[search.job.queue])
    if test is None:
        return None
    spared = field.spoken_for | field.history.gave_way_to(search.job.job_id)
    victims = {
        job.job_id: job
        for job in field.running.values()
        if test(job) and job.job_id not in spared and not field.history.is_worn(job.job_id)
    }
    return Rights(ground, field, victims) if victims or field.is_last_resort else None


def is_owed(search: Search, field: Field) -> bool:
    """Return whether a job asks for what is its queue's own, and may have it taken back."""
    queue = field.queues[search.job.queue]
    return any(_TESTS[ground](search, field, queue) is not None for ground in OWED)


def _reclaims(search: Search, field: Field, queue: Queue) -> _Test | None:
    if queue.reclaims is Whom.NEVER or queue.cohort is None or not _is_within(search, queue):
        return None
    lent_to = _borrowers(search, field, queue)
    is_any, priority = queue.reclaims is Whom.ANY, search.pending.priority
    grace_s = 0.0 if field.standing is None else field.standing.rules.grace_s
    long_ago, waits_since = field.now - grace_s, field.history.waits_since(search.job)
    return lambda job: (
        job.queue in lent_to
        and (is_any or job.priority < priority)
        and (job.start_time <= long_ago or job.start_time > waits_since)
    )


def _outranks(search: Search, field: Field, queue: Queue) -> _Test | None:
    if queue.preempts is Whom.NEVER:
        return None
    me, since = (queue.name, search.job.user), field.now - field.rules.least_run_s
    return lambda job: (
        (job.queue, job.user) == me
        and job.start_time <= since
        and job.priority < search.pending.priority
    )


def _has_had_less(search: Search, field: Field, queue: Queue) -> _Test | None:
    standing = field.standing
    if standing is None:
        return None
    mine = 0 if _is_within(search, queue) else standing.rules.level(search.pending.attained_gpu_s)
    queues = set() if queue.preempts is Whom.NEVER else {queue.name}
    if queue.borrows is not Whom.NEVER and queue.cohort is not None:
        queues |= _borrowers(search, field, queue)
    if not queues or mine >= standing.highest:
        return None
    level = standing.level
    return lambda job: level.get(job.job_id, 0) > mine and job.queue in queues


def _was_passed(search: Search, field: Field, queue: Queue) -> _Test | None:
    since = field.kept_since.get(search.job.job_id)
    if since is None or queue.preempts is Whom.NEVER:
        return None
    passed_by = {
        job.job_id
        for job in field.running.values()
        if job.queue == queue.name
        and job.start_time > since
        and len(job.card_ids) < search.job.gpus
    }
    later = _without(passed_by - field.spoken_for, search, field)
    if not _is_within(later, queue):
        return None
    reclaims = _reclaims(later, field, queue)
    return lambda job: job.job_id in passed_by or (reclaims is not None and reclaims(job))


_TESTS: Mapping[Ground, Callable[[Search, Field, Queue], _Test | None]] = {
    Ground.SERVICE: _has_had_less,
    Ground.RECLAIM: _reclaims,
    Ground.PRIORITY: _outranks,
    Ground.PASSED: _was_passed,
}


def _borrowers(search: Search, field: Field, queue: Queue) -> set[str]:
    """Return the other queues of a cohort that hold more than their nominal quota.

    As a last resort, where there are any, also those that will once their jobs' neighbours have
    left.
    """
    others = [q for q in field.queues.values() if q.cohort == queue.cohort and q.name != queue.name]
    found = _over(others, search.board.ledger.held_by_queue)
    return _over(others, field.whole_gpus) if found and field.is_last_resort else found


def _over(queues: Iterable[Queue], held_gpus: Mapping[str, float]) -> set[str]:
    return {q.name for q in queues if not is_guaranteed(q, held_gpus.get(q.name, 0.0))}


def _without(job_ids: Iterable[str], search: Search, field: Field) -> Search:
    """Return a search as it would be if these jobs had left."""
    ledger = search.board.ledger.copy()
    for job_id in job_ids:
        ledger.release(field.running[job_id])
    return replace(search, board=replace(search.board, ledger=ledger))


def _is_within(search: Search, queue: Queue) -> bool:
    return is_guaranteed(queue, search.board.ledger.book.held(queue.name) + search.job.gpus)
