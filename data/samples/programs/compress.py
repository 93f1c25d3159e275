"""Compression of log lines and back (LZMA): integer work with an unforeseeable branch a byte."""

import argparse
import hashlib
import lzma
import random
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--lines", type=int, required=True)
parser.add_argument("--steps", type=int, required=True)
arguments = parser.parse_args()

chance = random.Random(8)
words = ["train", "loss", "step", "epoch", "worker", "gradient", "checkpoint", "evaluation"]
lines = [
    f"{chance.choice(words)}={chance.random():.6f} rank={chance.randrange(64)}"
    for _ in range(arguments.lines)
]
text = "\n".join(lines).encode()
digest = hashlib.sha256(text).digest()
for _ in range(arguments.steps):
    packed = lzma.compress(text, preset=1)
    if hashlib.sha256(lzma.decompress(packed)).digest() != digest:
        sys.exit("the text that came back differs")
print(f"{len(text)} bytes packed into {len(packed)}")
sys.exit(len(packed) >= len(text))
