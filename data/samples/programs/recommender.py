"""A two-layer recommendation model: embedding lookups and stochastic gradient descent.

Factorisation of sparse ids into embeddings, a small dense part, log loss; every step gathers
and updates the few rows that its batch names, as in Wide & Deep (Cheng et al., DLRS 2016).
"""

import argparse
import sys

import numpy as np
from feed import Feed

HIDDEN = 64
LEARNING_RATE = 0.05


def loss_and_gradients(embedded, labels, first, second):
    hidden = np.maximum(embedded @ first, 0)
    predicted = 1 / (1 + np.exp(-(hidden @ second)))
    loss = -np.mean(np.where(labels, np.log(predicted + 1e-7), np.log(1 - predicted + 1e-7)))
    wrong = (predicted - labels) / len(labels)
    wrong_hidden = np.outer(wrong, second) * (hidden > 0)
    return loss, embedded.T @ wrong_hidden, hidden.T @ wrong, wrong_hidden @ first.T


def train(arguments, feed):
    rng = np.random.default_rng(3)
    size = (arguments.rows, arguments.width)
    table = 0.1 * rng.standard_normal(size, dtype=np.float32)
    first = 0.1 * rng.standard_normal((arguments.slots * arguments.width, HIDDEN), dtype=np.float32)
    second = 0.1 * rng.standard_normal(HIDDEN, dtype=np.float32)
    losses = []
    for _ in range(arguments.steps):
        if feed is not None:
            feed.next_block()
        ids = (arguments.rows * rng.random((arguments.batch, arguments.slots)) ** 3).astype(
            np.int64
        )
        labels = ids[:, 0] % 2 == 0  # learnable: a property of the first id alone
        embedded = table[ids].reshape(arguments.batch, -1)
        loss, d_first, d_second, d_embedded = loss_and_gradients(embedded, labels, first, second)
        losses.append(loss)
        first -= LEARNING_RATE * d_first
        second -= LEARNING_RATE * d_second
        rate = LEARNING_RATE * arguments.batch  # each row belongs to a few examples of the batch
        np.subtract.at(table, ids.ravel(), rate * d_embedded.reshape(-1, arguments.width))
    return losses


parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, required=True)
parser.add_argument("--width", type=int, required=True)
parser.add_argument("--slots", type=int, default=8)
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--feed-interval-ms", type=float)
arguments = parser.parse_args()
interval_ms = arguments.feed_interval_ms
block = arguments.batch * arguments.slots
feed = Feed(arguments.steps, block, interval_s=interval_ms / 1000) if interval_ms else None
losses = train(arguments, feed)
begin, end = np.mean(losses[:5]), np.mean(losses[-5:])
print(f"log loss from {begin:.4f} to {end:.4f}")
sys.exit(not end < begin)
