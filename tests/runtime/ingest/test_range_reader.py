"""Ranges that Spark reads; here its frames are tables of Arrow, so the session is not needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from laminar.errors import RowDoesNotFit, SourceReadFailed
from laminar.model.trace import PARTITION
from laminar.runtime.ingest.arriving_rows import RowTimes
from laminar.runtime.ingest.range_reader import RangeReader
from laminar.runtime.ingest.read_range import ReadRange, SegmentWriter, Stored
from laminar.store import Range

from .parts import (
    NUMBERS,
    TIMED,
    FrameStore,
    SparkNumbers,
    at_seconds,
    data_files,
    defined,
    values,
    workspace,
)

ALL = Range("s", None, 3)


def read(
    store: FrameStore,
    source: SparkNumbers,
    taken: Range = ALL,
    number: int = 1,
    *,
    timed: bool = True,
    now_ms: int | None = None,
) -> ReadRange:
    table = TIMED if timed else NUMBERS
    times = RowTimes.of(table, source, defined(table).time_settings)
    writer = SegmentWriter(table, store, times)
    reader = RangeReader(source, writer, lambda _epoch: workspace(store))
    rows, _ = reader.read(taken, number, now_ms)
    assert isinstance(rows, Stored)
    return rows.taken


def timed(*seconds: int | None, **more: list[Any]) -> Callable[[int, int], pa.Table]:
    return lambda _start, _end: at_seconds(*seconds, **more)


def test_a_range_becomes_the_segment_of_its_epoch(tmp_path: Path) -> None:
    store = FrameStore(tmp_path)
    taken = read(store, SparkNumbers(), Range("s", 4, 7), 9, timed=False)
    assert values(store, taken) == [4, 5, 6]
    assert taken.segment is not None
    assert taken.segment.lo == 9
    assert taken.largest == {}


def test_its_largest_time_is_that_of_the_files(tmp_path: Path) -> None:
    store = FrameStore(tmp_path)
    assert read(store, SparkNumbers(rows=timed(5, 9, None))).largest == {"0": 9_000_000}
    parted = timed(5, 9, 7, **{PARTITION: ["a", "b", "a"]})
    found = read(store, SparkNumbers(rows=parted), number=2)
    assert found.largest == {"a": 7_000_000, "b": 9_000_000}


def test_rows_in_the_future_are_taken_out_of_it_and_the_first_files_go(tmp_path: Path) -> None:
    store = FrameStore(tmp_path)
    source = SparkNumbers(live=True, rows=timed(5, 99_999, 7))
    taken = read(store, source, now_ms=0)
    assert values(store, taken) == [0, 2]
    assert taken.ahead is not None
    assert taken.ahead["n"].to_pylist() == [1]
    assert taken.largest == {"0": 7_000_000}
    assert len(data_files(tmp_path)) == 1
    source.live = False
    assert values(store, read(store, source, now_ms=0)) == [0, 1, 2]


def test_no_rows_are_no_segment(tmp_path: Path) -> None:
    taken = read(FrameStore(tmp_path), SparkNumbers(rows=timed()))
    assert taken.segment is None
    assert taken.largest == {}


class Broken(SparkNumbers):
    def read(self, *_: Any) -> Any:
        raise ValueError("[DIVIDE_BY_ZERO] division by zero\nat java.lang.Thread")


class Explaining(Broken):
    def explain(self, _spark: Any, start: Any, end: Any) -> Any:
        return RowDoesNotFit("s", "it is not a number", file="f", line=end, text=str(start))


def test_what_went_wrong_is_told_by_the_source_if_it_can(tmp_path: Path) -> None:
    with pytest.raises(SourceReadFailed, match="DIVIDE_BY_ZERO") as bare:
        read(FrameStore(tmp_path), Broken())
    assert "java" not in str(bare.value)
    with pytest.raises(RowDoesNotFit, match="it is not a number"):
        read(FrameStore(tmp_path), Explaining(), replace(ALL, start=1))
