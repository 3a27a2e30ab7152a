"""A 1% change to a 5M-row DAG with a join: the epoch against recomputing all views."""

from __future__ import annotations

import tempfile
import time

import pyarrow as pa

import laminar
from benchmarks.report import Row

ROWS, CUSTOMERS = 5_000_000, 50_000
CHANGE = ROWS // 100
ROUNDS = 16
COLD = 3
"""Rounds until the JVM counts as warm, on both sides."""

VIEWS = {
    "enriched": "SELECT o.id, o.customer, c.region, o.amount FROM orders o "
    "JOIN customers c ON o.customer = c.id",
    "by_region": "SELECT region, COUNT(*) AS n, SUM(amount) AS total FROM enriched GROUP BY region",
    "by_customer": "SELECT customer, COUNT(*) AS n, SUM(amount) AS total FROM enriched "
    "GROUP BY customer",
    "large": "SELECT * FROM enriched WHERE amount > 990",
}


def run() -> list[Row]:
    """Measure both ways in one database."""
    with laminar.connect(master="local[2]") as db:
        db.execute(
            "CREATE TABLE orders (id BIGINT, customer BIGINT, amount BIGINT);"
            "CREATE TABLE customers (id BIGINT, region STRING)"
        )
        for name, query in VIEWS.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        ids = list(range(CUSTOMERS))
        db.insert("customers", pa.table({"id": ids, "region": [f"r{i % 20}" for i in ids]}))
        for start in range(0, ROWS, 1_000_000):
            _orders(db, start, 1_000_000)
            db.step()
        db.engine.settle()
        epochs = []
        for turn in range(ROUNDS):
            _orders(db, ROWS + turn * CHANGE, CHANGE)
            begun = time.perf_counter()
            db.step()
            epochs.append(time.perf_counter() - begun)
        full = [_recompute(db) for _ in range(COLD + 3)]
    incremental, recomputed = (
        sorted(each[COLD:])[len(each[COLD:]) // 2] for each in (epochs, full)
    )
    return [
        Row("epoch", incremental, "s", f"{CHANGE:,} new orders of {ROWS:,}; 4 views"),
        Row(
            "full recompute", recomputed, "s", "the same 4 views by Spark batch, stored as Parquet"
        ),
        Row("first epoch", epochs[0], "s", "cold"),
        Row("first full recompute", full[0], "s", "cold"),
        Row("ratio", recomputed / incremental, "x"),
    ]


def _orders(db: laminar.Database, start: int, count: int) -> None:
    ids = list(range(start, start + count))
    db.insert(
        "orders",
        pa.table(
            {
                "id": ids,
                "customer": [i * 7919 % CUSTOMERS for i in ids],
                "amount": [i * 31 % 1000 for i in ids],
            }
        ),
    )


def _recompute(db: laminar.Database) -> float:
    """Run every view and store it, as a batch job would; a view reads what is stored of others."""
    orders, customers = (
        db.sql(f"SELECT * FROM {each}").spark() for each in ("orders", "customers")
    )
    session = orders.sparkSession
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        orders.createOrReplaceTempView("orders")
        customers.createOrReplaceTempView("customers")
        for name, query in VIEWS.items():
            frame = session.sql(query)
            frame.write.parquet(f"{folder}/{name}")
            stored = session.read.schema(frame.schema).parquet(f"{folder}/{name}")
            stored.createOrReplaceTempView(name)
        return time.perf_counter() - begun
