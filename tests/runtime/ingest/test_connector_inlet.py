"""The way in, without Spark: a source of numbers, and segments that are lists of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from laminar.bridge import (
    BackpressureStrategy,
    BatchPolicy,
    DropNewest,
    PauseSource,
    SpillToDisk,
)
from laminar.errors import Backpressure
from laminar.model.trace import Segment
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.catalog.source_options import InletOptions
from laminar.runtime.ingest.connector_inlet import SourceInlet
from laminar.runtime.ingest.poller import InletContext
from laminar.runtime.ingest.pushed_inlet import PushedInlet
from laminar.runtime.ingest.range_reader import ReadRange
from laminar.store import PendingLog, Range

TABLE = TableDefinition("s", (("n", "bigint", True),), is_source=True, connector="numbers")


@dataclass
class Numbers:
    """Rows 0, 1, 2, ... in polls of a few."""

    total: int = 0
    poll: int = 10
    polled: int = 0
    broken: bool = False
    answers: threading.Event = field(default_factory=threading.Event)
    append_only: bool = True

    def __post_init__(self) -> None:
        self.answers.set()

    def latest_offset(self, start: Any) -> Any:
        self.answers.wait(10)
        self.polled += 1
        if self.broken:
            raise OSError("the disk is gone")
        end = min((start or 0) + self.poll, self.total)
        return end if end > (start or 0) else None

    def read(self, *_: Any) -> Any:
        raise AssertionError


class ListIngest:
    """Keeps what it is asked to write; a segment's file is the name of a list."""

    def __init__(self) -> None:
        self.written: dict[str, list[int]] = {}

    def now(self) -> int:
        return 0

    def load(self, taken: Range, *_: Any) -> pa.Table:
        return pa.table({"n": pa.array(range(taken.start or 0, taken.end), pa.int64())})

    def marks(self, _definition: Any, table: pa.Table, _now: int) -> dict[str, int]:
        return {"0": max(table["n"].to_pylist())}

    def kept(self, _definition: Any, table: pa.Table) -> pa.Table:
        return table

    def write(self, _d: Any, _number: int, table: pa.Table, marks: Any, *_: Any) -> ReadRange:
        name = f"f{len(self.written)}"
        self.written[name] = table["n"].to_pylist()
        segment = Segment((name,), 0, 0, table.num_rows, 0, True, ("x",))
        return ReadRange(segment, None, marks)

    def prepare(self, *_: Any) -> None:
        pass

    def rows(self, taken: ReadRange | None) -> list[int]:
        assert taken is not None
        assert taken.segment is not None
        return [n for name in taken.segment.files for n in self.written[name]]


class Bench:
    """One inlet, and the epochs that read from it."""

    def __init__(
        self,
        folder: Path,
        source: Numbers,
        options: InletOptions,
        at: Any = None,
        made: ListIngest | None = None,
    ) -> None:
        self.ingest = made or ListIngest()
        self.running = False
        self.gated = False
        self.now = 0.0
        self.woken = threading.Event()
        ingest: Any = self.ingest
        site = InletContext(
            ingest,
            folder,
            lambda: self.now,
            self.woken.set,
            lambda _name: self.gated,
            lambda: self.running,
        )
        self.inlet = SourceInlet(TABLE, source, options, site, at, 0)
        self.epoch = 0
        self.rows: list[int] = []

    def step(self, *, whole: bool = True, commit: bool = True) -> list[int] | None:
        self.epoch += 1
        if whole and not self.running:
            self.inlet.begin(ahead=False)
        found = self.inlet.cut(self.epoch, whole=whole)
        if found is None:
            return None
        rows = self.ingest.rows(self.inlet.take(found, self.epoch))
        if commit:
            self.inlet.committed(found.end)
            self.rows += rows
        return rows

    def poll(self) -> None:
        """Poll in the background until there is nothing more, or no room."""
        self.running = True
        self.inlet.pump()
        future = self.inlet._future
        if future is not None:
            future.result(10)
        self.inlet._future = None


def options(**given: Any) -> InletOptions:
    return InletOptions(**{"policy": BatchPolicy(max_rows=10), "buffer_rows": 30, **given})


def test_a_step_takes_what_is_there_now(tmp_path: Path) -> None:
    source = Numbers(total=25)
    bench = Bench(tmp_path, source, options())
    assert bench.step() == list(range(10))
    bench.inlet.begin(ahead=True)
    assert bench.step() == list(range(10, 20))
    assert bench.step() == list(range(20, 25))
    bench.inlet.begin(ahead=True)  # finds nothing, but that was then
    assert bench.inlet._future is not None
    bench.inlet._future.result(10)
    source.total = 26
    assert bench.step() == [25]
    assert bench.step() is None


def test_reading_ahead_is_one_poll_and_it_is_written_ahead(tmp_path: Path) -> None:
    source = Numbers(total=100)
    bench = Bench(tmp_path, source, options())
    bench.step()
    bench.inlet.begin(ahead=True)
    assert bench.inlet._future is not None
    bench.inlet._future.result(10)
    assert source.polled == 2
    assert list(bench.ingest.written) == ["f0", "f1"]
    assert bench.step() == list(range(10, 20))
    assert source.polled == 2


def test_a_failed_read_is_raised_and_tried_again(tmp_path: Path) -> None:
    source = Numbers(total=5, broken=True)
    bench = Bench(tmp_path, source, options())
    with pytest.raises(OSError, match="the disk is gone"):
        bench.step()
    source.broken = False
    assert bench.step() == list(range(5))


def test_a_failed_epoch_gives_its_rows_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Numbers(total=30), options())
    bench.step()
    assert bench.step(commit=False) == list(range(10, 20))
    bench.inlet.restart(10, 1)
    while bench.step() is not None:
        pass
    assert bench.rows == list(range(30))


def test_a_source_that_drops_for_ever_can_be_stopped(tmp_path: Path) -> None:
    source = Numbers(total=10**9)
    bench = Bench(tmp_path, source, options(strategy=DropNewest()))
    bench.running = True
    bench.inlet.pump()  # it never ends by itself: there is always room to drop
    bench.inlet.restart(None, 0)
    bench.running = False
    assert bench.inlet.consumed is None
    assert bench.step() == list(range(10))
    assert bench.inlet.consumed == 10


def test_polling_stops_when_the_bridge_is_full_and_resumes_by_itself(tmp_path: Path) -> None:
    source = Numbers(total=1000)
    bench = Bench(tmp_path, source, options())
    bench.poll()
    assert bench.inlet.bridge.is_paused
    held = bench.inlet.counters.waiting
    assert held <= 30
    assert source.polled <= 5  # 30 rows in the bridge and a batch that is written already
    bench.now = 4.0
    assert bench.inlet.counters.paused_seconds == 4.0
    while bench.step(whole=False) is not None:
        bench.poll()
    assert bench.rows == list(range(1000))
    assert bench.inlet.counters.dropped == 0


def test_a_batch_waits_for_its_policy_unless_all_is_asked_for(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Numbers(total=3, poll=3), options())
    bench.poll()
    assert bench.step(whole=False) is None
    bench.now = 1.0
    assert bench.step(whole=False) == [0, 1, 2]


def test_a_step_after_polling_takes_all_that_came_in(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Numbers(total=25), options())
    bench.poll()
    bench.running = False
    assert bench.step() == list(range(25))


def test_a_step_after_the_loop_has_ended_looks_again(tmp_path: Path) -> None:
    source = Numbers(total=0)
    bench = Bench(tmp_path, source, options())
    bench.running = True
    bench.inlet.pump()
    assert bench.inlet._future is not None
    bench.inlet._future.result(10)
    bench.running = False
    source.total = 5  # after the last poll of the loop
    assert bench.step() == list(range(5))


class BusyIngest(ListIngest):
    """While it writes, a source brings more."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], object] = lambda: None

    def write(self, *given: Any) -> ReadRange:
        taken = super().write(*given)
        self.meanwhile()
        return taken


def test_a_step_beside_a_source_that_never_ends_has_an_end(tmp_path: Path) -> None:
    """It takes what is before its barrier, not what comes in while it takes."""
    ingest = BusyIngest()
    bench = Bench(tmp_path, Numbers(total=1_000), options(), made=ingest)
    bench.poll()
    held = bench.inlet.counters.sent
    ingest.meanwhile = lambda: bench.inlet._polling.poll()
    assert bench.step() == list(range(held))
    assert held < 100
    ingest.meanwhile = lambda: None
    bench.running = False
    while bench.step() is not None:
        pass
    assert bench.rows == list(range(1_000))


def test_what_is_dropped_is_counted_and_never_inside_a_range(tmp_path: Path) -> None:
    source = Numbers(total=200)
    bench = Bench(tmp_path, source, options(strategy=DropNewest()))
    bench.poll()
    kept = []
    while (rows := bench.step(whole=False)) is not None:
        kept += rows
    source.total = 230
    bench.now = 1.0
    bench.poll()
    while (rows := bench.step(whole=False)) is not None:
        assert rows == list(range(rows[0], rows[0] + len(rows)))
        kept += rows
    assert len(kept) + bench.inlet.counters.dropped == 230
    assert kept[:10] == list(range(10))
    assert kept[-30:] == list(range(200, 230))


def test_a_step_that_takes_all_stops_at_what_was_dropped(tmp_path: Path) -> None:
    source = Numbers(total=60)
    bench = Bench(tmp_path, source, options(strategy=DropNewest()))
    bench.poll()
    kept = bench.inlet.counters.sent
    assert bench.step(whole=False) == list(range(10))
    assert bench.step(whole=False) == list(range(10, 20))
    source.total = 70
    bench.now = 1.0
    bench.poll()  # the newest rows fit again, behind a gap
    bench.running = False
    assert bench.step() == list(range(20, kept))
    assert bench.step() == list(range(60, 70))


def test_what_did_not_fit_is_not_read_twice(tmp_path: Path) -> None:
    source = Numbers(total=80, poll=20)
    bench = Bench(tmp_path, source, options(policy=BatchPolicy(max_rows=100)))
    bench.poll()  # 20 are in, 20 more are read and do not fit
    assert source.polled == 2
    assert bench.inlet.counters.sent == 20
    bench.now = 1.0
    bench.step(whole=False)
    bench.poll()
    bench.now = 2.0
    assert bench.step(whole=False) == list(range(20, 40))
    assert source.polled == 3


def test_spilled_rows_come_in_order_and_survive_a_crash(tmp_path: Path) -> None:
    source = Numbers(total=500)
    given = options(strategy=SpillToDisk())
    bench = Bench(tmp_path, source, given)
    bench.poll()
    assert bench.inlet.counters.spilled > 400
    for _ in range(6):
        bench.step(whole=False)
    bench.step(whole=False, commit=False)  # taken by an epoch that the crash cuts short
    again = Bench(tmp_path, source, given, at=60)
    asked = source.polled
    again.poll()
    again.now = 1.0
    while again.step(whole=False) is not None:
        again.poll()
        again.now += 1.0
    assert bench.rows + again.rows == list(range(500))
    assert source.polled - asked < 50  # it was not all read again
    assert list(tmp_path.rglob("*.spill")) == []


@pytest.mark.parametrize(
    "strategy", [PauseSource(), DropNewest(), SpillToDisk()], ids=lambda each: type(each).__name__
)
def test_ten_minutes_of_a_source_five_times_too_fast(
    strategy: BackpressureStrategy, tmp_path: Path
) -> None:
    """50 rows come every 3 seconds and 50 rows every 15 are taken; the clock is ours."""
    source = Numbers(poll=50)
    given = options(strategy=strategy, policy=BatchPolicy(max_rows=50), buffer_rows=200)
    bench = Bench(tmp_path, source, given)
    behind, sizes = 0, set()
    for second in range(0, 600, 3):
        bench.now = float(second)
        source.total += 50
        bench.poll()
        if second % 15 == 12:
            sizes.add(len(bench.step(whole=False) or ()))
        assert bench.inlet.bridge.channel.rows <= 200  # the bound, in every second
        behind = max(behind, bench.inlet.counters.waiting)
    counted = bench.inlet.counters
    assert sizes == {50}
    if isinstance(strategy, SpillToDisk):
        assert behind > 7_500
        assert counted.spilled > 7_500
    else:
        assert behind <= 200
    while bench.step(whole=False) is not None or bench.inlet.counters.waiting:
        bench.now += 1.0
        bench.poll()
    counted = bench.inlet.counters
    if isinstance(strategy, DropNewest):
        assert counted.dropped > 7_500
        assert len(bench.rows) + counted.dropped == source.total
        assert bench.rows == sorted(set(bench.rows))
    else:
        assert bench.rows == list(range(10_000))
        assert counted.dropped == 0
    if isinstance(strategy, PauseSource):
        assert counted.paused_seconds > 400
    assert list(tmp_path.rglob("*.spill")) == []


def test_an_epoch_does_not_wait_for_a_source_that_is_slow_to_answer(tmp_path: Path) -> None:
    source = Numbers(total=10)
    source.answers.clear()
    bench = Bench(tmp_path, source, options())
    bench.running = True
    bench.inlet.pump()
    assert bench.step(whole=False) is None  # and not: a deadlock
    source.answers.set()
    assert bench.inlet._future is not None
    bench.inlet._future.result(10)
    assert bench.woken.is_set()
    assert bench.step(whole=False) == list(range(10))


def test_a_source_that_is_too_far_ahead_is_not_polled(tmp_path: Path) -> None:
    source = Numbers(total=30)
    bench = Bench(tmp_path, source, options())
    bench.step()
    bench.gated = True
    assert bench.step() is None
    assert bench.inlet.bridge.is_paused
    bench.gated = False
    assert bench.step() == list(range(10, 20))
    assert not bench.inlet.bridge.is_paused


class SparkIngest(ListIngest):
    """Reads ranges as Spark does: straight into segments, numbered at once."""

    numbers: list[int]

    def load(self, taken: Range, definition: Any, number: int, *_: Any) -> Any:
        self.numbers = [*getattr(self, "numbers", []), number]
        table = super().load(taken)
        return self.write(definition, number, table, self.marks(definition, table, 0))


def test_ranges_that_spark_reads_come_one_at_a_time(tmp_path: Path) -> None:
    """Their rows are numbered when they are read, so no other may be taken in between."""
    ingest = SparkIngest()
    bench = Bench(tmp_path, Numbers(total=40), options(), made=ingest)
    bench.poll()
    assert list(ingest.written.values()) == [list(range(10))]
    for _ in range(4):
        bench.poll()
        bench.step(whole=False)
    assert bench.rows == list(range(40))
    assert ingest.numbers == sorted(set(ingest.numbers))


def test_a_watermark_that_was_said_ends_what_an_epoch_takes(tmp_path: Path) -> None:
    source = Numbers(total=20)
    bench = Bench(tmp_path, source, options())
    bench.poll()
    bench.inlet.say(500)
    source.total = 30
    bench.now = 1.0
    bench.poll()
    found = bench.inlet.cut(1, whole=True, until=500)
    assert found == Range("s", None, 20)


def test_an_error_in_the_background_is_kept_and_polling_goes_on_later(tmp_path: Path) -> None:
    source = Numbers(total=5, broken=True)
    bench = Bench(tmp_path, source, options())
    bench.poll()
    assert isinstance(bench.inlet.error, OSError)
    source.broken = False
    bench.poll()
    assert source.polled == 1  # not yet
    bench.now = 10.0
    bench.poll()
    assert bench.inlet.error is None
    bench.now = 20.0
    assert bench.step(whole=False) == list(range(5))


def pushed(folder: Path, log: PendingLog | None = None, at: int = 0, **given: Any) -> PushedInlet:
    made = options(**{"buffer_rows": None, **given})
    return PushedInlet(TABLE, made, log or PendingLog(folder), at, lambda: 0.0, lambda: None)


def rows(count: int) -> pa.Table:
    return pa.table({"n": pa.array(range(count), pa.int64())})


def test_pushed_rows_are_taken_together_or_by_the_policy(tmp_path: Path) -> None:
    inlet = pushed(tmp_path)
    for _ in range(3):
        inlet.push(rows(6))
    assert inlet.cut(1, whole=False) == Range("s", 0, 1)  # 6 and 6 are more than a batch
    assert inlet.cut(1, whole=True) == Range("s", 0, 3)
    inlet.took(Range("s", 0, 3))
    assert inlet.cut(2, whole=True) is None
    assert inlet.consumed == 3
    again = pushed(tmp_path, at=1)
    again.took(Range("s", 1, 2))  # as in a replay, which no cut came before
    assert again.cut(2, whole=True) == Range("s", 2, 3)


def test_what_is_pushed_into_a_closed_way_is_not_kept_twice(tmp_path: Path) -> None:
    log = PendingLog(tmp_path)
    inlet = pushed(tmp_path, log)
    assert inlet.push(rows(3))
    inlet.close()
    assert not inlet.push(rows(3))  # so it is pushed into the one that is opened next
    again = pushed(tmp_path, log)
    assert again.push(rows(3))
    assert again.cut(1, whole=True) == Range("s", 0, 2)


def test_a_push_source_pauses_drops_or_fills_its_share_of_the_disk(tmp_path: Path) -> None:
    pausing = pushed(tmp_path / "a", strategy=PauseSource(), buffer_rows=10)
    assert pausing.admit(8)
    pausing.push(rows(8))
    with pytest.raises(Backpressure):
        pausing.admit(3)
    pausing.cut(1, whole=True)
    assert pausing.admit(3)
    dropping = pushed(tmp_path / "b", strategy=DropNewest(), buffer_rows=10)
    dropping.push(rows(8))
    assert not dropping.admit(3)
    assert dropping.counters.dropped == 3
    spilling = pushed(tmp_path / "c", strategy=SpillToDisk(100))
    assert spilling.admit(1_000)
    spilling.push(rows(1_000))
    with pytest.raises(Backpressure):
        spilling.admit(1)
    taken = spilling.cut(1, whole=True)
    assert taken is not None
    spilling.took(taken)
    assert spilling.admit(1)
