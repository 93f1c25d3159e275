"""Lucid: share scores of three classes, packing of equal gangs, no preemption."""

from collections.abc import Sequence

from scheduler_client.baselines.pending import ByKind
from scheduler_client.baselines.shortest import GroupMeans
from scheduler_client.replay.simulation import Simulation
from scheduler_client.replay.truth import Flags

MOST_SHARE = 2
"""The most that the share scores of two jobs on one card may add up to."""


class Lucid:
    """Least predicted GPU time first; alone where cards are empty, else packed by share scores.

    Two jobs may share all their cards if their gangs are of one size and their scores (0 tiny,
    1 medium, 2 jumbo) add up to at most two. The mate with the lowest score is preferred.

    Parameters
    ----------
    scores : sequence of int, by workload
        Lucid's own class of each, in [0, 2].
    fits : array of shape (w, w), bool
        Whether two workloads fit one card's memory.

    Notes
    -----
    Hu et al., "Lucid: A Non-intrusive, Scalable and Interpretable Scheduler for Deep Learning
    Training Jobs", ASPLOS 2023. In its favour, profiles are known at once, without the time on
    profiling nodes; its estimator of durations is replaced by group means.
    """

    name = "lucid"

    def __init__(self, scores: Sequence[int], fits: Flags) -> None:
        self._scores, self._fits = list(scores), fits.tolist()

    def begin(self, simulation: Simulation) -> None:
        """Get ready for a replay."""
        self._simulation = simulation
        self._means = GroupMeans(simulation.trace)
        self._pending: ByKind[tuple[int, int]] = ByKind()

    def submitted(self, job: int) -> None:
        """Take in a job that has arrived."""
        kind = self._simulation.workload[job], self._simulation.gpus[job]
        self._pending.push(kind, self._means.key(job), job)

    def finished(self, job: int) -> None:
        """Take note that a job has left its cards."""
        self._means.observe(job)
        self._pending.freed()

    def schedule(self) -> None:
        """Start what can, shortest first."""
        self._pending.offer(self._starts)

    def _starts(self, kind: tuple[int, int], job: int) -> bool:
        found = self._cards(*kind)
        if found is not None:
            self._simulation.start(job, *found)
            self._pending.freed()  # a gang that now runs alone is a mate that nobody had before
        return found is not None

    def _cards(self, workload: int, gpus: int) -> tuple[list[int], str] | None:
        cards = self._simulation.cards
        if gpus <= len(cards.empty):
            return cards.take_empty(gpus), "alone"
        mates = self._mates_of_one(workload) if gpus == 1 else self._mates_of_gang(workload, gpus)
        if not mates:
            return None
        score, mate = min(mates)
        chosen = cards.half_by_kind[mate] if gpus == 1 else cards.half_by_gang[mate]
        total = score + self._scores[workload]
        return ([next(iter(chosen))] if gpus == 1 else list(chosen)), f"share scores {total}"

    def _mates_of_one(self, workload: int) -> list[tuple[int, int]]:
        here = self._simulation.cards.half_by_kind
        return [(self._scores[w], w) for w in here if self._may_pack(workload, w)]

    def _mates_of_gang(self, workload: int, gpus: int) -> list[tuple[int, int]]:
        simulation = self._simulation
        return [
            (self._scores[simulation.workload[job]], job)
            for job, half in simulation.cards.half_by_gang.items()
            if len(half) == gpus == simulation.gpus[job]
            and self._may_pack(workload, simulation.workload[job])
        ]

    def _may_pack(self, workload: int, other: int) -> bool:
        total = self._scores[workload] + self._scores[other]
        return total <= MOST_SHARE and self._fits[workload][other]
