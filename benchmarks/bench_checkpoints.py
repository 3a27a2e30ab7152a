"""What checkpoints cost a running pipeline: the same epochs with and without them, in turns."""

from __future__ import annotations

import os
import statistics
import time

import laminar
from benchmarks.report import Row

ROUNDS = int(os.environ.get("LAMINAR_BENCH_ROUNDS", "8"))
EPOCHS = int(os.environ.get("LAMINAR_BENCH_EPOCHS", "20"))
ROWS = int(os.environ.get("LAMINAR_BENCH_ROWS", "20000"))
DEFINITIONS = """
CREATE TABLE events (k BIGINT, v BIGINT);
CREATE MATERIALIZED VIEW ups AS SELECT k, SUM(v) AS s FROM events WHERE v % 2 = 0 GROUP BY k;
CREATE MATERIALIZED VIEW downs AS SELECT k, SUM(v) AS s FROM events WHERE v % 2 = 1 GROUP BY k;
CREATE MATERIALIZED VIEW both AS SELECT u.k, u.s - d.s AS s FROM ups u JOIN downs d ON u.k = d.k;
"""


def run() -> list[Row]:
    """Measure blocks of epochs, every second one with a checkpoint every second."""
    plain: list[float] = []
    kept: list[float] = []
    with laminar.connect(master="local[2]") as db:
        db.execute(DEFINITIONS)
        _block(db)
        for turn in range(2 * ROUNDS):
            # In turns, because a young JVM gets faster all the time.
            is_kept = turn % 2 == 1
            db.execute(f"SET laminar.checkpoint_interval_ms = {1000 if is_kept else 0}")
            (kept if is_kept else plain).append(_block(db))
            db.engine.work.checkpoints.settle()
        metrics = db.metrics().checkpoints
        executor = db.engine.work.executor.get()
        aligned = executor.aligner.alignments
    without, with_them = statistics.median(plain), statistics.median(kept)
    note = f"{EPOCHS} epochs of {ROWS:,} rows, median of {ROUNDS} blocks"
    return [
        Row("events without checkpoints", EPOCHS * ROWS / without, "1/s", note),
        Row("events with one every second", EPOCHS * ROWS / with_them, "1/s", note),
        Row("loss", (1 - without / with_them) * 100, "%", "aim: under 5 % at one in 30 s"),
        Row("last checkpoint", metrics.last_ms, "ms", f"{metrics.last_new_bytes:,} new bytes"),
        Row("alignments at nodes with several inputs", aligned, "", "since the last change"),
    ]


def _block(db: laminar.Database) -> float:
    batches = [[(row % 1000, row + at) for row in range(ROWS)] for at in range(EPOCHS)]
    started = time.perf_counter()
    for batch in batches:
        db.insert("events", batch)
        db.step()
    return time.perf_counter() - started
