"""What an epoch costs as the state grows: it should follow the change, not the data."""

from __future__ import annotations

import time

import pyarrow as pa

import laminar
from benchmarks.report import Row

SMALL, LARGE = 100_000, 10_000_000
CHANGE = 10_000
ROUNDS = 8


def run() -> list[Row]:
    """Change 10K rows of a 100K-key and of a 10M-key aggregate."""
    rows = []
    for title, ddl in (
        ("aggregate", ""),
        (
            "aggregate with a reader",
            "CREATE MATERIALIZED VIEW rounded AS SELECT n, COUNT(*) AS c FROM by_key GROUP BY n",
        ),
    ):
        small, large = (_epoch_seconds(keys, ddl) for keys in (SMALL, LARGE))
        rows.append(Row(f"{title}, 100K keys", small, "s", f"{CHANGE:,} rows changed, warm"))
        rows.append(Row(f"{title}, 10M keys", large, "s", f"{CHANGE:,} rows changed, warm"))
        rows.append(Row(f"{title}, ratio", large / small, "x", "10M keys to 100K keys"))
    return rows


def _epoch_seconds(keys: int, ddl: str) -> float:
    with laminar.connect(master="local[2]") as db:
        db.execute(
            "CREATE TABLE facts (k BIGINT, v BIGINT);"
            "CREATE MATERIALIZED VIEW by_key AS "
            "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM facts GROUP BY k;" + ddl
        )
        for start in range(0, keys, 1_000_000):
            _insert(db, start, min(1_000_000, keys - start), 1)
            db.step()
        db.engine.settle()
        times = []
        for turn in range(ROUNDS):
            _insert(db, 0, CHANGE, keys // CHANGE, offset=turn)
            begun = time.perf_counter()
            db.step()
            times.append(time.perf_counter() - begun)
        return sorted(times)[len(times) // 2]


def _insert(db: laminar.Database, start: int, count: int, stride: int, offset: int = 0) -> None:
    keys = [start + place * stride + offset for place in range(count)]
    db.insert("facts", pa.table({"k": keys, "v": [1] * count}))
