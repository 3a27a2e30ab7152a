"""A producer five times as fast as its consumer, for ten minutes of a clock that is ours."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from laminar.bridge import (
    BackpressureStrategy,
    BatchPolicy,
    BridgeConsumer,
    DropNewest,
    PauseSource,
    PipelineBridge,
    SpillLog,
    SpillToDisk,
)
from laminar.errors import Backpressure

from .tools import Seconds, batches

SECONDS = 600
CHUNK = 5_000  # rows per poll; a poll a second is offered, and one batch in five seconds is taken
CAPACITY = 50_000
SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
TEXT = pa.array(["x" * 50] * CHUNK)


def chunk(at: int) -> pa.Table:
    return pa.table({"n": pa.array(np.arange(at, at + CHUNK)), "text": TEXT}, SCHEMA)


class Load:
    """Runs the two sides against the clock and watches memory."""

    def __init__(self, strategy: BackpressureStrategy, folder: Path) -> None:
        self.clock = Seconds()
        self.bridge = PipelineBridge(
            "load",
            capacity_rows=CAPACITY,
            strategy=strategy,
            spill=SpillLog(folder),
            clock=self.clock,
        )
        self.consumer = BridgeConsumer(self.bridge, BatchPolicy(max_rows=CHUNK))
        self.offered = self.taken = self.position = 0
        self.sum = 0
        self.most = 0
        self.rss: list[int] = []

    def produce(self) -> None:
        if not self.bridge.has_capacity():
            self.bridge.pause()
            return
        start, end = self.position, self.position + CHUNK
        self.offered += CHUNK
        try:
            self.bridge.send_batch(chunk(start), start=start or None, end=end)
        except Backpressure:
            self.offered -= CHUNK
            return
        self.position = end

    def consume(self) -> bool:
        actions = self.consumer.drain(limit=1, flush=True)
        for batch in batches(actions):
            values = batch.table["n"]
            self.taken += len(values)
            self.sum += pc.sum(values).as_py()
            self.consumer.release(batch)
        return bool(actions)

    def run(self) -> None:
        for second in range(SECONDS):
            self.clock.now = float(second)
            self.produce()
            if second % 5 == 4:
                self.consume()
            self.most = max(self.most, self.bridge.channel.rows)
            if second % 60 == 59:
                gc.collect()
                self.rss.append(psutil.Process().memory_info().rss)
        while self.consume():
            pass


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "strategy", [PauseSource(), DropNewest(), SpillToDisk(1 << 30)], ids=lambda s: type(s).__name__
)
def test_five_times_too_fast(strategy: BackpressureStrategy, tmp_path: Path) -> None:
    load = Load(strategy, tmp_path)
    load.run()
    found = load.bridge.counters
    assert load.most <= CAPACITY
    assert max(load.rss[1:]) - load.rss[0] < 40 << 20  # flat: it is not kept in memory
    assert load.taken + found.dropped == load.offered
    assert found.waiting == 0
    assert list(tmp_path.glob("*.spill")) == []
    if isinstance(strategy, DropNewest):
        assert load.offered == SECONDS * CHUNK
        assert found.dropped == load.offered - load.taken >= SECONDS * 3 // 4 * CHUNK
        return
    assert found.dropped == 0
    assert load.sum == load.taken * (load.taken - 1) // 2  # every number once
    if isinstance(strategy, SpillToDisk):
        assert load.taken == SECONDS * CHUNK
        assert found.spilled > SECONDS * CHUNK * 4 // 5
    else:
        assert load.taken <= SECONDS // 5 * CHUNK + CAPACITY
        assert found.paused_seconds > SECONDS * 0.5
