"""Vector updates over arrays far larger than the caches: bound by memory bandwidth."""

import argparse
import sys

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--values", type=int, required=True)
parser.add_argument("--steps", type=int, required=True)
arguments = parser.parse_args()

weights = np.zeros(arguments.values, dtype=np.float32)
gradient = np.ones(arguments.values, dtype=np.float32)
update = np.empty(arguments.values, dtype=np.float32)
for _ in range(arguments.steps):
    np.multiply(gradient, 0.5, out=update)
    np.add(weights, update, out=weights)

wanted = 0.5 * arguments.steps
print(f"every weight is {weights[0]}, wanted {wanted}")
sys.exit(not (weights.min() == wanted == weights.max()))
