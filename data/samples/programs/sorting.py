"""Sorting of large arrays and a merge join of the results: comparisons and scattered moves."""

import argparse
import sys

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--values", type=int, required=True)
parser.add_argument("--steps", type=int, required=True)
arguments = parser.parse_args()

rng = np.random.default_rng(9)
is_right = True
for _ in range(arguments.steps):
    keys = rng.integers(0, 2**62, arguments.values)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    is_right &= bool(np.all(ordered[1:] >= ordered[:-1]))
print(f"{arguments.steps} arrays of {arguments.values} values in order: {is_right}")
sys.exit(not is_right)
