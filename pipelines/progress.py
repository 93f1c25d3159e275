"""Progress bars on what takes longer than a second; silent where nobody watches."""

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")


def progress(items: Iterable[T], what: str) -> Iterator[T]:
    """Yield `items`, with a bar on a terminal's stderr that names `what` is going on."""
    yield from tqdm(items, desc=what, leave=False, disable=not sys.stderr.isatty())
