"""What the queues of a replay hold and ask for, against their nominal quotas."""

from collections.abc import Sequence

from scheduler_client.policy.ahead import ahead_gpu_s


class Holdings:
    """GPUs by queue, kept up to date by the policy.

    Parameters
    ----------
    quotas : sequence of int
        Nominal quota of each queue (cards).

    Examples
    --------
    >>> holdings = Holdings([1])
    >>> holdings.ask(0, 2), holdings.hold(0, 2, now=0.0), holdings.borrows(0)
    (None, None, True)
    >>> holdings.hold(0, -2, now=60.0), holdings.ask(0, -2), holdings.is_within(0, now=90.0)
    (None, None, False)
    >>> holdings.is_within(0, now=120.0)
    True
    """

    def __init__(self, quotas: Sequence[int]) -> None:
        self._quotas = quotas
        self._held, self._asked = [0] * len(quotas), [0] * len(quotas)
        self._ahead_gpu_s, self._as_of_s = [0.0] * len(quotas), [0.0] * len(quotas)

    @property
    def asked(self) -> int:
        """GPUs that all jobs ask for which have arrived and not finished."""
        return sum(self._asked)

    def ask(self, queue: int, gpus: int) -> None:
        """Take in that so many GPUs more (or fewer) are asked for."""
        self._asked[queue] += gpus

    def hold(self, queue: int, gpus: int, now: float) -> None:
        """Take in that so many GPUs more (or fewer) are held from now on."""
        self._advance(queue, now)
        self._held[queue] += gpus

    def fits(self, queue: int, gpus: int) -> bool:
        """Return whether a queue that gets so many GPUs more stays within its nominal quota."""
        return self._held[queue] + gpus <= self._quotas[queue]

    def borrows(self, queue: int) -> bool:
        """Return whether a queue holds more than its nominal quota."""
        return self._held[queue] > self._quotas[queue]

    def is_within(self, queue: int, now: float) -> bool:
        """Return whether its nominal quota alone would do for a queue.

        It asks for no more, and what it borrowed before it would have had by now without.
        """
        if self._asked[queue] > self._quotas[queue]:
            return False
        self._advance(queue, now)
        return self._ahead_gpu_s[queue] == 0

    def all_within(self, now: float) -> set[int]:
        """Return the queues of which `is_within` holds."""
        return {queue for queue in range(len(self._quotas)) if self.is_within(queue, now)}

    def _advance(self, queue: int, now: float) -> None:
        elapsed_s = now - self._as_of_s[queue]
        self._ahead_gpu_s[queue] = ahead_gpu_s(
            self._ahead_gpu_s[queue], elapsed_s, self._held[queue], self._quotas[queue]
        )
        self._as_of_s[queue] = now
