"""The trades DAG through Spark's internals and without them, an epoch each in turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report import Row
from benchmarks.trades.data import write_files
from laminar.runtime.spark.access import FORCED, WAYS

BATCHES = int(os.environ.get("LAMINAR_BENCH_BATCHES", "40"))
COLD = BATCHES // 2
"""Batches until the JVM counts as warm."""


class Worker:
    """A process that runs an epoch when it is asked to."""

    def __init__(self, way: str, folder: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.trades.turns", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, FORCED: way},
        )
        self.epochs: list[dict[str, float]] = []
        self._line()

    def step(self) -> None:
        """Run one epoch and keep what it took."""
        assert self._process.stdin is not None
        self._process.stdin.write("step\n")
        self._process.stdin.flush()
        self.epochs.append(json.loads(self._line()))

    def totals(self) -> Any:
        """End the process; return what its views add up to."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        found = json.loads(self._line())
        self._process.wait()
        return found

    def warm(self, measure: str) -> float:
        """Return the median of the epochs after those that warm up."""
        return median(epoch[measure] for epoch in self.epochs[COLD:])

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def run() -> list[Row]:
    """Measure large epochs, where Spark's work counts, and small ones, where preparing it does."""
    return [*_compare(100_000), *_compare(1_000)]


def _compare(events: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), BATCHES, events=events)
        workers = {way: Worker(way, folder) for way in WAYS}
        for _ in range(BATCHES):
            for worker in workers.values():
                worker.step()
        totals = [worker.totals() for worker in workers.values()]
    if totals[0] != totals[1]:
        raise AssertionError(f"results differ: {totals}")
    note = f"epochs {COLD + 1} to {BATCHES} of {events:,} events, in turns"
    rows = []
    for measure in ("wall", "cpu"):
        each = {way: worker.warm(measure) for way, worker in workers.items()}
        rows += [Row(f"{way}, {measure}", took, "s/epoch", note) for way, took in each.items()]
        rows.append(Row(f"portable costs, {measure}", each["portable"] / each["fast"], "x", note))
    return rows
