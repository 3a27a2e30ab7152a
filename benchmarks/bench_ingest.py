"""Taking rows in: 100K JSON events, by Spark's reader and by the native one, in the same run."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.report import Row, best_ns
from laminar.connectors import SourceSpec, create_source, read_arrow
from laminar.model import Schema

EVENTS = 100_000
ROUNDS = 15
SCHEMA = Schema.parse(
    "trade_id bigint NOT NULL, symbol string, price double, quantity bigint, account string, "
    "ts timestamp"
)


def run() -> list[Row]:
    """Return all figures of this file."""
    with tempfile.TemporaryDirectory() as folder, spark_session() as spark:
        path = Path(folder) / "events.json"
        path.write_text("".join(events()), encoding="utf-8")
        return measured(spark, path)


def measured(spark: SparkSession, path: Path) -> list[Row]:
    """Read the same file in every way, after as many rounds of warming up."""
    source = create_source("files", SourceSpec("events", SCHEMA, {"path": str(path)}))
    end = source.latest_offset(None)
    assert end is not None
    table = read_arrow(source, None, end)
    assert table is not None
    assert table.num_rows == EVENTS
    ways = {
        "Spark reads, keeps nothing": lambda: (
            source.read(spark, None, end).write.format("noop").mode("overwrite").save()
        ),
        "Spark reads into Arrow": lambda: source.read(spark, None, end).toArrow(),
        "Arrow reads": lambda: read_arrow(source, None, end),
    }
    for way in ways.values():
        best_ns(way, rounds=ROUNDS)
    took = {name: best_ns(way, rounds=ROUNDS) / 1e6 for name, way in ways.items()}
    note = f"{EVENTS:,} events, {path.stat().st_size / 1e6:.1f} MB of JSON, warm"
    rows = [Row(name, figure, "ms", note) for name, figure in took.items()]
    fast = took["Arrow reads"]
    rows += [
        Row(f"{name} / Arrow reads", figure / fast, "x", "same run")
        for name, figure in took.items()
        if figure is not fast
    ]
    return [*rows, Row("Arrow reads", EVENTS / fast * 1e3, "events/s", note)]


def events() -> Iterator[str]:
    """Yield the lines of a file of trades."""
    dice = random.Random(1)
    for number in range(EVENTS):
        second, milli = divmod(number, 1_000)
        event = {
            "trade_id": number,
            "symbol": f"SYM{dice.randrange(100)}",
            "price": round(dice.uniform(1, 500), 2),
            "quantity": dice.randrange(1, 1_000),
            "account": f"acc{dice.randrange(1_000)}",
            "ts": f"2024-01-01T00:{second // 60:02d}:{second % 60:02d}.{milli:03d}Z",
        }
        yield json.dumps(event) + "\n"


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """Give the session there is, or one for the time being."""
    found = SparkSession.getActiveSession()
    session = found or (
        SparkSession.builder.master("local[2]")
        .appName("bench-ingest")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    try:
        session.sparkContext.setLogLevel("ERROR")
        yield session
    finally:
        if found is None:
            session.stop()
