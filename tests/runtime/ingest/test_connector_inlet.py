"""The way in of a connector, without Spark: a source of numbers, a bridge, and real segments."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from laminar.bridge import (
    BackpressureStrategy,
    BatchPolicy,
    DropNewest,
    PauseSource,
    SpillToDisk,
)
from laminar.errors import StoreUnwritable
from laminar.model.row_counts import RowCounts
from laminar.runtime.catalog.source_options import InletOptions
from laminar.runtime.ingest.connector_inlet import SourceInlet
from laminar.store import Range, SegmentStore, durable_files

from .parts import (
    NUMBERS,
    BusyStore,
    FrameStore,
    Numbers,
    SparkNumbers,
    context,
    data_files,
    options,
    values,
    workspace,
)


class Bench:
    """One inlet, and the epochs that read from it."""

    def __init__(
        self,
        folder: Path,
        source: SparkNumbers,
        options: InletOptions,
        at: Any = None,
        store: SegmentStore | None = None,
    ) -> None:
        self.store = store or SegmentStore(folder)
        self.running = False
        self.gated = False
        self.now = 0.0
        self.woken = threading.Event()
        site = context(
            folder,
            store=self.store,
            workspace=lambda _epoch: workspace(self.store),
            clock=lambda: self.now,
            wake=self.woken.set,
            is_gated=lambda _name: self.gated,
            is_running=lambda: self.running,
        )
        self.inlet = SourceInlet(NUMBERS, source, options, site, at, 0)
        self.epoch = 0
        self.rows: list[int] = []

    def step(self, *, whole: bool = True, commit: bool = True) -> list[int] | None:
        self.epoch += 1
        if whole and not self.running:
            self.inlet.begin(ahead=False)
        found = self.inlet.cut(self.epoch, whole=whole)
        if found is None:
            return None
        rows = values(self.store, self.inlet.take(found, self.epoch, 0))
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
    assert len(data_files(tmp_path)) == 2
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


def test_a_step_beside_a_source_that_never_ends_has_an_end(tmp_path: Path) -> None:
    """It takes what is before its barrier, not what comes in while it takes."""
    store = BusyStore(tmp_path)
    bench = Bench(tmp_path, Numbers(total=1_000), options(), store=store)
    bench.poll()
    held = bench.inlet.counters.sent
    store.meanwhile = lambda: bench.inlet._poller.poll()
    assert bench.step() == list(range(held))
    assert held < 100
    store.meanwhile = lambda: None
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


def test_what_is_dropped_counts_with_the_range_behind_it(tmp_path: Path) -> None:
    source, told = Numbers(total=200), RowCounts()
    bench = Bench(tmp_path, source, options(strategy=DropNewest()))
    bench.poll()
    for total in (230, 230):
        while (found := bench.inlet.cut(1, whole=False)) is not None:
            gap = bench.inlet.skipped(found)
            counts = bench.inlet.take(found, 1, 0).counts
            assert counts.add_up
            assert counts.dropped == (0 if gap is None else gap.rows)
            assert gap is None or gap.after + gap.rows == found.start
            told += counts
        source.total = total
        bench.now += 1.0
        bench.poll()
    dropped = bench.inlet.counters.dropped
    assert told == RowCounts(230, 230 - dropped, dropped)
    assert dropped > 0


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


def test_ranges_that_spark_reads_come_one_at_a_time(tmp_path: Path) -> None:
    """Their rows are numbered when they are read, so no other may be taken in between."""
    store = FrameStore(tmp_path)
    bench = Bench(tmp_path, SparkNumbers(total=40), options(), store=store)
    bench.poll()
    assert len(data_files(tmp_path)) == 1
    for _ in range(4):
        bench.poll()
        bench.step(whole=False)
    assert bench.rows == list(range(40))
    assert store.numbers == sorted(set(store.numbers))


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


def test_a_range_that_no_cut_returned_is_read_again_and_the_next_one_follows(
    tmp_path: Path,
) -> None:
    """As in a replay: the log says what the epoch takes."""
    bench = Bench(tmp_path, Numbers(total=30), options())
    taken = bench.inlet.take(Range("s", None, 7), 1, 0)
    assert values(bench.store, taken) == list(range(7))
    assert bench.inlet.consumed == 7
    assert bench.step() == list(range(7, 17))


def fails_once(at: str) -> Callable[[str], None]:
    left = [1]

    def failpoint(point: str) -> None:
        if point == at and left:
            left.pop()
            raise StoreUnwritable("data", "no space left on device")

    return failpoint


def test_a_segment_that_could_not_be_written_loses_no_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, Numbers(total=50), options())
    bench.step()
    monkeypatch.setattr(durable_files, "failpoint", fails_once("segment.before_write"))
    with pytest.raises(StoreUnwritable):
        bench.step()
    while bench.step() is not None:
        pass
    assert bench.rows == list(range(50))


def test_nor_does_one_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, Numbers(total=50), options())
    monkeypatch.setattr(durable_files, "failpoint", fails_once("segment.before_write"))
    bench.poll()
    assert isinstance(bench.inlet.error, StoreUnwritable)
    for second in range(1, 9):
        bench.now = 10.0 * second
        bench.poll()
        bench.step(whole=False)
    assert bench.inlet.error is None
    assert bench.rows == list(range(50))
