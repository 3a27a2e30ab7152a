"""From `insert` to a view that shows it: the delay at several rates, epochs in the background."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator

import pyarrow as pa  # type: ignore[import-untyped]

import laminar
from benchmarks.report import Row

RATES = (1_000, 10_000, 100_000)
SECONDS = float(os.environ.get("LAMINAR_DELAY_SECONDS", "20"))
WARM_UP = float(os.environ.get("LAMINAR_DELAY_WARM_UP", "10"))
TICK = 0.05
"""Seconds between two batches of a producer; a batch has the rows of so much time."""

SCRIPT = """
CREATE SOURCE trades (trade_id BIGINT, symbol STRING, price DOUBLE, volume BIGINT);
CREATE MATERIALIZED VIEW position AS
SELECT symbol, SUM(volume) AS total, COUNT(*) AS trades FROM trades GROUP BY symbol;
"""


def run() -> list[Row]:
    """Return all figures of this file."""
    return [row for rate in RATES for row in measured(rate)]


def measured(rate: int) -> Iterator[Row]:
    """Send at a rate, and note how long each batch took to be committed."""
    delays, taken, elapsed = delays_at(rate)
    ordered = sorted(delays)
    note = f"{taken / elapsed:,.0f} events/s taken in, {len(ordered)} batches"
    for name, part in (("median", 0.5), ("99 %", 0.99)):
        at = ordered[min(len(ordered) - 1, int(len(ordered) * part))]
        yield Row(f"{rate:,} events/s, {name}", at * 1e3, "ms", note)


def delays_at(rate: int) -> tuple[list[float], int, float]:
    """Return the delay of each batch in seconds, how many rows were shown, and how long it took."""
    size = max(1, int(rate * TICK))
    batch = pa.table(
        {
            "trade_id": pa.array(range(size), pa.int64()),
            "symbol": pa.array([f"SYM{n % 100}" for n in range(size)]),
            "price": pa.array([n / 7 for n in range(size)]),
            "volume": pa.array([n % 1000 for n in range(size)], pa.int64()),
        }
    )
    waiting: deque[float] = deque()
    delays: list[float] = []
    shown = 0
    with laminar.connect(master="local[2]") as db:
        db.execute(SCRIPT)
        measuring = False

        def committed(report: laminar.EpochReport) -> None:
            nonlocal shown
            now = time.perf_counter()
            for _ in range(report.rows_in // size):
                sent = waiting.popleft()
                if measuring:
                    delays.append(now - sent)
                    shown += size

        db.on_epoch(committed)
        db.start()
        begun = time.perf_counter()
        first, after = begun, begun
        while (now := time.perf_counter()) < begun + WARM_UP + SECONDS:
            if not measuring and now >= begun + WARM_UP:
                measuring, after = True, now
            waiting.append(now)
            db.insert("trades", batch)
            first += TICK
            time.sleep(max(0.0, first - time.perf_counter()))
        elapsed = time.perf_counter() - after
        db.stop()
    return delays or [float("nan")], shown, elapsed
