"""Batches of a bridge become segments: in order, numbered, and none is lost on the way."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from laminar.bridge import BatchPolicy, PipelineBridge
from laminar.errors import StoreUnwritable
from laminar.model.trace import ARRIVAL, PARTITION, Segment
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.ingest.arriving_rows import BITS, RowTimes
from laminar.runtime.ingest.batch_writer import BatchWriter
from laminar.runtime.ingest.read_range import ReadRange, SegmentWriter, Stored
from laminar.store import Range, SegmentStore, durable_files

from .parts import NUMBERS, TIMED, at_seconds, data_files, defined, numbers, stored, values


def segments(
    root: Path, table: TableDefinition = NUMBERS, *, is_live: bool = True
) -> SegmentWriter:
    times = RowTimes(table.event_time, is_live, defined(table).time_settings)
    return SegmentWriter(table, SegmentStore(root), times)


def writer(root: Path, max_rows: int = 10) -> tuple[PipelineBridge, BatchWriter]:
    bridge = PipelineBridge("s", clock=lambda: 0.0)
    policy = BatchPolicy(max_rows=max_rows)
    return bridge, BatchWriter(segments(root), bridge, policy, number=1, position=None)


def send(bridge: PipelineBridge, start: int, end: int) -> None:
    note = {"0": end}
    bridge.send_batch(numbers(start, end), start=start or None, end=end, note=note)


def test_batches_follow_each_other_and_an_epoch_takes_one(tmp_path: Path) -> None:
    bridge, batches = writer(tmp_path)
    send(bridge, 0, 10)
    send(bridge, 10, 20)
    store = batches.segments.store
    assert batches.form(flush=False)
    assert batches.ready == Range("s", None, 10)
    first = batches.take(Range("s", None, 10), 1)
    assert values(store, first) == list(range(10))
    assert batches.consumed == 10
    assert batches.form(flush=False)
    assert values(store, batches.take(Range("s", 10, 20), 2)) == list(range(10, 20))


def test_what_is_ready_is_handed_over_only_as_the_range_it_is(tmp_path: Path) -> None:
    bridge, batches = writer(tmp_path)
    send(bridge, 0, 10)
    batches.form(flush=False)
    assert batches.take(Range("s", None, 9), 1) is None
    assert batches.ready == Range("s", None, 10)


def test_all_before_a_barrier_is_one_range_with_one_row_of_numbers(tmp_path: Path) -> None:
    """It is numbered as if it had been read at once: a replay reads it so."""
    bridge, batches = writer(tmp_path)
    send(bridge, 0, 10)
    send(bridge, 10, 15)
    bridge.send_checkpoint(1)
    send(bridge, 15, 20)
    batches.form_all(1)
    taken = batches.take(Range("s", None, 15), 1)
    store = batches.segments.store
    assert taken is not None
    assert values(store, taken) == list(range(15))
    assert values(store, taken, ARRIVAL) == [n + (1 << BITS) for n in range(15)]
    assert taken.largest == {"0": 15}
    batches.form_all(1)  # no other barrier was sent
    assert batches.ready is None


def test_a_later_epoch_than_expected_still_owns_its_segment(tmp_path: Path) -> None:
    """Epochs without rows of this source may come in between."""
    bridge, batches = writer(tmp_path)
    send(bridge, 0, 10)
    batches.form(flush=False)
    taken = batches.take(Range("s", None, 10), 4)
    assert taken is not None
    assert taken.segment is not None
    assert (taken.segment.lo, taken.segment.hi) == (4, 4)
    assert batches.number == 5


def test_a_gap_ends_a_range_and_what_is_behind_it_is_the_next(tmp_path: Path) -> None:
    bridge, batches = writer(tmp_path)
    send(bridge, 0, 10)
    send(bridge, 30, 40)  # what was between was dropped
    bridge.send_checkpoint(1)
    batches.form_all(1)
    assert batches.ready == Range("s", None, 10)
    assert batches.has_rows()
    batches.take(Range("s", None, 10), 1)
    bridge.send_checkpoint(2)
    batches.form_all(2)
    assert batches.ready == Range("s", 30, 40)


@pytest.mark.parametrize("is_gap", [False, True])
def test_a_watermark_ends_a_range_also_when_its_batch_had_to_wait(
    tmp_path: Path, is_gap: bool
) -> None:
    bridge, batches = writer(tmp_path)
    send(bridge, 0, 10)
    behind = 30 if is_gap else 10
    send(bridge, behind, behind + 5)
    bridge.send_watermark(500)
    send(bridge, behind + 5, behind + 9)
    bridge.send_checkpoint(1)
    batches.form_all(1, until=500)
    if is_gap:
        assert batches.ready == Range("s", None, 10)
        batches.take(Range("s", None, 10), 1)
        bridge.send_checkpoint(2)
        batches.form_all(2, until=500)
        assert batches.ready == Range("s", 30, 35)
    else:
        assert batches.ready == Range("s", None, 15)


def test_a_batch_that_could_not_be_written_is_written_when_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bridge, batches = writer(tmp_path)
    send(bridge, 0, 10)
    bridge.send_watermark(500)
    send(bridge, 10, 20)
    bridge.send_checkpoint(1)

    def is_full(point: str) -> None:
        raise StoreUnwritable(point, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(durable_files, "failpoint", is_full)
        with pytest.raises(StoreUnwritable):
            batches.form_all(1)
    assert batches.ready is None
    assert batches.has_rows()
    batches.form_all(1, until=500)
    assert batches.ready == Range("s", None, 10)  # with the watermark that was behind it
    batches.form_all(1)
    taken = batches.take(Range("s", None, 20), 1)
    assert values(batches.segments.store, taken) == list(range(20))


def test_a_batch_without_rows_still_moves_the_position_and_the_times(tmp_path: Path) -> None:
    bridge, batches = writer(tmp_path)
    bridge.send_batch(numbers(0, 0), start=None, end=10, note={"0": 7})
    assert batches.form(flush=True)
    taken = batches.take(Range("s", None, 10), 1)
    assert taken == ReadRange(None, None, {"0": 7})


def test_files_that_no_epoch_will_name_are_removed(tmp_path: Path) -> None:
    bridge, batches = writer(tmp_path)
    send(bridge, 0, 10)
    batches.form(flush=False)
    assert len(data_files(tmp_path)) == 1
    batches.discard()
    assert data_files(tmp_path) == []


def test_what_spark_has_written_joins_what_arrow_writes(tmp_path: Path) -> None:
    bridge, batches = writer(tmp_path, max_rows=100)
    by_spark = batches.segments.write(1, numbers(0, 4), {"a": 9})
    bridge.send_batch(Stored(by_spark), start=None, end=4, note={"a": 9})
    bridge.send_batch(numbers(4, 6), start=4, end=6, note={"a": 8, "b": 3})
    batches.form(flush=True)
    taken = batches.take(Range("s", None, 6), 1)
    assert taken is not None
    assert values(batches.segments.store, taken) == list(range(6))
    assert taken.largest == {"a": 9, "b": 3}


def test_columns_that_some_batches_do_not_have_are_null(tmp_path: Path) -> None:
    bridge, batches = writer(tmp_path, max_rows=100)
    bridge.send_batch(pa.table({"n": [1], "m": ["x"]}), start=None, end=1)
    bridge.send_batch(pa.table({"n": [2]}), start=1, end=2)
    batches.form(flush=True)
    assert values(batches.segments.store, batches.take(Range("s", None, 2), 1), "m") == ["x", None]


def test_only_rows_of_a_live_source_can_lie_in_the_future(tmp_path: Path) -> None:
    rows = at_seconds(5, 9_000, None)
    live = segments(tmp_path / "a", TIMED)
    taken = live.write(1, rows, {}, now_ms=0)
    assert values(live.store, taken) == [0, 2]
    assert taken.ahead is not None
    assert taken.ahead["n"].to_pylist() == [1]
    assert taken.segment is not None
    assert taken.segment.spans == {"ts": (5_000_000, 5_000_000)}
    tale = segments(tmp_path / "b", TIMED, is_live=False)
    assert values(tale.store, tale.write(1, rows, {}, now_ms=0)) == [0, 1, 2]


def test_the_part_of_a_row_is_not_stored(tmp_path: Path) -> None:
    made = segments(tmp_path, TIMED)
    found = stored(made.store, made.write(1, at_seconds(1, 2, **{PARTITION: ["a", "b"]}), {}))
    assert PARTITION not in found.column_names


def test_joining_ranges_keeps_the_latest_times_and_all_that_stays_out() -> None:
    def segment(name: str) -> Segment:
        return Segment((name,), 1, 1, 2, 10, True, ("x",))

    one = ReadRange(segment("a"), pa.table({"n": [1]}), {"p": 5, "q": 1})
    other = ReadRange(segment("b"), pa.table({"n": [2]}), {"p": 3, "r": 2})
    both = one.joined(other)
    assert both.segment is not None
    assert both.segment.files == ("a", "b")
    assert both.ahead is not None
    assert both.ahead["n"].to_pylist() == [1, 2]
    assert both.largest == {"p": 5, "q": 1, "r": 2}
    assert ReadRange(None).joined(one).segment == one.segment
    assert one.joined(ReadRange(None)).ahead == one.ahead
