from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from laminar.bridge import (
    BatchPolicy,
    BridgeConsumer,
    DropNewest,
    PipelineBridge,
    SpillLog,
    SpillToDisk,
)
from laminar.bridge.messages import Step
from laminar.bridge.spill import SpillFile
from laminar.errors import Backpressure, SpillCorrupt

from .tools import SCHEMA, batches, numbers, rows, span, told


def spilling(folder: Path, **options: Any) -> PipelineBridge:
    given: dict[str, Any] = {
        "capacity_rows": 2,
        "strategy": SpillToDisk(),
        "schema": SCHEMA,
        **options,
    }
    return PipelineBridge(spill=SpillLog(folder), **given)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def test_what_does_not_fit_goes_to_disk_and_comes_back_in_order(tmp_path: Path) -> None:
    bridge = spilling(tmp_path)
    consumer = BridgeConsumer(bridge, BatchPolicy(max_rows=3))
    for n in range(8):
        assert bridge.send_event((n, "x"))
        if n == 4:
            bridge.send_watermark(4)
    assert bridge.counters.spilled == 6
    assert bridge.counters.waiting == 8
    assert len(files(tmp_path)) == 6
    found = told(consumer.drain(flush=True))
    assert [each for each in found if each == "w4"]
    flat = [n for each in found for n in (each if isinstance(each, list) else [each])]
    assert flat == [0, 1, 2, 3, 4, "w4", 5, 6, 7]


def test_memory_is_used_again_once_the_disk_is_read(tmp_path: Path) -> None:
    bridge = spilling(tmp_path)
    consumer = BridgeConsumer(bridge)
    bridge.send_batch(rows(1, 2))
    bridge.send_batch(rows(3))
    consumer.drain(flush=True)
    bridge.send_batch(rows(4))
    assert bridge.counters.spilled == 1
    assert numbers(consumer.drain(flush=True)) == [4]


def test_a_file_goes_when_its_batch_is_released_and_not_before(tmp_path: Path) -> None:
    bridge = spilling(tmp_path)
    consumer = BridgeConsumer(bridge)
    bridge.send_batch(rows(1, 2))
    bridge.send_batch(rows(3))
    found = batches(consumer.drain(flush=True))
    assert files(tmp_path) == ["000000000001.spill"]
    assert [file.rows for file in SpillLog(tmp_path).found] == [1]  # as after a crash
    for batch in found:
        consumer.release(batch)
    assert files(tmp_path) == []
    assert bridge.counters.spilled_bytes == 0


@pytest.mark.parametrize("then", [None, DropNewest()])
def test_a_full_disk_share_pauses_or_drops(tmp_path: Path, then: DropNewest | None) -> None:
    strategy = SpillToDisk(2_000) if then is None else SpillToDisk(2_000, then)
    bridge = spilling(tmp_path, strategy=strategy)
    bridge.send_batch(rows(1, 2))
    taken = 0
    try:
        while bridge.send_batch(span(taken, taken + 10)):
            taken += 10
    except Backpressure:
        assert then is None
        assert not bridge.has_capacity() or bridge.counters.spilled_bytes < 2_000
    else:
        assert then is not None
        assert bridge.counters.dropped == 10
    assert taken > 0
    assert bridge.counters.spilled_bytes <= 2_000
    assert bridge.counters.spilled == taken


def test_a_damaged_file_is_named_and_nothing_is_skipped(tmp_path: Path) -> None:
    bridge = spilling(tmp_path)
    consumer = BridgeConsumer(bridge, BatchPolicy(max_rows=1))
    bridge.send_batch(rows(1, 2))
    bridge.send_batch(rows(3))
    path = tmp_path / "000000000001.spill"
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)
    for _ in range(2):
        with pytest.raises(SpillCorrupt, match=r"000000000001\.spill"):
            consumer.drain(flush=True)
    good = bytes(data[:-20]) + bytes([data[-20] ^ 1]) + bytes(data[-19:])
    path.write_bytes(good)
    assert numbers(consumer.drain(flush=True)) == [1, 2, 3]  # what was drained before it, too
    path.write_bytes(b"rubbish")
    with pytest.raises(SpillCorrupt, match="spill"):
        SpillLog(tmp_path)


def test_after_a_crash_the_way_goes_on_from_what_was_committed(tmp_path: Path) -> None:
    bridge = spilling(tmp_path)
    consumer = BridgeConsumer(bridge, BatchPolicy(max_rows=1))
    bridge.go_on_from("a")
    for n, (start, end) in enumerate([("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]):
        bridge.send_batch(rows(n), start=start, end=end)

    def way(position: str) -> list[str]:
        found = SpillLog(tmp_path).way_from(position)
        steps = [each.step if isinstance(each, SpillFile) else each for each in found]
        kinds = ["file" if isinstance(each, SpillFile) else "read" for each in found]
        return [f"{kind} {step.start}{step.end}" for kind, step in zip(kinds, steps, strict=True)]

    # Two are in memory and lost with the process; they are read from the source as they were.
    assert way("a") == ["read ab", "read bc", "file cd", "file de"]
    assert way("b") == ["read bc", "file cd", "file de"]
    first = batches(consumer.drain())
    for batch in first[:2]:
        consumer.release(batch)
    assert way("c") == ["file cd", "file de"]
    # Committed, but the process died before it removed the file.
    assert way("d") == ["file de"]
    assert files(tmp_path) == ["000000000002.spill"]
    assert way("x") == []
    assert files(tmp_path) == []


def test_two_floods_in_a_row_make_one_way(tmp_path: Path) -> None:
    bridge = spilling(tmp_path, capacity_rows=1)
    consumer = BridgeConsumer(bridge, BatchPolicy(max_rows=1))
    send = iter([(0, 1), (1, 2), (2, 3), (3, 4)])
    for start, end in (next(send), next(send)):
        bridge.send_batch(rows(start), start=start, end=end)
    consumer.drain()  # taken, but not committed
    for start, end in send:
        bridge.send_batch(rows(start), start=start, end=end)
    log = SpillLog(tmp_path)
    found = log.way_from(None)
    assert [type(each) for each in found] == [Step, SpillFile, Step, SpillFile]
    steps = [each.step if isinstance(each, SpillFile) else each for each in found]
    assert [(each.start, each.end) for each in steps] == [(0, 1), (1, 2), (2, 3), (3, 4)]


KILLED = """
import sys
from pathlib import Path
import pyarrow as pa
from laminar.bridge import PipelineBridge, SpillLog, SpillToDisk

bridge = PipelineBridge(capacity_rows=10, strategy=SpillToDisk(), spill=SpillLog(Path(sys.argv[1])))
for n in range(1_000_000):
    start = None if n == 0 else n
    bridge.send_batch(pa.table({"n": list(range(n * 10, n * 10 + 10))}), start=start, end=n + 1)
    print(n, flush=True)
"""


@pytest.mark.parametrize("after", [3, 40])
def test_a_process_killed_while_it_spills_loses_nothing(tmp_path: Path, after: int) -> None:
    program = textwrap.dedent(KILLED)
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "spill")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ},
    )
    assert process.stdout is not None
    for _ in range(after):
        acknowledged = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    process.wait()
    rest = process.stdout.read().split("\n")
    acknowledged = max([acknowledged, *(int(each) for each in rest[:-1] if each)])
    # Nothing was committed: the source is read again for what was in memory, the rest is on disk.
    log = SpillLog(tmp_path / "spill")
    position, found = None, []
    for each in log.way_from(None):
        step = each.step if isinstance(each, SpillFile) else each
        assert step.after == position
        if isinstance(each, SpillFile):
            found += log.read(each).rows.column("n").to_pylist()  # type: ignore[attr-defined]
        else:
            found += list(range((step.start or 0) * 10, step.end * 10))
        position = step.end
    assert found == list(range(len(found)))
    assert len(found) >= (acknowledged + 1) * 10
