"""The newest entries of a job log, each read and understood once."""

from collections import deque
from collections.abc import Iterable

from data.domain import FinishedJob
from data.joblog import JobLog, tail

Entry = tuple[int, FinishedJob]


class NewestJobs:
    """Keeps the newest finished jobs, so that looking back again need not read them again.

    Parameters
    ----------
    most : int
        How many are kept (>= 1), about 2 kB of memory each.
    """

    def __init__(self, most: int) -> None:
        self._kept: deque[Entry] = deque(maxlen=most)

    def add(self, entries: Iterable[Entry]) -> None:
        """Keep what was read next, in the order of the log."""
        self._kept.extend(entries)

    def clear(self) -> None:
        """Forget everything: another log begins."""
        self._kept.clear()

    def until(self, newest: int, length: int, log: JobLog) -> list[Entry]:
        """Return the entries from `newest` back, as many as `length`.

        Parameters
        ----------
        newest : int
            Sequence number of the last one, known by then.
        length : int
        log : JobLog
            What is older than all that is kept is read from it.

        Raises
        ------
        JobLogError
            If the log cannot be read now.
        """
        start = max(0, newest - length)
        kept = [entry for entry in self._kept if start < entry[0] <= newest]
        first = kept[0][0] if kept else newest + 1
        older = _between(log, start, first) if first > start + 1 else []
        if not kept:
            self.add(older)
        return older + kept


def _between(log: JobLog, start: int, first: int) -> list[Entry]:
    """Return the entries after `start` and before `first`."""
    found = []
    for entry in tail(log, start):
        if entry[0] >= first:
            break
        found.append(entry)
    return found
