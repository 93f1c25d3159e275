"""Loopback ports for servers that tests start."""

import os
import random
import socket
from collections.abc import Iterator

# The kernel gives 32768 and above to whoever connects without naming a port. One found free there
# may be gone before its server starts; and a client that asks a killed server again and again may
# be given the server's own port, connect to itself, and keep the server from coming back.
FIRST, LAST = 12_000, 32_000
MOST_WORKERS = 16


def _own_ports() -> Iterator[int]:
    """Yield each port of this process's share once, in an order of its own."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    share = list(range(FIRST + worker % MOST_WORKERS, LAST, MOST_WORKERS))
    random.SystemRandom().shuffle(share)
    yield from share


_left = _own_ports()


def free_port() -> int:
    """Return a port that nothing listens at, never the same one twice."""
    for port in _left:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no port of {FIRST} to {LAST} is free any more")
