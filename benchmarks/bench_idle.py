"""What an epoch costs when nothing changed, and what many small epochs leave behind."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path
from typing import Any

import psutil

import laminar
from benchmarks.report import Row

EPOCHS = int(os.environ.get("LAMINAR_BENCH_EPOCHS", "500"))
DEFINITIONS = """
CREATE TABLE events (k BIGINT, v BIGINT);
CREATE MATERIALIZED VIEW doubled AS SELECT k, v * 2 AS v FROM events;
CREATE MATERIALIZED VIEW by_key AS SELECT k, SUM(v) AS s, MAX(v) AS m FROM doubled GROUP BY k;
CREATE MATERIALIZED VIEW busy AS SELECT k, s FROM by_key WHERE s > 100;
"""


def run() -> list[Row]:
    """Measure an idle step, then memory, files and cached frames over many epochs."""
    with laminar.connect(master="local[2]") as db:
        db.execute(DEFINITIONS)
        # Pushed rows stay until no checkpoint that is kept may ask for them again. Every thirty
        # seconds, as by default, their number would still be growing when the first count is made.
        db.execute("SET laminar.checkpoint_interval_ms = 2000")
        db.insert("events", [(1, 1)])
        db.step()
        begun = time.perf_counter()
        for _ in range(1000):
            db.step()
        idle = (time.perf_counter() - begun) * 1000 / 1000
        early = _footprint(db, range(EPOCHS // 5))
        late = _footprint(db, range(EPOCHS // 5, EPOCHS))
    return [
        Row("epoch in which nothing changed", idle, "ms", "4 relations"),
        Row("driver RSS", early[0], "MB", f"after {EPOCHS // 5} epochs"),
        Row("driver RSS", late[0], "MB", f"after {EPOCHS} epochs"),
        Row("JVM heap in use", early[1], "MB", f"after a collection, {EPOCHS // 5} epochs"),
        Row("JVM heap in use", late[1], "MB", f"after a collection, {EPOCHS} epochs"),
        Row("files", early[2], "", f"after {EPOCHS // 5} epochs"),
        Row("files", late[2], "", f"after {EPOCHS} epochs"),
        Row("cached frames", late[3], "", f"after {EPOCHS} epochs"),
        Row("epoch", late[4], "ms", f"median of the last {EPOCHS - EPOCHS // 5}"),
    ]


def _footprint(db: laminar.Database, turns: range) -> tuple[float, float, float, float, float]:
    times = []
    for turn in turns:
        db.insert("events", [(turn % 50, turn), (turn % 7, 1)])
        begun = time.perf_counter()
        db.step()
        times.append((time.perf_counter() - begun) * 1000)
    context = db.engine.env.spark.sparkContext
    jvm: Any = context._jvm
    heap = _held(jvm)
    cached = context._jsc.getPersistentRDDs().size()
    files = sum(1 for each in Path(db.path).rglob("*") if each.is_file())
    rss = psutil.Process().memory_info().rss / 2**20
    return rss, heap, files, cached, sorted(times)[len(times) // 2]


def _held(jvm: Any) -> float:
    """Return the heap that is still in use, in MB, once collecting frees no more of it.

    Python lets go of dropped frames, then Java of what they held; Spark frees their broadcasts
    only after that, and beside.
    """
    runtime = jvm.Runtime.getRuntime()
    least = float("inf")
    for _ in range(6):
        gc.collect()
        jvm.System.gc()
        time.sleep(0.5)
        least = min(least, (runtime.totalMemory() - runtime.freeMemory()) / 2**20)
    return least
