"""How far each queue is ahead of what it would have had from its own nominal quota alone."""

from collections import Counter
from collections.abc import Iterable, Mapping

from scheduler_client.policy.view import Queue, RunningJob


def ahead_gpu_s(before: float, elapsed_s: float, held_gpus: float, quota_gpus: float) -> float:
    """Return the GPU time that a queue has had and would not have had alone by now (>= 0).

    What it holds above its nominal quota adds to it; what it leaves of its nominal quota takes
    from it, down to nothing: on cards of its own it would be doing then what is done.

    Parameters
    ----------
    before : float
        The same of `elapsed_s` ago (GPU seconds).
    elapsed_s : float
        For so long it has held what it holds; below 0 counts as 0.
    held_gpus : float
        A card that is shared counts whole, as it would on cards of its own.
    quota_gpus : float
        Its nominal quota.

    Notes
    -----
    A leaky bucket: Turner, "New directions in communications (or which way to the information
    age?)", IEEE Communications Magazine 1986.

    Examples
    --------
    >>> ahead_gpu_s(0.0, 3600.0, held_gpus=3, quota_gpus=1)
    7200.0
    >>> ahead_gpu_s(7200.0, 5400.0, 0, 1), ahead_gpu_s(7200.0, 1e9, 0, 1)
    (1800.0, 0.0)
    """
    return max(0.0, before + (held_gpus - quota_gpus) * max(0.0, elapsed_s))


def ahead_by_queue(
    before: Mapping[str, float],
    elapsed_s: float,
    held_gpus: Mapping[str, float],
    queues: Iterable[Queue],
) -> dict[str, float]:
    """Return `ahead_gpu_s` of the queues that are ahead; a queue that has gone is forgotten.

    Examples
    --------
    >>> queues = Queue("a", 1.0), Queue("b", 2.0)
    >>> ahead_by_queue({}, 3600.0, {"a": 3.0, "b": 1.0}, queues)
    {'a': 7200.0}
    """
    found = {
        queue.name: ahead_gpu_s(
            before.get(queue.name, 0.0),
            elapsed_s,
            held_gpus.get(queue.name, 0.0),
            queue.nominal_quota_gpus,
        )
        for queue in queues
    }
    return {name: gpu_s for name, gpu_s in found.items() if gpu_s > 0}


def whole_gpus(running: Iterable[RunningJob]) -> dict[str, float]:
    """Return how many cards the jobs of each queue are on; a card that is shared counts whole.

    Examples
    --------
    >>> whole_gpus([RunningJob("7", "ada", "research", "bert", ("gpu0", "gpu1"), 100.0)])
    {'research': 2.0}
    """
    held: Counter[str] = Counter()
    for job in running:
        held[job.queue] += len(job.card_ids)
    return {name: float(gpus) for name, gpus in held.items()}
