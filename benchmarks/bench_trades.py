"""The trades DAG from JSON files of 100K events: Laminar against three streaming queries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.report import Row
from benchmarks.trades.data import EVENTS_PER_FILE, write_files

BATCHES = int(os.environ.get("LAMINAR_BENCH_BATCHES", "60"))
COLD = 20
"""Batches until the JVM counts as warm."""


def run() -> list[Row]:
    """Run both, one after the other, each in a process of its own; start-up is not counted."""
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), BATCHES)
        native = _measure("native", folder)
        ours = _measure("ours", folder)
    if ours["totals"] != native["totals"]:
        raise AssertionError(f"results differ: {ours['totals']} and {native['totals']}")
    rows = []
    for title, first, last in (("warm", COLD, BATCHES), ("first 20", 0, COLD)):
        theirs, mine = (_per_batch(each["ends"], first, last) for each in (native, ours))
        note = f"batches {first + 1} to {last}"
        rows.append(Row(f"streaming, {title}", theirs, "s/batch", note))
        rows.append(Row(f"Laminar, {title}", mine, "s/batch", note))
        rows.append(Row(f"Laminar, {title}", EVENTS_PER_FILE / mine, "events/s", note))
        rows.append(Row(f"ratio, {title}", theirs / mine, "x", note))
    return rows


def _measure(module: str, folder: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.trades.{module}", folder],
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def _per_batch(ends: list[float], first: int, last: int) -> float:
    last = min(last, len(ends) - 1)
    return (ends[last] - ends[first]) / (last - first)
