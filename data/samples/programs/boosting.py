"""Gradient boosted trees (LightGBM) on a table of numbers: histograms, bound by the caches."""

import argparse
import sys

import lightgbm
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, required=True)
parser.add_argument("--columns", type=int, required=True)
parser.add_argument("--rounds", type=int, required=True)
arguments = parser.parse_args()

rng = np.random.default_rng(6)
table = rng.standard_normal((arguments.rows, arguments.columns))
target = table[:, 0] * table[:, 1] + np.sin(table[:, 2]) + 0.1 * rng.standard_normal(len(table))
parameters = {"objective": "regression", "num_threads": 1, "verbose": -1, "seed": 6}
booster = lightgbm.train(parameters, lightgbm.Dataset(table, target), arguments.rounds)
error = float(np.mean((booster.predict(table) - target) ** 2) / np.var(target))
print(f"{1 - error:.3f} of the variance explained")
sys.exit(error > 0.5)
