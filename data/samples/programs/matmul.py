"""Dense matrix products of a size that stays in the caches: bound by the arithmetic units."""

import argparse
import sys

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, required=True)
parser.add_argument("--steps", type=int, required=True)
arguments = parser.parse_args()

rng = np.random.default_rng(1)
rotation, _ = np.linalg.qr(rng.standard_normal((arguments.size, arguments.size)))
rotation = rotation.astype(np.float32)
start = rng.standard_normal((arguments.size, arguments.size)).astype(np.float32)
current, following = start.copy(), np.empty_like(start)
for _ in range(arguments.steps):
    np.matmul(rotation, current, out=following)
    current, following = following, current

# A rotation keeps lengths, however often it is applied.
ratio = float(np.linalg.norm(current) / np.linalg.norm(start))
print(f"length after {arguments.steps} rotations: {ratio:.4f} of the first")
sys.exit(abs(ratio - 1) > 0.01)
