from __future__ import annotations

from datetime import timedelta

import pytest

from laminar.bridge import BatchPolicy, BridgeConsumer, PipelineBridge
from laminar.bridge.messages import size_of
from laminar.errors import InvalidSetting

from .tools import SCHEMA, Seconds, batches, numbers, rows, span, told


def sized(bridge: PipelineBridge, policy: BatchPolicy) -> list[int]:
    return [each.num_rows for each in batches(BridgeConsumer(bridge, policy).drain())]


def test_a_batch_is_closed_by_its_rows() -> None:
    bridge = PipelineBridge(schema=SCHEMA, clock=Seconds())
    for n in range(25):
        bridge.send_event((n, "x"))
    assert sized(bridge, BatchPolicy(max_rows=10)) == [10, 10]


def test_rows_without_offsets_are_cut_to_size() -> None:
    bridge = PipelineBridge()
    bridge.send_batch(span(0, 7))
    bridge.send_batch(span(7, 30))
    found = BridgeConsumer(bridge, BatchPolicy(max_rows=10)).drain()
    assert [each.num_rows for each in batches(found)] == [10, 10, 10]
    assert numbers(found) == list(range(30))
    assert bridge.channel.rows == bridge.channel.bytes == 0


def test_a_range_is_not_cut() -> None:
    bridge = PipelineBridge(clock=Seconds())
    bridge.send_batch(span(0, 6), start=0, end=6)
    bridge.send_batch(span(6, 12), start=6, end=12)
    bridge.send_batch(span(12, 40), start=12, end=40)
    assert sized(bridge, BatchPolicy(max_rows=10)) == [6, 6, 28]


def test_a_batch_is_closed_by_its_bytes() -> None:
    bridge = PipelineBridge()
    size = size_of(span(30, 40))
    for at in range(0, 40, 10):
        bridge.send_batch(span(at, at + 10), start=at, end=at + 10)
    assert sized(bridge, BatchPolicy(max_bytes=2 * size)) == [20, 20]


def test_a_batch_is_closed_by_its_age() -> None:
    clock = Seconds()
    bridge = PipelineBridge(clock=clock)
    consumer = BridgeConsumer(bridge, BatchPolicy(max_latency=timedelta(seconds=2)))
    bridge.send_batch(rows(1))
    clock.now = 1.5
    bridge.send_batch(rows(2))
    assert consumer.drain() == []
    assert consumer.deadline == 2.0  # by the first row, not the last
    clock.now = 2.0
    assert told(consumer.drain()) == [[1, 2]]
    assert consumer.deadline is None
    bridge.send_batch(rows(3))
    clock.now = 3.9
    assert consumer.drain() == []
    clock.now = 4.0
    assert told(consumer.drain()) == [[3]]


def test_a_watermark_closes_a_batch_if_the_policy_says_so() -> None:
    for flush, expected in ((True, [[1], "w5"]), (False, [])):
        bridge = PipelineBridge(clock=Seconds())
        consumer = BridgeConsumer(bridge, BatchPolicy(flush_on_watermark=flush))
        bridge.send_batch(rows(1))
        bridge.send_watermark(5)
        assert told(consumer.drain()) == expected


def test_a_watermark_alone_waits_for_nobody() -> None:
    bridge = PipelineBridge()
    bridge.send_watermark(5)
    consumer = BridgeConsumer(bridge, BatchPolicy(flush_on_watermark=False))
    assert told(consumer.drain()) == ["w5"]


def test_one_batch_at_a_time_leaves_the_rest_in_the_bridge() -> None:
    bridge = PipelineBridge(capacity_rows=30)
    consumer = BridgeConsumer(bridge, BatchPolicy(max_rows=10))
    for at in range(0, 30, 10):
        bridge.send_batch(span(at, at + 10), start=at, end=at + 10)
    assert len(batches(consumer.drain(limit=1))) == 1
    assert bridge.channel.rows == 20
    assert not bridge.has_capacity() or bridge.channel.rows < 30
    assert numbers(consumer.drain(limit=1)) == list(range(10, 20))
    assert numbers(consumer.drain(limit=1)) == list(range(20, 30))


def test_marks_right_behind_a_batch_come_with_it() -> None:
    bridge = PipelineBridge()
    consumer = BridgeConsumer(bridge, BatchPolicy(max_rows=1))
    bridge.send_batch(rows(1), start=0, end=1)
    bridge.send_watermark(5)
    bridge.send_checkpoint(1)
    bridge.send_batch(rows(2), start=1, end=2)
    bridge.send_watermark(6)
    assert told(consumer.drain(limit=1)) == [[1], "w5", "c1"]
    assert told(consumer.drain(limit=0)) == []
    assert told(consumer.drain(limit=1)) == [[2], "w6"]
    bridge.send_watermark(7)
    assert told(consumer.drain(limit=0)) == ["w7"]


def test_pieces_of_one_table_come_one_at_a_time_too() -> None:
    bridge = PipelineBridge()
    bridge.send_batch(span(0, 35))
    consumer = BridgeConsumer(bridge, BatchPolicy(max_rows=10))
    found = [numbers(consumer.drain(limit=1, flush=True)) for _ in range(4)]
    assert found == [list(range(at, min(at + 10, 35))) for at in range(0, 40, 10)]


@pytest.mark.parametrize(
    "given",
    [{"max_rows": 0}, {"max_bytes": 0}, {"max_latency": timedelta(seconds=-1)}],
    ids=str,
)
def test_a_policy_that_makes_no_sense_is_refused(given: dict[str, int]) -> None:
    with pytest.raises(InvalidSetting):
        BatchPolicy(**given)  # type: ignore[arg-type]
