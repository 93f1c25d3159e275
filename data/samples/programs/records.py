"""Parsing of JSON records that arrive over a socket at the pace of their source."""

import argparse
import json
import os
import socket
import sys
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("--records", type=int, required=True)
parser.add_argument("--blocks", type=int, required=True)
parser.add_argument("--interval-ms", type=float, required=True)
arguments = parser.parse_args()


def send(source, block):
    due_s = time.monotonic()
    with source:
        for _ in range(arguments.blocks):
            due_s += arguments.interval_ms / 1000
            time.sleep(max(0.0, due_s - time.monotonic()))
            source.sendall(block)


rows = [
    {"user": i % 101, "item": {"id": i, "tags": ["a", "b", str(i % 7)]}, "price": i % 89 / 4}
    for i in range(arguments.records)
]
block = ("\n".join(json.dumps(row) for row in rows) + "\n").encode()
listener = socket.create_server(("127.0.0.1", 0))
reader = socket.create_connection(listener.getsockname())
source, _ = listener.accept()
threading.Thread(target=send, args=(source, block), daemon=True).start()
total, seen = 0.0, 0
with os.fdopen(reader.detach(), "rb") as lines:  # the kernel counts reads, not receives
    for line in lines:
        record = json.loads(line)
        total += record["price"] * len(record["item"]["tags"])
        seen += 1
wanted = arguments.blocks * 3 * sum(row["price"] for row in rows)
print(f"{seen} records, total {total}, wanted {wanted}")
sys.exit(total != wanted or seen != arguments.blocks * arguments.records)
