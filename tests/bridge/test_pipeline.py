from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.bridge import (
    BatchPolicy,
    BridgeConsumer,
    DropNewest,
    PauseSource,
    PipelineBridge,
    SpillLog,
    SpillToDisk,
)
from laminar.errors import Backpressure, BridgeClosed, InvalidSetting

from .tools import SCHEMA, Seconds, batches, numbers, rows, span, told


def test_rows_sent_one_by_one_arrive_as_columns() -> None:
    bridge = PipelineBridge(schema=SCHEMA)
    assert bridge.send_event((1, "a"), event_time=10)
    assert bridge.send_event((2, None), event_time=30)
    (batch,) = batches(BridgeConsumer(bridge).drain(flush=True))
    assert batch.table.to_pylist() == [{"n": 1, "name": "a"}, {"n": 2, "name": None}]
    assert batch.event_time == 30
    assert bridge.latest == 30
    assert bridge.counters.sent == 2


def test_a_row_may_name_its_values() -> None:
    bridge = PipelineBridge(schema=SCHEMA)
    bridge.send_event({"name": "a", "n": 1})
    (batch,) = batches(BridgeConsumer(bridge).drain(flush=True))
    assert batch.table.to_pylist() == [{"n": 1, "name": "a"}]


def test_single_rows_need_a_schema() -> None:
    bridge = PipelineBridge()
    bridge.send_event((1, "a"))
    with pytest.raises(InvalidSetting, match="schema"):
        BridgeConsumer(bridge).drain(flush=True)


def test_tables_and_record_batches_cross_as_they_are() -> None:
    bridge = PipelineBridge()
    bridge.send_batch(rows(1, 2), event_time=5, start=None, end=2)
    bridge.send_batch(span(3, 5), event_time=4, start=2, end=4)
    (batch,) = batches(BridgeConsumer(bridge).drain(flush=True))
    assert batch.table["n"].to_pylist() == [1, 2, 3, 4]
    assert (batch.start, batch.end, batch.event_time) == (None, 4, 5)


@pytest.mark.parametrize("flush", [True, False])
def test_a_watermark_never_overtakes_rows(*, flush: bool) -> None:
    bridge = PipelineBridge()
    consumer = BridgeConsumer(bridge, BatchPolicy(flush_on_watermark=flush))
    bridge.send_batch(rows(1))
    bridge.send_watermark(100)
    bridge.send_batch(rows(2))
    bridge.send_watermark(200)
    found = told(consumer.drain(flush=True))
    assert found == ([[1], "w100", [2], "w200"] if flush else [[1, 2], "w200"])


def test_a_barrier_closes_what_was_sent_before_it() -> None:
    bridge = PipelineBridge()
    consumer = BridgeConsumer(bridge)
    bridge.send_batch(rows(1))
    bridge.send_checkpoint(7)
    bridge.send_batch(rows(2))
    assert told(consumer.drain()) == [[1], "c7"]
    assert told(consumer.drain(flush=True)) == [[2]]


def test_watermarks_that_nothing_separates_are_one() -> None:
    bridge = PipelineBridge()
    for time in range(1000):
        bridge.send_watermark(time)
    assert told(BridgeConsumer(bridge).drain()) == ["w999"]


def test_a_watermark_does_not_go_back() -> None:
    bridge = PipelineBridge()
    consumer = BridgeConsumer(bridge)
    bridge.send_watermark(100)
    assert told(consumer.drain()) == ["w100"]
    bridge.send_watermark(50)
    assert told(consumer.drain()) == []
    assert consumer.current_watermark == 100


def test_a_higher_watermark_is_not_lost_to_a_lower_one_behind_it() -> None:
    bridge = PipelineBridge()
    bridge.send_watermark(100)
    bridge.send_watermark(50)
    assert told(BridgeConsumer(bridge).drain()) == ["w100"]


def test_a_slice_counts_as_its_share_unless_it_is_small() -> None:
    """What comes in goes out again, whatever it counts as; small batches are not looked into."""
    table = pa.table({"n": pa.array(range(100_000), pa.int64())})
    bridge = PipelineBridge(capacity_rows=None, capacity_bytes=table.nbytes)
    for at in range(0, 100_000, 10_000):
        bridge.send_batch(table.slice(at, 10_000), start=at, end=at + 10_000)
    assert bridge.counters.waiting_bytes == table.nbytes
    consumer = BridgeConsumer(bridge, BatchPolicy(max_rows=10_000))
    assert [each.num_rows for each in batches(consumer.drain())] == [10_000] * 10
    bridge.send_batch(rows(1, 2, 3))
    assert bridge.counters.waiting_bytes >= rows(1, 2, 3).nbytes
    consumer.drain(flush=True)
    assert bridge.counters.waiting_bytes == 0


def test_single_rows_meet_the_bound_exactly() -> None:
    """Room is looked up for many rows at once, and still no row too many is taken."""
    bridge = PipelineBridge(schema=SCHEMA, capacity_rows=2_500)
    consumer = BridgeConsumer(bridge, BatchPolicy(max_rows=1_000))

    def send() -> int:
        for sent in range(10_000):
            try:
                bridge.send_event((sent, "x"))
            except Backpressure:
                return sent
        raise AssertionError("no bound")

    assert send() == 2_500
    assert len(consumer.drain(limit=1)) == 1
    assert send() == 1_000
    bridge.send_watermark(1)
    assert len(batches(consumer.drain(limit=1))) == 1
    bridge.send_batch(rows(*range(999)))  # room that single rows had counted on
    assert send() == 1
    assert bridge.channel.rows == 2_500
    found = bridge.counters
    assert (found.sent, found.batches) == (4_500, 3_502)


def test_closing_ends_the_stream_and_takes_no_more() -> None:
    bridge = PipelineBridge(schema=SCHEMA)
    bridge.send_batch(rows(1))
    bridge.close()
    bridge.close()
    assert told(BridgeConsumer(bridge).drain()) == [[1], "eof"]
    with pytest.raises(BridgeClosed):
        bridge.send_batch(rows(2))
    with pytest.raises(BridgeClosed):
        bridge.send_event((2, "b"))
    with pytest.raises(BridgeClosed):
        bridge.send_watermark(1)


def test_a_full_bridge_pauses_its_source_and_loses_nothing() -> None:
    clock = Seconds()
    bridge = PipelineBridge("trades", schema=SCHEMA, capacity_rows=2, clock=clock)
    consumer = BridgeConsumer(bridge, BatchPolicy(max_rows=2))
    assert bridge.has_capacity()
    bridge.send_event((1, "a"))
    bridge.send_event((2, "b"))
    assert not bridge.has_capacity()
    with pytest.raises(Backpressure, match='"trades" is full: 2 rows'):
        bridge.send_event((3, "c"))
    assert bridge.is_paused
    clock.now = 5.0
    assert bridge.counters.paused_seconds == 5.0
    assert numbers(consumer.drain()) == [1, 2]
    assert bridge.has_capacity()
    bridge.send_event((3, "c"))
    clock.now = 9.0
    assert numbers(consumer.drain(flush=True)) == [3]
    found = bridge.counters
    assert (found.sent, found.dropped, found.paused_seconds) == (3, 0, 5.0)


def test_bytes_bound_a_bridge_too() -> None:
    bridge = PipelineBridge(capacity_rows=None, capacity_bytes=1000)
    bridge.send_batch(span(0, 50))
    with pytest.raises(Backpressure):
        bridge.send_batch(span(50, 90))


def test_a_batch_larger_than_the_bridge_goes_in_alone() -> None:
    bridge = PipelineBridge(capacity_rows=10)
    consumer = BridgeConsumer(bridge)
    bridge.send_batch(span(0, 50), start=0, end=50)
    with pytest.raises(Backpressure):
        bridge.send_batch(rows(50), start=50, end=51)
    assert numbers(consumer.drain(flush=True)) == list(range(50))


def test_a_watermark_passes_a_full_bridge() -> None:
    bridge = PipelineBridge(capacity_rows=1)
    bridge.send_batch(rows(1))
    assert bridge.send_watermark(5)
    assert told(BridgeConsumer(bridge).drain(flush=True)) == [[1], "w5"]


def test_dropping_counts_every_row_and_warns_once_per_period(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Seconds()
    bridge = PipelineBridge(capacity_rows=2, strategy=DropNewest(), clock=clock)
    assert bridge.send_batch(rows(1, 2))
    with caplog.at_level(logging.WARNING, "laminar.bridge"):
        for at in range(120):
            clock.now = float(at)
            assert not bridge.send_batch(rows(3, 4, 5))
    assert bridge.has_capacity()  # whoever drops need not wait
    assert bridge.counters.dropped == 360
    assert [getattr(record, "rows", 0) for record in caplog.records] == [3, 180]
    assert numbers(BridgeConsumer(bridge).drain(flush=True)) == [1, 2]


def test_a_batch_never_spans_what_was_dropped() -> None:
    bridge = PipelineBridge(capacity_rows=2, strategy=DropNewest())
    consumer = BridgeConsumer(bridge)
    bridge.send_batch(rows(0, 1), start=None, end=2)
    bridge.send_batch(rows(2), start=2, end=3)  # dropped
    (first,) = batches(consumer.drain(flush=True))
    bridge.send_batch(rows(3), start=3, end=4)
    bridge.send_batch(rows(4), start=4, end=5)
    (second,) = batches(consumer.drain(flush=True))
    assert (first.start, first.end) == (None, 2)
    assert (second.start, second.end) == (3, 5)
    assert second.parts[0].after == 2


def test_a_gap_closes_a_batch() -> None:
    bridge = PipelineBridge()
    bridge.send_batch(rows(1), start=0, end=1)
    bridge.send_batch(rows(5), start=4, end=5)
    assert told(BridgeConsumer(bridge).drain(flush=True)) == [[1], [5]]


def test_rows_without_a_place_to_spill_to_are_refused_at_once() -> None:
    with pytest.raises(InvalidSetting, match="spill"):
        PipelineBridge(strategy=SpillToDisk(10))
    with pytest.raises(InvalidSetting, match="then"):
        SpillToDisk(10, then=SpillToDisk(10))
    with pytest.raises(InvalidSetting, match="max_spill_bytes"):
        SpillToDisk(0)
    with pytest.raises(InvalidSetting, match="capacity_rows"):
        PipelineBridge(capacity_rows=0)


MESSAGES = st.lists(
    st.one_of(
        st.integers(1, 9).map(lambda size: ("rows", size)),
        st.integers(1, 9).map(lambda size: ("range", size)),
        st.just(("event", 1)),
        st.integers(0, 100).map(lambda time: ("watermark", time)),
        st.just(("barrier", 0)),
        st.just(("drain", 0)),
    ),
    max_size=60,
)


@given(MESSAGES, st.integers(1, 12), st.booleans(), st.integers(1, 20), st.booleans())
def test_order_and_number_are_kept_whatever_is_sent(
    tmp_path_factory: pytest.TempPathFactory,
    script: list[tuple[str, int]],
    max_rows: int,
    on_watermark: bool,
    capacity: int,
    spills: bool,
) -> None:
    """Rows come out once and in order; marks stand behind exactly the rows sent before them."""
    folder: Path = tmp_path_factory.mktemp("spill")
    bridge = PipelineBridge(
        schema=SCHEMA,
        capacity_rows=capacity,
        strategy=SpillToDisk() if spills else PauseSource(),
        spill=SpillLog(folder),
    )
    consumer = BridgeConsumer(bridge, BatchPolicy(max_rows, flush_on_watermark=on_watermark))
    taken: list[object] = []
    sent = epoch = 0
    expected: list[object] = []

    def drain(*, flush: bool) -> None:
        for each in told(consumer.drain(flush=flush)):
            taken.extend(each if isinstance(each, list) else [each])
        assert bridge.channel.rows <= max(capacity, 9)

    for kind, size in script:
        fresh = list(range(sent, sent + size))
        try:
            if kind == "rows":
                bridge.send_batch(rows(*fresh))
            elif kind == "range":
                bridge.send_batch(rows(*fresh), start=sent, end=sent + size)
            elif kind == "event":
                bridge.send_event((sent, "x"))
        except Backpressure:
            drain(flush=True)
            continue
        if kind in ("rows", "range", "event"):
            expected += fresh
            sent += size
        elif kind == "watermark":
            bridge.send_watermark(size)
        elif kind == "barrier":
            epoch += 1
            bridge.send_checkpoint(epoch)
            expected.append(f"c{epoch}")
        else:
            drain(flush=False)
    bridge.close()
    drain(flush=True)
    marks = [each for each in taken if isinstance(each, str) and each.startswith("w")]
    assert [each for each in taken if each not in marks] == [*expected, "eof"]
    times = [int(each[1:]) for each in marks]
    assert times == sorted(set(times))
    assert bridge.counters.waiting == 0
    assert bridge.channel.bytes == 0


def test_an_empty_range_still_moves_on() -> None:
    bridge = PipelineBridge()
    bridge.send_batch(pa.table({"n": pa.array([], pa.int64())}), start=1, end=9)
    (batch,) = batches(BridgeConsumer(bridge).drain(flush=True))
    assert (batch.num_rows, batch.end) == (0, 9)
