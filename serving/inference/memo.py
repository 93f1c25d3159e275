"""Remember what was answered: a version's answer to a pair never changes."""

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

LARGEST = 100_000  # a generation; two of them with their estimates take about 70 MB


class Memo(Generic[K, V]):
    """A bounded memory of two generations.

    When the young one is full it becomes the old one, and the old one is forgotten; what is read
    from the old one moves to the young. So what is asked often stays, at the cost of one lookup.

    Examples
    --------
    >>> memo = Memo(largest=1)
    >>> memo.put("a", 1); memo.put("b", 2); memo.get("a"), memo.get("c")
    (1, None)
    """

    def __init__(self, largest: int = LARGEST) -> None:
        self._largest = largest
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, key: K) -> V | None:
        """Return what was put under `key`, or None if that is forgotten or never was."""
        value = self._young.get(key)
        if value is None:
            value = self._old.pop(key, None)
            if value is not None:
                self.put(key, value)
        return value

    def put(self, key: K, value: V) -> None:
        """Remember `value`."""
        if len(self._young) >= self._largest:
            self._old, self._young = self._young, {}
        self._young[key] = value
