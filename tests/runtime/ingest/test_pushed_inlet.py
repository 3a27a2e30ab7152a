"""The way in of rows that are pushed, without Spark: the pending log, a bridge, real segments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from laminar.bridge import DropNewest, PauseSource, SpillToDisk
from laminar.errors import Backpressure, SegmentMissing
from laminar.model.trace import ARRIVAL, WEIGHT
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.ingest.arriving_rows import BITS
from laminar.runtime.ingest.pushed_inlet import PushedInlet
from laminar.store import PendingLog, Range, SegmentStore

from .parts import TIMED, at_seconds, context, defined, numbers, options, stored, values

TABLE = TableDefinition("s", (("n", "bigint", True),), is_source=True)


def pushed(
    folder: Path,
    log: PendingLog | None = None,
    at: int = 0,
    table: TableDefinition = TABLE,
    **given: Any,
) -> PushedInlet:
    made = options(**{"buffer_rows": None, **given})
    shared = context(folder, of=defined(table))
    return PushedInlet(table, made, shared, log or PendingLog(folder), at)


def test_pushed_rows_are_taken_together_or_by_the_policy(tmp_path: Path) -> None:
    inlet = pushed(tmp_path)
    for _ in range(3):
        inlet.push(numbers(0, 6))
    assert inlet.cut(1, whole=False) == Range("s", 0, 1)  # 6 and 6 are more than a batch
    assert inlet.cut(1, whole=True) == Range("s", 0, 3)
    inlet.take(Range("s", 0, 3), 1, 0)
    assert inlet.cut(2, whole=True) is None
    assert inlet.consumed == 3
    again = pushed(tmp_path, at=1)
    again.take(Range("s", 1, 2), 2, 0)  # as in a replay, which no cut came before
    assert again.cut(2, whole=True) == Range("s", 2, 3)


def test_rows_are_numbered_by_what_they_were_pushed_with(tmp_path: Path) -> None:
    """So a replay, which may take them in other epochs, gives them the same numbers."""
    inlet = pushed(tmp_path)
    inlet.push(numbers(0, 2))
    inlet.push(numbers(2, 4))
    taken = inlet.take(Range("s", 0, 2), 7, 0)
    store = SegmentStore(tmp_path)
    assert values(store, taken) == [0, 1, 2, 3]
    given = [n + (batch << BITS) for batch in (1, 2) for n in (0, 1)]
    assert values(store, taken, ARRIVAL) == given
    assert taken.segment is not None
    assert (taken.segment.lo, taken.segment.hi) == (7, 7)
    assert taken.rows == 4


def test_a_deletion_keeps_the_number_of_the_row_it_takes_back(tmp_path: Path) -> None:
    inlet = pushed(tmp_path)
    inlet.push(
        pa.table(
            {
                "n": pa.array([1, 2], pa.int64()),
                ARRIVAL: pa.array([None, 5], pa.int64()),
                WEIGHT: pa.array([1, -1], pa.int64()),
            }
        )
    )
    found = stored(SegmentStore(tmp_path), inlet.take(Range("s", 0, 1), 1, 0))
    assert found[ARRIVAL].to_pylist() == [1 << BITS, 5]
    assert found[WEIGHT].to_pylist() == [1, -1]


def test_a_batch_that_is_gone_is_named_and_not_left_out(tmp_path: Path) -> None:
    log = PendingLog(tmp_path)
    inlet = pushed(tmp_path, log)
    for _ in range(3):
        inlet.push(numbers(0, 1))
    log.remove_between("s", 2, 2)
    with pytest.raises(SegmentMissing):
        inlet.take(Range("s", 0, 3), 1, 0)
    assert inlet.consumed is None


def test_pushed_rows_in_the_future_stay_out(tmp_path: Path) -> None:
    """By the clock that the epoch goes by, which may be older than the one of now."""
    inlet = pushed(tmp_path, table=replace(TIMED, connector=None))
    inlet.push(at_seconds(10, 4_000, 20))
    taken = inlet.take(Range("s", 0, 1), 1, now_ms=0)  # an hour ahead is allowed
    assert values(SegmentStore(tmp_path), taken) == [0, 2]
    assert taken.ahead is not None
    assert taken.ahead["n"].to_pylist() == [1]
    assert taken.largest == {"0": 20_000_000}
    again = inlet.take(Range("s", 0, 1), 1, now_ms=1_000_000)
    assert values(SegmentStore(tmp_path), again) == [0, 1, 2]
    assert again.largest == {"0": 4_000_000_000}


def test_a_watermark_that_was_said_ends_what_an_epoch_takes(tmp_path: Path) -> None:
    inlet = pushed(tmp_path)
    inlet.push(numbers(0, 3))
    inlet.say(500)
    inlet.push(numbers(3, 6))
    assert inlet.cut(1, whole=True, until=500) == Range("s", 0, 1)
    inlet.take(Range("s", 0, 1), 1, 0)
    assert inlet.cut(2, whole=True) == Range("s", 1, 2)


def test_what_is_pushed_into_a_closed_way_is_not_kept_twice(tmp_path: Path) -> None:
    log = PendingLog(tmp_path)
    inlet = pushed(tmp_path, log)
    assert inlet.push(numbers(0, 3))
    inlet.close()
    assert not inlet.push(numbers(0, 3))  # so it is pushed into the one that is opened next
    again = pushed(tmp_path, log)
    assert again.push(numbers(0, 3))
    assert again.cut(1, whole=True) == Range("s", 0, 2)


def test_a_restart_goes_on_from_a_committed_position_and_counts_rows_once(tmp_path: Path) -> None:
    inlet = pushed(tmp_path)
    for _ in range(3):
        inlet.push(numbers(0, 4))
    inlet.take(Range("s", 0, 2), 1, 0)
    inlet.restart(1, 1)  # the epoch that took the second batch has failed
    assert inlet.consumed == 1
    assert inlet.cut(2, whole=True) == Range("s", 1, 3)
    assert inlet.counters.sent == 12


def test_a_push_source_pauses_drops_or_fills_its_share_of_the_disk(tmp_path: Path) -> None:
    pausing = pushed(tmp_path / "a", strategy=PauseSource(), buffer_rows=10)
    assert pausing.admit(8)
    pausing.push(numbers(0, 8))
    with pytest.raises(Backpressure):
        pausing.admit(3)
    pausing.cut(1, whole=True)
    assert pausing.admit(3)
    dropping = pushed(tmp_path / "b", strategy=DropNewest(), buffer_rows=10)
    dropping.push(numbers(0, 8))
    assert not dropping.admit(3)
    assert dropping.counters.dropped == 3
    spilling = pushed(tmp_path / "c", strategy=SpillToDisk(100))
    assert spilling.admit(1_000)
    spilling.push(numbers(0, 1_000))
    with pytest.raises(Backpressure):
        spilling.admit(1)
    taken = spilling.cut(1, whole=True)
    assert taken is not None
    spilling.take(taken, 1, 0)
    assert spilling.admit(1)
