"""The trades DAG by Laminar: one epoch for every line of standard input."""

from __future__ import annotations

import json
import sys
import time

import psutil

import laminar
from benchmarks.trades.ours import SCRIPT


def cpu_seconds() -> float:
    """Return what this process and its Java have used of the processor."""
    own = psutil.Process()
    times = [each.cpu_times() for each in (own, *own.children(recursive=True))]
    return float(sum(each.user + each.system for each in times))


def main(path: str) -> None:
    """Print what each epoch took, and at the end the totals."""
    with laminar.connect(master="local[2]") as db:
        db.execute(SCRIPT.format(path=path))
        print("ready", flush=True)
        for _ in sys.stdin:
            begun, used = time.perf_counter(), cpu_seconds()
            db.step()
            took = {"wall": time.perf_counter() - begun, "cpu": cpu_seconds() - used}
            print(json.dumps(took), flush=True)
        rows = db.sql("SELECT SUM(total_volume), SUM(trade_count) FROM position_tracker").rows()
        print(json.dumps(rows[0]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
