"""Training input that comes from elsewhere: blocks of numbers over a loopback socket.

The other end stands for remote storage. With `latency_s` it answers each request after that
time (no prefetching: the reader waits in every step); with `interval_s` it sends a block at
that pace whether or not one was asked for, as far as the socket's buffers hold (prefetching:
the reader waits only while it is faster than the storage).
"""

import os
import socket
import threading
import time

import numpy as np

REQUEST = b"?"


class Feed:
    """`blocks` blocks of `values` float32 numbers, the same ones in every run."""

    def __init__(self, blocks, values, *, latency_s=None, interval_s=None, seed=7):
        self._block = np.empty(values, dtype=np.float32)
        listener = socket.create_server(("127.0.0.1", 0))
        self._reader = socket.create_connection(listener.getsockname())
        self._storage, _ = listener.accept()
        listener.close()
        self._reader.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._is_paced = interval_s is not None
        wait_s = interval_s if self._is_paced else latency_s
        arguments = (blocks, values, wait_s, np.random.default_rng(seed))
        threading.Thread(target=self._serve, args=arguments, daemon=True).start()

    def next_block(self):
        """Wait for the next block; the array is overwritten by the following one."""
        if not self._is_paced:
            self._reader.sendall(REQUEST)
        view = memoryview(self._block).cast("B")
        filled = 0
        while filled < len(view):
            received = os.readv(self._reader.fileno(), [view[filled:]])  # the kernel counts reads
            if received == 0:
                raise EOFError("the storage closed the connection before the last block")
            filled += received
        return self._block

    def _serve(self, blocks, values, wait_s, rng):
        stock = rng.standard_normal((16, values), dtype=np.float32)
        due_s = time.monotonic()
        with self._storage:
            for number in range(blocks):
                if self._is_paced:
                    due_s += wait_s
                    time.sleep(max(0.0, due_s - time.monotonic()))
                else:
                    self._storage.recv(1)
                    time.sleep(wait_s)
                self._storage.sendall(stock[number % len(stock)])
