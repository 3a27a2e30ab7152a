"""A producer and a consumer on threads of their own, which take turns as often as Python can."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from laminar.bridge import (
    AdvanceWatermark,
    BackpressureStrategy,
    BatchPolicy,
    BridgeConsumer,
    BridgeMessage,
    Checkpoint,
    DropNewest,
    Eof,
    PauseSource,
    PipelineBridge,
    ProcessBatch,
    SpillLog,
    SpillToDisk,
)
from laminar.bridge.messages import RowBatch
from laminar.errors import Backpressure

from .tools import SCHEMA, rows


@pytest.fixture(autouse=True)
def _restless() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def produce(bridge: PipelineBridge, rounds: int, taken: list[int]) -> None:
    """Send rows, each followed by its number as a watermark and, sometimes, as a barrier."""
    at = 0
    for number in range(1, rounds + 1):
        while True:
            try:
                if number % 3 == 0:
                    is_taken = bridge.send_event((number, "x"))
                else:
                    is_taken = bridge.send_batch(rows(number), start=at, end=number)
                break
            except Backpressure:
                threading.Event().wait(0.0005)
        if is_taken:
            taken.append(number)
            at = number
        bridge.send_watermark(number)
        if number % 7 == 0:
            bridge.send_checkpoint(number)
    bridge.close()


@pytest.mark.parametrize(
    ("strategy", "rounds"),
    [
        (PauseSource(), 1_500),
        (DropNewest(), 1_500),
        (SpillToDisk(1 << 30), 150),  # each of them syncs a file
        (SpillToDisk(4_000), 150),
    ],
    ids=["pause", "drop", "spill", "spill little"],
)
def test_order_is_kept_between_two_threads(
    strategy: BackpressureStrategy, rounds: int, tmp_path: Path
) -> None:
    bridge = PipelineBridge(
        schema=SCHEMA, capacity_rows=7, strategy=strategy, spill=SpillLog(tmp_path)
    )
    consumer = BridgeConsumer(bridge, BatchPolicy(max_rows=4))
    taken: list[int] = []
    producer = threading.Thread(target=produce, args=(bridge, rounds, taken), daemon=True)
    producer.start()
    found: list[int] = []
    last = barrier = 0
    is_over = False
    while not is_over:
        for each in consumer.drain(limit=1, flush=True):
            match each:
                case ProcessBatch():
                    found += each.table["n"].to_pylist()
                    consumer.release(each)
                    assert min(each.table["n"].to_pylist()) > last  # no watermark overtook it
                case AdvanceWatermark(timestamp):
                    assert timestamp > last
                    last = timestamp
                case Checkpoint(epoch):
                    assert epoch == barrier + 7
                    barrier = epoch
                    assert last <= epoch
                case Eof():
                    is_over = True
        assert bridge.channel.rows <= 7
    producer.join(30)
    assert found == taken
    assert last == rounds
    counted = bridge.counters
    assert (counted.sent, counted.dropped) == (len(taken), rounds - len(taken))
    assert (counted.waiting, counted.waiting_bytes, counted.spilled_bytes) == (0, 0, 0)
    assert list(tmp_path.glob("*.spill")) == []


class Interrupted(deque[BridgeMessage]):
    """Looks empty, and then the other thread has its turn."""

    then: Callable[[], object] | None = None

    def __bool__(self) -> bool:
        found = len(self) > 0
        turn, self.then = self.then, None
        if turn is not None:
            turn()
        return found


def test_what_was_spilled_is_not_taken_before_what_came_into_memory_meanwhile(
    tmp_path: Path,
) -> None:
    bridge = PipelineBridge(capacity_rows=1, strategy=SpillToDisk(), spill=SpillLog(tmp_path))
    memory = bridge.channel.memory = Interrupted()

    def send() -> None:
        bridge.send_batch(rows(1), start=0, end=1)
        bridge.send_batch(rows(2), start=1, end=2)  # spilled

    memory.then = send
    found = [bridge.channel.pop() for _ in range(3)]
    ends = [each.end for each in found if isinstance(each, RowBatch)]
    assert ends == [1, 2]
