"""All ways in, without Spark: users push while epochs open, close and cut."""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from laminar.errors import Backpressure, UnknownRelation
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.ingest.connector_bridge import ConnectorDagBridge
from laminar.runtime.ingest.pushed_inlet import PushedInlet
from laminar.store import PendingBatch, PendingLog
from laminar.testing import ManualClock


class SlowLog(PendingLog):
    """Two who look at what waits at the same time meet here."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.meeting: threading.Barrier | None = None

    def after(self, table: str, seq: int) -> list[PendingBatch]:
        if self.meeting is not None:
            with suppress(threading.BrokenBarrierError):
                self.meeting.wait(0.2)
        return super().after(table, seq)


def ways(root: Path, **options: str) -> tuple[ConnectorDagBridge, Any]:
    table = TableDefinition("t", (("n", "bigint", True),), is_source=True, options=options)
    parts: Any = SimpleNamespace(
        defined=SimpleNamespace(catalog=SimpleNamespace(definitions={"t": table}), sources={}),
        ledger=SimpleNamespace(
            manifest=SimpleNamespace(offsets={}, epoch=0),
            pending=SlowLog(root),
            turn=SimpleNamespace(is_inside=False),
        ),
    )
    clock, unused = ManualClock(datetime(2024, 1, 1)), cast("Any", None)
    made = ConnectorDagBridge(parts.defined, parts.ledger, unused, unused, unused, root, clock)
    return made, parts


def rows(count: int) -> pa.Table:
    return pa.table({"n": pa.array(range(count), pa.int64())})


def test_a_table_has_one_way_in_whoever_opens_it(tmp_path: Path) -> None:
    """Otherwise rows that are pushed into the one would never be seen by the other."""
    inlets, parts = ways(tmp_path)
    parts.ledger.pending.meeting = threading.Barrier(2)
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(inlets.of("t"))) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(10)
    assert len(found) == 2
    assert found[0] is found[1]


def test_who_waits_for_room_finds_it_in_the_way_that_is_opened_anew(tmp_path: Path) -> None:
    inlets, parts = ways(tmp_path, backpressure="pause", buffer_rows="10")
    inlets.push("t", rows(10))
    with pytest.raises(Backpressure):
        inlets.admit("t", 1)
    inlets.running = True
    taken: list[bool] = []
    waiting = threading.Thread(target=lambda: taken.append(inlets.admit("t", 1)))
    waiting.start()
    inlets.forget("t")  # as another policy does
    parts.ledger.manifest.offsets["t"] = 1  # and what it had was taken
    inlets.wake()
    waiting.join(10)
    assert taken == [True]
    parts.defined.catalog.definitions.clear()
    with pytest.raises(UnknownRelation):
        inlets.admit("t", 1)


def test_pushing_beside_a_way_that_is_closed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    inlets, _ = ways(tmp_path)
    pushed = threading.Event()

    def push() -> None:
        for _ in range(60):
            inlets.push("t", rows(1))
        pushed.set()

    thread = threading.Thread(target=push)
    thread.start()
    while not pushed.is_set():
        inlets.forget("t")
    thread.join(10)
    inlet = inlets.of("t")
    assert isinstance(inlet, PushedInlet)
    found = inlet.cut(1, whole=True)
    assert found is not None
    assert (found.start, found.end) == (0, 60)
