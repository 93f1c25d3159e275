"""What somebody whose job waits can do about it."""

from scheduler_client.policy.decisions import Reason, Waiting

_STEPS = {
    Reason.IMPOSSIBLE: "ask for fewer cards, less memory on each, or another GPU model",
    Reason.UNKNOWN_QUEUE: "submit to a queue of the configuration, or add this one to it",
    Reason.HELD: "ask whoever runs the scheduler to take stopPolicy: Hold off the queue",
    Reason.HEALTH: "look at the cards: failed starts rest a card for a while; see the log",
    Reason.GPU_MODEL: "leave out --gpu-model, or wait until a card of that model is well",
    Reason.CARD_FULL: "wait for a job to end; `max_jobs_per_card` says how many may share",
    Reason.NO_PREDICTION: "wait for an empty card, or measure the pair with `colocast profile`",
    Reason.RESERVED: "wait, or name a --limit short enough to be let in before (backfill)",
    Reason.GANG: "wait: cards are kept for it once it has waited `reservation.after_s`",
    Reason.FREEING: "nothing: it starts as soon as the jobs on its cards have ended",
}


def next_step(waiting: Waiting) -> str:
    """Return what would help, for the reason that a job waits for.

    Examples
    --------
    >>> numbers = (("needed_mem_mib", 9e3), ("best_free_mem_mib", 8e3))
    >>> next_step(Waiting("7", Reason.MEMORY, numbers))
    'wait for a card with 9000 MiB free, or ask for at most 8000 with --gpu-mem-mib'
    """
    numbers = dict(waiting.evidence)
    if waiting.reason is Reason.MEMORY:
        needed, best = numbers.get("needed_mem_mib"), numbers.get("best_free_mem_mib")
        if needed is None or best is None:
            return "name its memory with --gpu-mem-mib: of unknown need it wants an empty card"
        return (
            f"wait for a card with {needed:.0f} MiB free, or ask for at most {best:.0f}"
            " with --gpu-mem-mib"
        )
    if waiting.reason is Reason.QUOTA:
        held = numbers.get("held_gpus", 0.0)
        return f"wait for jobs of its queue (it holds {held:g} GPUs) or of its cohort to end"
    if waiting.reason is Reason.TOLERANCE:
        least = numbers.get("least_slowdown")
        wanted = "" if least is None else f" of at least {least:.2f}"
        return f"wait for an empty card, or raise tolerance.most to allow a slowdown{wanted}"
    return _STEPS[waiting.reason]
