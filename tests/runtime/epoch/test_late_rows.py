"""Rows that came too late: kept for looking at, up to a limit, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from laminar.model.trace import Trace
from laminar.runtime.epoch.late_rows import bounded, keep, read_kept
from laminar.runtime.event_time.late_batch import LATE_ROWS, LATE_SCHEMA, LateBatch
from laminar.store import SegmentStore

from ..parts import segment, trace


def batch(relation: str, epoch: int, count: int) -> LateBatch:
    row = {"epoch": epoch, "relation": relation, "reason": "late", "__weight": 1}
    names = LATE_SCHEMA.names
    columns = [[row.get(name) for _ in range(count)] for name in names]
    return LateBatch(
        relation, count, LATE_SCHEMA.empty_table().from_arrays(columns, schema=LATE_SCHEMA)
    )


@pytest.mark.parametrize(
    ("limit", "left"),
    [(0, []), (1, [3]), (2, [3]), (3, [2, 3]), (5, [2, 3]), (6, [1, 2, 3]), (99, [1, 2, 3])],
)
def test_the_oldest_are_dropped_while_enough_remain(limit: int, left: list[int]) -> None:
    whole = trace(segment(1, rows=4), segment(2, rows=3), segment(3, rows=2))
    assert [each.lo for each in bounded(whole, limit).segments] == left


def test_what_is_kept_is_read_back_newest_last(tmp_path: Path) -> None:
    store, traces = SegmentStore(tmp_path), dict[str, Trace]()
    keep([], store, 1, traces, 10)
    assert traces == {}
    assert read_kept(tmp_path, None, 10).num_rows == 0
    keep([batch("v", 1, 2), batch("t", 1, 1)], store, 1, traces, 10)
    keep([batch("v", 2, 2)], store, 2, traces, 10)
    found = read_kept(tmp_path, traces[LATE_ROWS], 10)
    assert "__weight" not in found.column_names
    assert list(
        zip(*(found.column(n).to_pylist() for n in ("epoch", "relation")), strict=True)
    ) == [
        (1, "v"),
        (1, "v"),
        (1, "t"),
        (2, "v"),
        (2, "v"),
    ]
    assert read_kept(tmp_path, traces[LATE_ROWS], 3).column("epoch").to_pylist() == [1, 2, 2]
    keep([batch("v", 3, 2)], store, 3, traces, 2)
    assert read_kept(tmp_path, traces[LATE_ROWS], 10).column("epoch").to_pylist() == [3, 3]
