"""Everything that happens in a replay, a row an event and card, kept as columns."""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from scheduler_client.replay.trace import Trace

Event = Literal["submit", "start", "change", "preempt", "finish"]
EVENTS: tuple[Event, ...] = ("submit", "start", "change", "preempt", "finish")
NOBODY = -1

Columns = Mapping[str, "np.ndarray[tuple[int], np.dtype[np.generic]]"]


@dataclass(frozen=True, slots=True)
class Happening:
    """What happens to one job at one moment.

    Attributes
    ----------
    work_s : float
        As seconds of running alone: at ``submit`` the work owed, else the work done so far; at
        ``preempt`` what is left of it after the loss, less the restart (so it may be negative).
    reason : str
        Of a start: the placement and the tolerance it was placed under; of an eviction: why.
    """

    time_s: float
    event: Event
    job: int
    work_s: float
    reason: str = ""


class EventLog:
    """Rows in order of time; ``submit`` has one row a job, the others one row a card.

    A ``change`` says that the neighbour on one card of a running job is now another one, or
    nobody. So at every moment the rows say who is on each card, beside whom, and how fast.
    """

    def __init__(self) -> None:
        self._time_s, self._work_s, self._slowdown = array("d"), array("d"), array("d")
        self._job, self._attempt, self._card = array("q"), array("q"), array("q")
        self._neighbour, self._event, self._reason = array("q"), array("b"), array("q")
        self._reasons: dict[str, int] = {}

    def add(
        self, what: Happening, attempt: int, card: int, neighbour: int, slowdown: float
    ) -> None:
        """Append one row.

        Parameters
        ----------
        card, neighbour : int
            -1 for none.
        slowdown : float
            Of the job on this card (1 alone); the gang runs at its slowest card.
        """
        self._time_s.append(what.time_s)
        self._work_s.append(what.work_s)
        self._slowdown.append(slowdown)
        self._job.append(what.job)
        self._attempt.append(attempt)
        self._card.append(card)
        self._neighbour.append(neighbour)
        self._event.append(EVENTS.index(what.event))
        self._reason.append(self._reasons.setdefault(what.reason, len(self._reasons)))

    def __len__(self) -> int:
        return len(self._time_s)

    def columns(self, trace: Trace, gpus_per_node: int) -> Columns:
        """Return the log as columns of equal length.

        Returns
        -------
        mapping of str to array of shape (n,)
            ``job_id``, ``attempt`` (1 is the first), ``event``, ``time_s``, ``node`` and ``gpu``
            (-1 at ``submit``), ``neighbour`` (a job id, empty: none), ``slowdown``, ``reason``;
            besides ``queue``, ``gpus`` (of the gang) and ``work_s`` (see `Happening`).
        """
        job, card = np.frombuffer(self._job, np.int64), np.frombuffer(self._card, np.int64)
        ids = np.array([*trace.job_ids, ""], dtype=object)
        neighbour = np.frombuffer(self._neighbour, np.int64)
        on_card = card >= 0
        return {
            "job_id": ids[job],
            "attempt": np.frombuffer(self._attempt, np.int64),
            "event": np.array(EVENTS, dtype=object)[np.frombuffer(self._event, np.int8)],
            "time_s": np.frombuffer(self._time_s, np.float64),
            "node": np.where(on_card, card // gpus_per_node, NOBODY),
            "gpu": np.where(on_card, card % gpus_per_node, NOBODY),
            "neighbour": ids[neighbour],
            "slowdown": np.frombuffer(self._slowdown, np.float64),
            "reason": np.array(list(self._reasons), dtype=object)[
                np.frombuffer(self._reason, np.int64)
            ],
            "queue": np.array(trace.queues, dtype=object)[trace.queue[job]],
            "gpus": trace.gpus[job],
            "work_s": np.frombuffer(self._work_s, np.float64),
        }
