"""Random reads from a table far larger than the caches: bound by memory latency."""

import argparse
import sys

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, required=True)
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--steps", type=int, required=True)
arguments = parser.parse_args()

rng = np.random.default_rng(2)
table = np.arange(1, arguments.rows + 1, dtype=np.int64)
row_ids = rng.integers(0, arguments.rows, arguments.batch)
found = np.empty(arguments.batch, dtype=np.int64)
wrong = 0
for _ in range(arguments.steps):
    np.take(table, row_ids, out=found, mode="clip")
    wrong += int(np.count_nonzero(found != row_ids + 1))
    row_ids = (found * 5) % arguments.rows  # the next addresses depend on what was read

print(f"{arguments.steps * arguments.batch} rows read, {wrong} of them wrong")
sys.exit(wrong > 0)
