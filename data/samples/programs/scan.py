"""Scans of a Parquet file: decoding, filtering and grouping columns, with Arrow."""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, required=True)
parser.add_argument("--scans", type=int, required=True)
arguments = parser.parse_args()

pa.set_cpu_count(1)
rng = np.random.default_rng(10)
columns = {
    "user": rng.integers(0, 1000, arguments.rows),
    "price": rng.random(arguments.rows),
    "country": rng.integers(0, 40, arguments.rows).astype(np.int8),
}
wanted = float(columns["price"][columns["price"] > 0.5].sum())
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "orders.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=2**17, compression="zstd")
    for _ in range(arguments.scans):
        table = pq.read_table(path, use_threads=False)
        dear = table.filter(pc.greater(table["price"], 0.5))
        sums = dear.group_by("country", use_threads=False).aggregate([("price", "sum")])
        found = pc.sum(sums["price_sum"]).as_py()
print(f"sum {found:.3f}, wanted {wanted:.3f}")
sys.exit(abs(found - wanted) > 1e-6 * wanted)
