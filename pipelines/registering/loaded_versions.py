"""Versions that were fetched and checked already: one never changes, so once is enough."""

from collections import OrderedDict
from collections.abc import Callable

from serving.inference.bundle import Bundle

MOST = 16  # champion, previous and shadow of five models, and one more


class LoadedVersions:
    """Keeps the versions that were asked for last.

    Parameters
    ----------
    most : int
        How many are kept (>= 1).

    Examples
    --------
    >>> loaded, read = LoadedVersions(most=1), []
    >>> for name in ("a", "a", "b", "a"):
    ...     _ = loaded.get(name, "1", lambda: read.append(name))
    >>> read
    ['a', 'b', 'a']
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[str, str], Bundle] = OrderedDict()

    def get(self, name: str, version: str, read: Callable[[], Bundle]) -> Bundle:
        """Return a version, by `read` where it is not kept."""
        key = name, version
        bundle = self._kept.pop(key) if key in self._kept else read()
        self._kept[key] = bundle
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return bundle
