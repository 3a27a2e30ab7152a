"""From `insert` to a view that shows it: the delay at several rates, epochs in the background.

`python -m benchmarks delay` measures the default policy, `python -m benchmarks.bench_delay`
compares policies, in less than five minutes, and prints a table in Markdown.

A delay counts from the moment at which a batch was due, so a producer that is held up counts as
well, to the moment at which its epoch is committed: a reader that asks then sees it. Batches that
were sent are waited for; what is not shown by then is counted as missing.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa

import laminar
from benchmarks.report import Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RATES = (1_000, 10_000, 100_000)
SECONDS = float(os.environ.get("LAMINAR_DELAY_SECONDS", "20"))
WARM_UP = float(os.environ.get("LAMINAR_DELAY_WARM_UP", "10"))
TICK = 0.05
"""Seconds between two batches of a producer; a batch has the rows of so much time."""

MAX_ROWS = (1_024, 10_000, 100_000)
MAX_LATENCY_MS = (5, 20, 100)
SWEEP_SECONDS = float(os.environ.get("LAMINAR_SWEEP_SECONDS", "4"))
SWEEP_WARM_UP = 1.5
PATIENCE = 2.0
"""How many seconds to wait for batches that were sent and are not shown yet."""

SCRIPT = """
CREATE SOURCE trades (trade_id BIGINT, symbol STRING, price DOUBLE, volume BIGINT);
CREATE MATERIALIZED VIEW position AS
SELECT symbol, SUM(volume) AS total, COUNT(*) AS trades FROM trades GROUP BY symbol;
"""


@dataclass(frozen=True, slots=True)
class Delays:
    """What came of sending at one rate."""

    rate: int
    seconds: tuple[float, ...]
    """The delay of every batch that was shown, in order."""
    missing: int
    """Batches that were sent and not shown in time."""
    taken: float
    """Events per second that were shown while others were sent."""
    epochs: int

    def part(self, share: float) -> float:
        """Return the delay that so many of the batches do not exceed; missing ones exceed all."""
        count = len(self.seconds) + self.missing
        place = min(count - 1, int(count * share))
        return sorted(self.seconds)[place] if place < len(self.seconds) else float("inf")


def run() -> list[Row]:
    """Return all figures of this file."""
    return [row for rate in RATES for row in told(delays_at(rate, SECONDS, WARM_UP))]


def told(found: Delays) -> Iterator[Row]:
    """Lay out what was found at one rate."""
    note = f"{found.taken:,.0f} events/s taken in, {found.epochs} epochs"
    if found.missing:
        note += f", {found.missing} batches not shown in time"
    for name, share in (("median", 0.5), ("99 %", 0.99)):
        yield Row(f"{found.rate:,} events/s, {name}", found.part(share) * 1e3, "ms", note)


def delays_at(
    rate: int,
    seconds: float,
    warm_up: float,
    policy: laminar.BatchPolicy | None = None,
    spark: SparkSession | None = None,
) -> Delays:
    """Send at a rate, and note how long each batch took to be committed."""
    size = max(1, int(rate * TICK))
    batch = batch_of(size)
    waiting: deque[float] = deque()
    shown: list[tuple[float, float]] = []
    all_shown = threading.Event()
    is_over = False

    def committed(report: laminar.EpochReport) -> None:
        now = time.perf_counter()
        for _ in range(report.rows_in // size):
            shown.append((waiting.popleft(), now))
        if is_over and not waiting:
            all_shown.set()

    master = None if spark is not None else "local[2]"
    with laminar.connect(master=master, spark=spark) as db:
        db.execute(SCRIPT)
        if policy is not None:
            db.configure_source("trades", policy=policy)
        db.on_epoch(committed)
        db.start()
        due = time.perf_counter()
        begun, ends = due + warm_up, due + warm_up + seconds
        while due < ends:
            time.sleep(max(0.0, due - time.perf_counter()))
            waiting.append(due)
            db.insert("trades", batch)
            due += TICK
            if time.perf_counter() > ends + seconds:
                break  # it cannot even be sent at this rate
        is_over = True
        if waiting:
            all_shown.wait(PATIENCE)
        db.stop()
        missing = len(waiting)
        (counted,) = db.sql("SELECT SUM(trades) FROM position").rows()[0]
        assert counted == len(shown) * size, "a reader does not see what was committed"
    measured = [(sent, at) for sent, at in shown if sent >= begun]
    in_time = sum(size for _, at in shown if begun <= at < ends)
    return Delays(
        rate,
        tuple(at - sent for sent, at in measured),
        missing,
        in_time / seconds,
        len({at for _, at in measured}),
    )


def batch_of(size: int) -> pa.Table:
    """Return trades of a hundred symbols."""
    return pa.table(
        {
            "trade_id": pa.array(range(size), pa.int64()),
            "symbol": pa.array([f"SYM{n % 100}" for n in range(size)]),
            "price": pa.array([n / 7 for n in range(size)]),
            "volume": pa.array([n % 1000 for n in range(size)], pa.int64()),
        }
    )


def sweep() -> Iterator[str]:
    """Compare policies; give the lines of a table in Markdown, each as soon as it is known."""
    from pyspark.sql import SparkSession

    with laminar.connect(master="local[2]"):  # its session outlives it, and is warm by then
        spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
        delays_at(10_000, 8.0, 0.0, spark=spark)
        heads = [f"{rate:,} events/s" for rate in RATES]
        yield f"| max_rows | max_latency | {' | '.join(heads)} |"
        yield "|---|---|" + "---|" * len(RATES)
        for rows in MAX_ROWS:
            for millis in MAX_LATENCY_MS:
                policy = laminar.BatchPolicy(rows, timedelta(milliseconds=millis))
                cells = [
                    cell_of(delays_at(rate, SWEEP_SECONDS, SWEEP_WARM_UP, policy, spark))
                    for rate in RATES
                ]
                yield f"| {rows:,} | {millis} ms | {' | '.join(cells)} |"


def cell_of(found: Delays) -> str:
    """Return median / 99 % in milliseconds, and how many events a second were taken in."""
    parts = [found.part(share) * 1e3 for share in (0.5, 0.99)]
    times = " / ".join("never" if part == float("inf") else f"{part:,.0f}" for part in parts)
    return f"{times} ms, {found.taken:,.0f}/s"


if __name__ == "__main__":
    for line in sweep():
        print(line, flush=True)
