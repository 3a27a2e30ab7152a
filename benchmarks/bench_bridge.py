"""The bridge: what sending and draining cost, per row and per batch, without an epoch."""

from __future__ import annotations

import gc
import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import pyarrow as pa

from benchmarks.report import Row, best_ns
from laminar.bridge import BatchPolicy, BridgeConsumer, PipelineBridge, SpillLog, SpillToDisk
from laminar.bridge.columns import record_batch

ROWS = 1024
BATCHES = 256
SCHEMA = pa.schema(
    [("id", pa.int64()), ("symbol", pa.string()), ("price", pa.float64()), ("ts", pa.int64())]
)


def run() -> list[Row]:
    """Return all figures of this file."""
    table = pa.table(
        {
            "id": list(range(ROWS)),
            "symbol": [f"SYM{n % 100}" for n in range(ROWS)],
            "price": [n / 7 for n in range(ROWS)],
            "ts": list(range(ROWS)),
        },
        SCHEMA,
    )
    return [*single_rows(), *whole_batches(table), *spilled(table)]


def bridge_of(rows: int, **options: Any) -> PipelineBridge:
    """Return a bridge with room for so many rows."""
    return PipelineBridge(schema=SCHEMA, capacity_rows=rows, capacity_bytes=None, **options)


def drain_ns(fill: Callable[[], PipelineBridge], rounds: int = 7) -> float:
    """Return the nanoseconds of draining a bridge, in the best of several rounds."""
    times = []
    for _ in range(rounds):
        consumer = BridgeConsumer(fill(), BatchPolicy(max_rows=ROWS))
        gc.collect()
        start = perf_counter_ns()
        consumer.drain()
        times.append(perf_counter_ns() - start)
    return min(times)


def single_rows() -> list[Row]:
    """Rows one by one; draining turns them into columns."""
    row = (1, "SYM1", 1.5, 2)
    count = 4 * ROWS

    def send() -> PipelineBridge:
        bridge = bridge_of(count)
        for _ in range(count):
            bridge.send_event(row, 2)
        return bridge

    sent = best_ns(send, rounds=40) / count
    drained = drain_ns(send, rounds=40) / count
    bridge = bridge_of(count)
    bridge.send_batch(record_batch([row], SCHEMA, "bridge"))  # so that it has to look
    asked = best_ns(bridge.has_capacity, calls=2_000, rounds=50)
    times = itertools.count()
    marked = best_ns(lambda: bridge.send_watermark(next(times)), calls=2_000, rounds=50)
    return [
        Row("send_event", sent, "ns/row", "rows one by one; the specification aims at 30"),
        Row("drain single rows", drained * ROWS / 1e3, f"us/{ROWS} rows", "into Arrow columns"),
        Row("has_capacity", asked, "ns", "the specification aims at 5"),
        Row("send_watermark", marked, "ns", "the specification aims at 50"),
    ]


def whole_batches(table: pa.Table) -> list[Row]:
    """Rows in Arrow tables, as the connectors send them."""

    def send() -> PipelineBridge:
        bridge = bridge_of(BATCHES * ROWS)
        for at in range(BATCHES):
            bridge.send_batch(table, event_time=at, start=at, end=at + 1)
        return bridge

    sent = best_ns(send) / BATCHES
    drained = drain_ns(send) / BATCHES
    note = f"{ROWS} rows in an Arrow table"
    return [
        Row("send_batch", sent / 1e3, "us/batch", note),
        Row("send_batch", sent / ROWS, "ns/row", "the specification aims at 30"),
        Row("drain", drained / 1e3, "us/batch", f"{note}; the specification aims at 1"),
        Row("drain", drained / ROWS, "ns/row", note),
    ]


def spilled(table: pa.Table) -> list[Row]:
    """Batches that go through files, each durable before `send_batch` returns."""
    with tempfile.TemporaryDirectory() as folder:
        log = SpillLog(Path(folder))
        bridge = bridge_of(1, strategy=SpillToDisk(), spill=log)
        bridge.send_batch(table, start=0, end=1)
        sent = best_ns(lambda: bridge.send_batch(table, start=0, end=1), calls=16, rounds=3)
    return [Row("send_batch, spilled", sent / 1e6, "ms/batch", f"{ROWS} rows, synced to disk")]
