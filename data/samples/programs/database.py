"""A SQLite file: small transactions written through to disk, then joins and group-bys over it."""

import argparse
import sqlite3
import sys
import tempfile
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--transactions", type=int, required=True)
parser.add_argument("--rows", type=int, required=True)
parser.add_argument("--queries", type=int, required=True)
arguments = parser.parse_args()

with tempfile.TemporaryDirectory() as folder:
    database = sqlite3.connect(Path(folder) / "orders.db")
    database.execute("PRAGMA synchronous = FULL")
    database.execute(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, user INTEGER, item INTEGER, price REAL)"
    )
    database.execute("CREATE INDEX by_user ON orders (user, item)")
    for transaction in range(arguments.transactions):
        first = transaction * arguments.rows
        rows = [
            (i, i * 7919 % 5003, i * 104729 % 10007, i % 97)
            for i in range(first, first + arguments.rows)
        ]
        with database:
            database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", rows)
    spent = 0.0
    for query in range(arguments.queries):
        answer = database.execute(
            "SELECT user, COUNT(DISTINCT item), SUM(price) FROM orders"
            " WHERE id % 3 = ? GROUP BY user",
            (query % 3,),
        )
        spent += sum(row[2] for row in answer)
    database.close()

count = arguments.transactions * arguments.rows
wanted = sum(i % 97 for q in range(arguments.queries) for i in range(q % 3, count, 3))
print(f"{count} orders, {spent:.0f} spent, wanted {wanted}")
sys.exit(spent != wanted)
