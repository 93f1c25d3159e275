"""The push hook's door: a signature over the body, a time, and no push twice."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import time

from data.errors import UnauthorizedError
from data.push_signature import (
    ID,
    SIGNATURE,
    TIMESTAMP,
    checked_delivery,
    secrets_from_file,
)
from serving.champions.push_book import PushBook

_HEADERS = (ID, TIMESTAMP, SIGNATURE)


@dataclass(frozen=True, slots=True)
class Pushes:
    """Which pushes are taken; none where there is no secret.

    Attributes
    ----------
    secrets : tuple of str
    book : PushBook, optional
        Where the deliveries are kept that came.
    clock : callable
        Seconds since 1970, UTC.
    """

    secrets: tuple[str, ...] = ()
    book: PushBook | None = None
    clock: Callable[[], float] = time

    def take(self, headers: Mapping[bytes, bytes], body: bytes) -> None:
        """Write down that a push came.

        Parameters
        ----------
        headers : mapping of bytes to bytes
            Names in lower case.
        body : bytes

        Raises
        ------
        UnauthorizedError
            If it is not signed by a known secret, not of now, or came before.
        RegistryError
            If it cannot be written down.
        """
        if not self.secrets or self.book is None:
            raise UnauthorizedError(
                "found no push secret here, wanted the service started with --push-secret-file"
            )
        texts = {name: headers.get(name.encode(), b"").decode("latin-1") for name in _HEADERS}
        self.book.add(checked_delivery(self.secrets, texts, body, self.clock()))


def pushes_from_file(path: Path | None, book: Path) -> Pushes:
    """Return which pushes are taken: those signed by a secret of a file; none without one.

    Raises
    ------
    SettingError
        If the file cannot be read or holds no good secret.
    """
    return Pushes() if path is None else Pushes(secrets_from_file(path), PushBook(book))
