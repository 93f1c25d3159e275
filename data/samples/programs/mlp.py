"""A multilayer perceptron that waits for its input in every step, as much as it is told to."""

import argparse
import sys

import numpy as np
from feed import Feed

LEARNING_RATE = 0.2

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, required=True)
parser.add_argument("--depth", type=int, required=True)
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--latency-ms", type=float, required=True)
arguments = parser.parse_args()

rng = np.random.default_rng(4)
scale = np.sqrt(2 / arguments.width)
shape = (arguments.width, arguments.width)
layers = [scale * rng.standard_normal(shape, dtype=np.float32) for _ in range(arguments.depth)]
teacher = rng.standard_normal(shape, dtype=np.float32) / np.sqrt(arguments.width)
values = arguments.batch * arguments.width
feed = Feed(arguments.steps, values, latency_s=arguments.latency_ms / 1000)
losses = []
for _ in range(arguments.steps):
    inputs = feed.next_block().reshape(arguments.batch, arguments.width)
    activations = [inputs]
    for layer in layers[:-1]:
        activations.append(np.maximum(activations[-1] @ layer, 0))
    error = activations[-1] @ layers[-1] - np.tanh(inputs @ teacher)
    losses.append(float(np.mean(error**2)))
    error *= 2 / error.size
    for place in range(arguments.depth - 1, -1, -1):
        gradient = activations[place].T @ error
        if place:
            error = (error @ layers[place].T) * (activations[place] > 0)
        layers[place] -= LEARNING_RATE * gradient

begin, end = np.mean(losses[:3]), np.mean(losses[-3:])
print(f"squared error from {begin:.4f} to {end:.4f}")
sys.exit(not end < begin)
