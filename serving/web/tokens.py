"""Bearer tokens: who may ask what, read from a file, compared in constant time."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from data.errors import SettingError, UnauthorizedError

SCOPES = ("predict", "report", "admin")
SHORTEST_TOKEN = 16


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens that are known here, as SHA-256 digests; none means that no token is needed."""

    scopes: Mapping[bytes, frozenset[str]] = field(default_factory=dict)

    def check(self, authorization: bytes | None, scope: str) -> None:
        """Raise unless the header grants `scope`.

        Parameters
        ----------
        authorization : bytes, optional
            Value of the ``Authorization`` header.
        scope : {"predict", "report", "admin"}

        Raises
        ------
        UnauthorizedError
            If the token is missing, unknown or lacks the scope; never says which is near.
        """
        if not self.scopes:
            return
        kind, _, token = (authorization or b"").partition(b" ")
        digest = sha256(token.strip()).digest()
        granted: frozenset[str] = frozenset()
        for known, scopes in self.scopes.items():  # all of them, so that the time says nothing
            if hmac.compare_digest(known, digest) and kind.lower() == b"bearer":
                granted = scopes
        if scope not in granted:
            raise UnauthorizedError(f"found no token with scope {scope!r}, wanted a bearer token")


def tokens_from_file(path: Path | None) -> Tokens:
    """Return the tokens of a file: one a line, then its scopes; all scopes where none is named.

    Raises
    ------
    SettingError
        If the file cannot be read, holds no token, a short one or an unknown scope. Names the
        line, never the token.
    """
    if path is None:
        return Tokens()
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"token file {path}: {error}") from error
    entries = [(n, line.split()) for n, line in enumerate(lines, 1) if not line.startswith("#")]
    scopes = dict(_entry(path, n, words) for n, words in entries if words)
    if not scopes:
        raise SettingError(f"token file {path}: found no token, wanted one a line")
    return Tokens(scopes)


def _entry(path: Path, line: int, words: list[str]) -> tuple[bytes, frozenset[str]]:
    token, *scopes = words
    unknown = set(scopes) - set(SCOPES)
    if unknown or len(token) < SHORTEST_TOKEN:
        raise SettingError(
            f"token file {path}, line {line}: wanted a token of at least {SHORTEST_TOKEN} "
            f"characters, then scopes among {', '.join(SCOPES)}"
        )
    return sha256(token.encode()).digest(), frozenset(scopes or SCOPES)
