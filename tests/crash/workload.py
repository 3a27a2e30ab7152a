"""What the killed process does: numbered changes to a DAG, and what must be true after each.

Change i is a function of i, and each is atomic. So the content of the tables tells how many were
applied, and everything else follows from it.
"""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import laminar
from laminar.testing.counted import counts
from laminar.testing.published import published

Row = tuple[Any, ...]

VIEWS = {
    "windows": "SELECT symbol, window(ts, '10 seconds').start AS w, SUM(qty) AS qty, COUNT(*) AS n"
    " FROM trades GROUP BY symbol, window(ts, '10 seconds')",
    "priced": "SELECT t.id, t.symbol, t.qty * q.price AS amount FROM trades t"
    " JOIN quotes q ON t.symbol = q.symbol",
    "buys": "SELECT symbol, SUM(qty) AS qty FROM trades WHERE qty > 0 GROUP BY symbol",
    "sells": "SELECT symbol, SUM(qty) AS qty FROM trades WHERE qty <= 0 GROUP BY symbol",
    "net": "SELECT COALESCE(b.symbol, s.symbol) AS symbol,"
    " COALESCE(b.qty, 0) + COALESCE(s.qty, 0) AS qty"
    " FROM buys b FULL JOIN sells s ON b.symbol = s.symbol",
}
"""Windows, a join, and a diamond whose end a sink publishes."""

SINK = "net"
_START = datetime(2026, 1, 1, tzinfo=UTC)


def define(db: laminar.Database, out: Path) -> None:
    """Create everything; small compactions and frequent checkpoints, so that kills meet them."""
    db.execute(
        "SET laminar.compaction_fanout = 2; SET laminar.checkpoint_interval_ms = 300;"
        "SET laminar.retained_epochs = 4; SET laminar.sink_wait_ms = 120000;"
        "CREATE TABLE trades (id BIGINT, symbol STRING, qty BIGINT, ts TIMESTAMP);"
        "CREATE TABLE quotes (symbol STRING, price BIGINT)"
    )
    for name, query in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    db.execute(f"CREATE SINK k FROM {SINK} WITH (connector = 'files', path = '{out}')")


def change(i: int) -> tuple[str, str, list[Row]]:
    """Return what change i does: insert or delete, of which table, which rows."""
    match i % 4:
        case 3:
            return "insert", "quotes", [(f"s{i % 5}", i % 7)]
        case 1:
            return "delete", "trades", [_trade(i - 1, 0)]
        case _:
            return "insert", "trades", [_trade(i, at) for at in range(3)]


def _trade(i: int, at: int) -> Row:
    return (i * 10 + at, f"s{(i + at) % 5}", (i + at) % 9 - 4, _START + timedelta(seconds=i))


def tables_after(count: int) -> dict[str, Counter[Row]]:
    """Return what the tables hold after so many changes."""
    held: dict[str, Counter[Row]] = {"trades": Counter(), "quotes": Counter()}
    for i in range(count):
        verb, table, rows = change(i)
        held[table].update(rows) if verb == "insert" else held[table].subtract(rows)
    return {name: +rows for name, rows in held.items()}


def rows_changed(count: int) -> dict[str, int]:
    """Return how many rows of each table came or went with so many changes."""
    told = {"trades": 0, "quotes": 0}
    for i in range(count):
        _, table, rows = change(i)
        told[table] += len(rows)
    return told


def apply(db: laminar.Database, i: int) -> None:
    """Make change i; on return it survives everything."""
    verb, table, rows = change(i)
    if verb == "insert":
        db.insert(table, rows)
    else:
        db.delete(table, rows)


def bag(db: laminar.Database, query: str) -> Counter[Row]:
    """Return the rows of a query, times in UTC."""
    found = db.sql(query).arrow().to_pylist()
    return Counter(tuple(row.values()) for row in found)


def acknowledged(acks: Path) -> int:
    """Return how many changes were said to be durable."""
    return acks.stat().st_size if acks.exists() else 0


def acknowledge(acks: Path) -> None:
    """Note, durably, that one more change was said to be durable."""
    with acks.open("ab", buffering=0) as file:
        file.write(b".")
        os.fsync(file.fileno())


def _differs(view: str, query: str) -> str:
    """Return a query that names a view once for every row by which it is not what it should be."""
    sides = (f"SELECT * FROM {view}", query)
    return " UNION ALL ".join(
        f"SELECT '{view}' AS view FROM (SELECT * FROM ({a}) EXCEPT ALL SELECT * FROM ({b}))"
        for a, b in (sides, sides[::-1])
    )


def verify(db: laminar.Database, acks: Path, out: Path) -> int:
    """Check everything against what the changes say; return how many were applied.

    Every change that was acknowledged is there, at most one more, and none twice; every view is
    what its query says over the tables; the sink's files add up to its view; the rows of each
    table were counted once.
    """
    db.drain()
    found = {name: bag(db, f"SELECT * FROM {name}") for name in ("trades", "quotes")}
    said = acknowledged(acks)
    fitting = [n for n in (said, said + 1) if tables_after(n) == found]
    assert fitting, f"{said} changes were acknowledged, and the tables hold something else"
    wrong = bag(db, " UNION ALL ".join(_differs(name, query) for name, query in VIEWS.items()))
    assert not wrong, f"these views are not what their queries say: {wrong}"
    assert published(out) == bag(db, f"SELECT * FROM {SINK}"), "the sink is wrong"
    told = {name: each.read for name, each in counts(db).items()}
    assert told == rows_changed(fitting[0]), "rows were counted twice, or not at all"
    while acknowledged(acks) < fitting[0]:
        acknowledge(acks)
    return fitting[0]
