"""Rows and time for tests of the bridge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from laminar.bridge import AdvanceWatermark, Checkpoint, Eof, ProcessBatch, Ring1Action

SCHEMA = pa.schema([("n", pa.int64()), ("name", pa.string())])


class Seconds:
    """A clock that moves when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def rows(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": numbers, "name": [f"r{n}" for n in numbers]}, SCHEMA)


def span(start: int, end: int) -> pa.Table:
    numbers = range(start, end)
    return pa.table({"n": list(numbers), "name": [f"r{n}" for n in numbers]}, SCHEMA)


def numbers(actions: Iterable[Ring1Action]) -> list[int]:
    return [n for each in batches(actions) for n in each.table["n"].to_pylist()]


def batches(actions: Iterable[Ring1Action]) -> list[ProcessBatch]:
    return [each for each in actions if isinstance(each, ProcessBatch)]


def told(actions: Sequence[Ring1Action]) -> list[object]:
    """Actions in short: a batch is the list of its numbers."""
    found: list[object] = []
    for each in actions:
        match each:
            case ProcessBatch():
                found.append(each.table["n"].to_pylist())
            case AdvanceWatermark(timestamp):
                found.append(f"w{timestamp}")
            case Checkpoint(epoch):
                found.append(f"c{epoch}")
            case Eof():
                found.append("eof")
    return found
