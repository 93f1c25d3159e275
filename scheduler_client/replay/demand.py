"""How many GPUs the pending jobs of a replay ask for, by level."""


class Demand:
    """Pending jobs, as they were when they began to wait.

    Examples
    --------
    >>> demand = Demand(levels=2)
    >>> demand.add(job=7, level=0, gpus=4), demand.add(job=8, level=1, gpus=2)
    (None, None)
    >>> demand.upto(0), demand.upto(1)
    (4, 6)
    >>> demand.remove(7)
    >>> demand.upto(1)
    2
    """

    def __init__(self, levels: int) -> None:
        self._gpus = [0] * levels
        self._by_job: dict[int, tuple[int, int]] = {}

    def add(self, job: int, level: int, gpus: int) -> None:
        """Take in a job that waits."""
        self._by_job[job] = level, gpus
        self._gpus[level] += gpus

    def remove(self, job: int) -> None:
        """Take note that a job waits no more."""
        level, gpus = self._by_job.pop(job)
        self._gpus[level] -= gpus

    def upto(self, level: int) -> int:
        """Return what jobs of this level and those below ask for together."""
        return sum(self._gpus[: level + 1])
