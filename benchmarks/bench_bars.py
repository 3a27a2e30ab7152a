"""Bars of seconds, minutes, hours and days over a month of trades: state and time stay flat.

5M trades of 50 symbols over 30 simulated days come in 100 epochs. `LAMINAR_TRADES` takes fewer.
"""

from __future__ import annotations

import os
import statistics
import time
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

import laminar
from benchmarks.report import Row
from laminar.model.trace_name import is_partial

TRADES = int(os.environ.get("LAMINAR_TRADES", "5000000"))
SYMBOLS, DAYS, EPOCHS = 50, 30, 100
SETTLED = 20
"""By this epoch Spark is warm."""

_START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
_LEVELS = (("trades", "second"), ("bars_second", "minute"), ("bars_minute", "hour"))


def run() -> list[Row]:
    """Cascade trades to bars of a day."""
    with laminar.connect(master="local[2]") as db:
        db.execute(
            "CREATE SOURCE trades (symbol STRING, price DOUBLE, volume BIGINT, ts TIMESTAMP,"
            " WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)"
        )
        for parent, unit in (*_LEVELS, ("bars_hour", "day")):
            db.execute(_bars(parent, unit))
        seconds, state = [], []
        for epoch in range(EPOCHS):
            db.insert("trades", _batch(epoch))
            begun = time.perf_counter()
            db.step()
            seconds.append(time.perf_counter() - begun)
            state.append(_state(db))
        db.end_of_stream("trades")
        db.step()
        days = db.sql("SELECT COUNT(*) AS n, SUM(volume) AS v FROM bars_day").rows()[0]
    assert days == (SYMBOLS * DAYS, EPOCHS * (TRADES // EPOCHS)), days
    early, late = seconds[SETTLED : SETTLED + 10], seconds[-10:]
    note = f"{TRADES:,} trades in {EPOCHS} epochs, four levels of bars"
    return [
        Row("epoch, from the 20th", statistics.median(early), "s", note),
        Row("epoch, at the end", statistics.median(late), "s", note),
        Row("growth of time", statistics.median(late) / statistics.median(early), "x"),
        Row("rows of window state, 20th epoch", state[SETTLED], "rows"),
        Row("rows of window state, last epoch", state[-1], "rows"),
        Row("throughput", TRADES / sum(seconds), "trades/s", note),
    ]


def _bars(parent: str, unit: str) -> str:
    is_base = parent == "trades"
    at = "ts" if is_base else "bar"
    first, high, low, last = ("price",) * 4 if is_base else ("open", "high", "low", "close")
    window = f"({at}, INTERVAL '1' {unit})"
    return (
        f"CREATE MATERIALIZED VIEW bars_{unit} AS SELECT symbol, TUMBLE_START{window} AS bar,"
        f" FIRST_VALUE({first}) AS open, MAX({high}) AS high, MIN({low}) AS low,"
        f" LAST_VALUE({last}) AS close, SUM(volume) AS volume FROM {parent}"
        f" GROUP BY symbol, TUMBLE{window} EMIT AFTER WATERMARK"
    )


def _batch(epoch: int) -> pa.Table:
    count = TRADES // EPOCHS
    span = DAYS * 86_400_000_000 // EPOCHS
    chance = np.random.default_rng(epoch)
    # In order, but for a few seconds of disorder.
    times = np.sort(chance.integers(0, span, count)) + chance.integers(-2_000_000, 1, count)
    times = np.clip(times, 0, span - 1) + _START + epoch * span
    return pa.table(
        {
            "symbol": pa.array([f"S{n}" for n in chance.integers(0, SYMBOLS, count)]),
            "price": np.round(100 + chance.standard_normal(count), 2),
            "volume": np.ones(count, dtype=np.int64),
            "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
        }
    )


def _state(db: laminar.Database) -> int:
    """Rows of accumulators: what is kept for windows that may still change."""
    traces = db.engine.ledger.manifest.traces
    return sum(trace.rows for name, trace in traces.items() if is_partial(name))
