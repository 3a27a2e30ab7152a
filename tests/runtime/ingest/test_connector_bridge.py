"""All ways in, without Spark: sources are read and users push while epochs open, close and cut."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from laminar.checkpoint.in_flight import Delivered, InFlight, Overtaken, put_back
from laminar.connectors import SourceSpec, create_source
from laminar.connectors.source import Source
from laminar.errors import (
    Backpressure,
    NotSupported,
    SourceReadFailed,
    TableRedefined,
    UnknownRelation,
)
from laminar.model.trace import ARRIVAL
from laminar.runtime.catalog.catalog import Defined
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.event_time.clocks import EventTime
from laminar.runtime.ingest import acknowledgements
from laminar.runtime.ingest.arriving_rows import BITS
from laminar.runtime.ingest.connector_bridge import ConnectorDagBridge
from laminar.runtime.ingest.connector_inlet import SourceInlet
from laminar.runtime.ingest.inlet import Inlet
from laminar.runtime.ingest.pruning import SourcePruning
from laminar.runtime.ingest.pushed_inlet import PushedInlet
from laminar.store import LoggedEpoch, PendingBatch, PendingLog, Range, SegmentStore

from .parts import (
    NUMBERS,
    TIMED,
    Books,
    Numbers,
    add_view,
    at_seconds,
    data_files,
    defined,
    no_spark,
    numbers,
    values,
)


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


@dataclass
class Ways:
    """All ways in of a few tables, and the books they go by."""

    inlets: ConnectorDagBridge
    books: Books
    defined: Defined
    store: SegmentStore
    time: EventTime
    pruning: SourcePruning

    @classmethod
    def at(
        cls,
        root: Path,
        *tables: TableDefinition,
        sources: dict[str, Source] | None = None,
        pending: PendingLog | None = None,
        books: Books | None = None,
    ) -> Ways:
        known = defined(*tables)
        known.sources.update(sources or {})
        books, store = books or Books.at(root, pending), SegmentStore(root)
        time = EventTime(lambda: known.catalog, known.time_settings)
        time.configure(known.tables())
        pruning = SourcePruning(known, lambda: books.offsets)
        pruning.follow()
        clock = known.time_settings.clock
        made = ConnectorDagBridge(known, books, time, pruning, store, no_spark, clock)
        return cls(made, books, known, store, time, pruning)

    def close(self) -> None:
        """End all threads, as an engine does; a way that is asked for again opens anew."""
        for name in self.defined.tables():
            end = self.inlets.ways.forget(name)
            if end is not None:
                end()

    def push(self, name: str, data: pa.Table) -> None:
        """Push rows into a table as it is now."""
        self.inlets.push(self.defined.tables()[name], data)

    def step(self, *, whole: bool = True) -> dict[str, list[int]]:
        """Take what there is, as an epoch does, and commit it."""
        cut = self.inlets.cut(whole=whole)
        self.books.epoch += 1
        taken = {
            each.table: values(self.store, self.inlets.take(each, self.books.epoch, 0))
            for each in cut
        }
        self.books.offsets.update({each.table: each.end for each in cut})
        self.inlets.committed(cut)
        return taken


def pushed(**options: str) -> TableDefinition:
    return TableDefinition("t", (("n", "bigint", True),), is_source=True, options=options)


def ways(root: Path, **options: str) -> Ways:
    return Ways.at(root, pushed(**options), pending=SlowLog(root))


def test_a_table_has_one_way_in_whoever_opens_it(tmp_path: Path) -> None:
    """Otherwise rows that are pushed into the one would never be seen by the other."""
    made = ways(tmp_path)
    assert isinstance(made.books.pending, SlowLog)
    made.books.pending.meeting = threading.Barrier(2)
    found: list[object] = []
    opened = made.inlets.ways
    threads = [threading.Thread(target=lambda: found.append(opened.of("t"))) for _ in "12"]
    for each in threads:
        each.start()
    for each in threads:
        each.join(10)
    assert len(found) == 2
    assert found[0] is found[1]


def test_who_waits_for_room_finds_it_in_the_way_that_is_opened_anew(tmp_path: Path) -> None:
    made = ways(tmp_path, backpressure="pause", buffer_rows="10")
    inlets = made.inlets
    made.push("t", numbers(0, 10))
    with pytest.raises(Backpressure):
        inlets.admit("t", 1)
    inlets.running = True
    taken: list[bool] = []
    waiting = threading.Thread(target=lambda: taken.append(inlets.admit("t", 1)))
    waiting.start()
    inlets.ways.forget("t")  # as another policy does
    made.books.offsets["t"] = 1  # and what it had was taken
    inlets.wake()
    waiting.join(10)
    assert taken == [True]
    made.defined.catalog.definitions.clear()
    with pytest.raises(UnknownRelation):
        inlets.admit("t", 1)


def test_pushing_beside_a_way_that_is_closed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    made = ways(tmp_path)
    inlets, done = made.inlets, threading.Event()

    def push() -> None:
        for _ in range(60):
            made.push("t", numbers(0, 1))
        done.set()

    thread = threading.Thread(target=push)
    thread.start()
    while not done.is_set():
        inlets.ways.forget("t")
    thread.join(10)
    assert isinstance(inlets.ways.of("t"), PushedInlet)
    assert inlets.ways.of("t").cut(1, whole=True) == Range("t", 0, 60)


def test_who_waits_for_room_gives_up_when_the_loop_makes_none(tmp_path: Path) -> None:
    """Such as a thread that a listener has started, and for which it keeps the loop waiting."""
    made = ways(tmp_path, backpressure="pause", buffer_rows="10")
    made.push("t", numbers(0, 10))
    made.inlets.running = True
    made.books.turn.timeout_ms = 10
    with pytest.raises(Backpressure):
        made.inlets.admit("t", 1)


def test_a_sink_does_not_wait_for_room(tmp_path: Path) -> None:
    """The loop waits for whoever calls sinks."""
    made = ways(tmp_path, backpressure="pause", buffer_rows="10")
    made.push("t", numbers(0, 10))
    made.inlets.running, made.inlets.is_sink = True, lambda: True
    with pytest.raises(Backpressure):
        made.inlets.admit("t", 1)


@pytest.mark.parametrize(
    "other",
    [
        replace(pushed(), columns=(("n", "string", True),)),
        replace(pushed(), primary_key=("n",)),
        replace(pushed(), connector="numbers"),
    ],
)
def test_rows_are_not_pushed_into_another_table_of_the_same_name(
    tmp_path: Path, other: TableDefinition
) -> None:
    made = Ways.at(tmp_path, other, sources={"t": Numbers()} if other.connector else {})
    with pytest.raises(TableRedefined):
        made.inlets.push(pushed(), numbers(0, 1))
    assert made.books.pending.after("t", 0) == []
    made.close()


def test_an_epoch_takes_one_range_of_each_way_that_has_something(tmp_path: Path) -> None:
    source = Numbers(total=15)
    made = Ways.at(tmp_path, NUMBERS, pushed(), sources={"s": source})
    made.push("t", numbers(0, 3))
    assert made.step() == {"s": list(range(10)), "t": [0, 1, 2]}
    assert made.step() == {"s": list(range(10, 15))}
    assert made.step() == {}
    assert made.books.offsets == {"s": 15, "t": 1}
    made.close()


def test_what_is_next_is_read_while_an_epoch_runs(tmp_path: Path) -> None:
    source = Numbers(total=15)
    made = Ways.at(tmp_path, NUMBERS, sources={"s": source})
    made.step()
    made.inlets.ahead()
    made.inlets.ways.of("s").cut(2, whole=True)
    assert source.polled == 2
    assert len(data_files(tmp_path)) == 2
    made.close()


def test_an_epoch_that_failed_is_taken_back_and_the_others_keep_what_was_read(
    tmp_path: Path,
) -> None:
    one, other = Numbers(total=20), Numbers(total=20)
    second = TableDefinition("o", NUMBERS.columns, is_source=True, connector="numbers")
    made = Ways.at(tmp_path, NUMBERS, second, sources={"s": one, "o": other})
    cut = made.inlets.cut(whole=True)
    taken = next(each for each in cut if each.table == "s")
    made.inlets.take(taken, 1, 0)
    made.inlets.back()
    assert made.step() == {"s": list(range(10)), "o": list(range(10))}
    assert (one.polled, other.polled) == (2, 1)
    made.close()


def test_a_new_process_goes_on_from_the_committed_positions(tmp_path: Path) -> None:
    made = Ways.at(tmp_path, NUMBERS, pushed(), sources={"s": Numbers(total=15)})
    made.push("t", numbers(0, 3))
    made.step()
    made.push("t", numbers(3, 5))
    made.close()
    books = Books.at(tmp_path)
    books.offsets, books.epoch = dict(made.books.offsets), made.books.epoch
    again = Ways.at(tmp_path, NUMBERS, pushed(), sources={"s": Numbers(total=15)}, books=books)
    assert again.step() == {"s": list(range(10, 15)), "t": [3, 4]}
    again.close()


def test_a_source_that_is_replaced_gets_a_way_of_its_own(tmp_path: Path) -> None:
    made = Ways.at(tmp_path, NUMBERS, sources={"s": Numbers(total=10)})
    made.step()
    old = made.inlets.ways.of("s")
    assert isinstance(old, SourceInlet)
    made.defined.sources["s"] = Numbers(total=20)
    assert made.step() == {"s": list(range(10, 20))}
    assert made.inlets.ways.of("s") is not old
    made.close()


def test_rows_that_a_checkpoint_kept_are_not_asked_of_their_source(tmp_path: Path) -> None:
    source = Numbers(total=20)
    made = Ways.at(tmp_path, NUMBERS, sources={"s": source})
    (cut,) = made.inlets.cut(whole=True)
    done = made.inlets.take(cut, 1, 0)
    delivered = Delivered(cut, done.segment, done.rows, {"0": 7}, numbers(99, 100))
    entry, beside = Overtaken(LoggedEpoch(1, (cut,)), (delivered,)).kept()
    for name, data in beside.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    put_back(tmp_path, 0, tmp_path, {1: entry})
    made.books.in_flight = InFlight(tmp_path, 0)
    made.inlets.back()
    source.broken = True
    again = made.inlets.take(cut, 1, 0)
    assert values(made.store, again) == list(range(10))
    assert again.ahead == numbers(99, 100)
    assert again.largest == {"0": 7}
    assert again.rows == again.delivered == 10
    source.broken = False
    assert made.inlets.ways.of("s").cut(2, whole=True) == Range("s", 10, 20)
    made.close()


def test_what_cannot_be_read_is_told_behind_what_the_others_have(tmp_path: Path) -> None:
    broken, whole = Numbers(total=5, broken=True), Numbers(total=5)
    other = replace(NUMBERS, name="o")
    made = Ways.at(tmp_path, NUMBERS, other, sources={"s": broken, "o": whole})
    made.inlets.require_read()
    assert made.inlets.cut(whole=True) == [Range("o", None, 5)]
    with pytest.raises(SourceReadFailed, match="the disk is gone") as found:
        made.inlets.require_read()
    assert isinstance(found.value.__cause__, OSError)
    made.inlets.require_read()  # once
    assert made.inlets.health.all()["s"].state == "failing"
    broken.broken = False
    assert made.inlets.cut(whole=True) == [Range("s", None, 5), Range("o", None, 5)]
    made.inlets.require_read()
    made.close()


def test_watermarks_that_were_said_cut_every_way_behind_the_rows_before_them(
    tmp_path: Path,
) -> None:
    options = {"flush_on_watermark": "false"}
    table = replace(TIMED, name="t", connector=None, options=options)
    made = Ways.at(tmp_path, table)
    made.time.watermarks.add(table)
    made.push("t", at_seconds(1, 2))
    made.push("t", at_seconds(3, 4))
    assert made.inlets.cut(whole=False) == []  # they are neither old nor many
    made.inlets.say("t", 500)
    assert made.inlets.cut(whole=False) == []
    made.time.watermarks.advance("t", 500)
    assert made.inlets.cut(whole=False) == [Range("t", 0, 2)]


def test_rows_behind_a_watermark_that_was_said_are_for_a_later_epoch(tmp_path: Path) -> None:
    table = replace(TIMED, name="t", connector=None)
    made = Ways.at(tmp_path, table)
    made.time.watermarks.add(table)
    made.push("t", at_seconds(1, 2))
    made.inlets.say("t", 500)
    made.push("t", at_seconds(3, 4))
    made.time.watermarks.advance("t", 500)
    assert made.inlets.cut(whole=True) == [Range("t", 0, 1)]


@pytest.mark.parametrize("move", [lambda ways: ways.inlets.wake(), lambda ways: push_one(ways)])
def test_who_waits_is_woken_by_what_happens(tmp_path: Path, move: Callable[[Ways], None]) -> None:
    made = ways(tmp_path)
    seen = made.inlets.signals
    waiting = threading.Thread(target=lambda: made.inlets.wait(seen, 10))
    waiting.start()
    move(made)
    waiting.join(5)
    assert not waiting.is_alive()
    assert made.inlets.signals > seen


def push_one(made: Ways) -> None:
    made.push("t", numbers(0, 1))


@pytest.mark.parametrize("connector", ["numbers", None])
def test_what_no_view_wants_is_not_stored_but_moves_time(
    tmp_path: Path, connector: str | None
) -> None:
    table = replace(TIMED, connector=connector, options={"retain": "used"})
    rows = at_seconds(1, 2, 3, 4)
    source = Numbers(total=4, rows=lambda start, end: rows.slice(start, end - start))
    made = Ways.at(tmp_path, table, sources={"s": source} if connector else {})
    if connector is None:
        made.push("s", rows)
    assert made.inlets.cut(whole=True) == []  # nobody reads it
    add_view(made.defined, "v", "SELECT n, ts FROM s WHERE n = 1")
    made.inlets.again(made.pruning.follow())
    (cut,) = made.inlets.cut(whole=True)
    taken = made.inlets.take(cut, 1, 0)
    assert values(made.store, taken) == [1]
    assert taken.largest == {"0": 4_000_000}
    counted = made.pruning.stages["s"].counters
    assert (counted.rows_in, counted.rows_kept) == (4, 1)
    made.close()


def test_what_was_read_for_other_views_is_read_again(tmp_path: Path) -> None:
    table = replace(NUMBERS, options={"retain": "used"})
    made = Ways.at(tmp_path, table, sources={"s": Numbers(total=10)})
    add_view(made.defined, "v", "SELECT n FROM s WHERE n = 1")
    made.pruning.follow()
    made.inlets.cut(whole=True)  # it is in a segment already
    add_view(made.defined, "w", "SELECT n FROM s WHERE n = 2")
    made.inlets.again(made.pruning.follow())
    assert made.step() == {"s": [1, 2]}
    made.close()


def events(folder: Path, number: int, *seconds: int) -> None:
    rows = [{"n": each, "ts": f"2024-01-01T00:00:{each:02d}Z"} for each in seconds]
    path = folder / f"{number:04d}.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_rows_of_json_files_become_segments_with_their_numbers_and_times(tmp_path: Path) -> None:
    """The whole way in, with the parts that a database has."""
    folder = tmp_path / "in"
    folder.mkdir()
    table = TableDefinition(
        "e",
        (("n", "bigint", False), ("ts", "timestamp", True)),
        is_source=True,
        connector="files",
        event_time="ts",
    )
    spec = SourceSpec("e", table.schema, {"path": str(folder), "format": "json"})
    made = Ways.at(tmp_path / "db", table, sources={"e": create_source("files", spec)})
    events(folder, 1, 10, 30)
    events(folder, 2, 20)
    (cut,) = made.inlets.cut(whole=True)
    assert cut == Range("e", None, {"last": "0002.json", "count": 2})
    taken = made.inlets.take(cut, 1, 0)
    assert values(made.store, taken) == [10, 30, 20]
    assert values(made.store, taken, ARRIVAL) == [n + (1 << BITS) for n in range(3)]
    assert taken.largest == {"0": 1_704_067_230_000_000}
    assert taken.segment is not None
    assert taken.segment.spans == {"ts": (1_704_067_210_000_000, 1_704_067_230_000_000)}
    assert made.inlets.ways.of("e").bridge.latest == 1_704_067_230_000_000
    made.close()


def test_a_push_that_meets_a_restore_looks_again_once_that_is_over(tmp_path: Path) -> None:
    made, table = Ways.at(tmp_path, pushed()), pushed()
    is_gone, is_asked = threading.Event(), threading.Event()
    known, of = made.defined.catalog.definitions, made.inlets.ways.of

    def asked(name: str) -> Inlet:
        try:
            return of(name)
        finally:
            is_asked.set()

    def restore() -> None:
        with made.books.turn("a restore"):
            definition = known.pop(table.name)
            is_gone.set()
            assert is_asked.wait(60)
            known[table.name] = definition

    made.inlets.ways.of = asked  # type: ignore[method-assign]
    other = threading.Thread(target=restore)
    other.start()
    assert is_gone.wait(60)
    made.inlets.push(table, numbers(0, 1))
    other.join(60)
    assert made.inlets.cut(whole=True) == [Range(table.name, 0, 1)]
    made.close()


def test_a_push_to_a_table_that_is_gone_is_refused(tmp_path: Path) -> None:
    made, table = Ways.at(tmp_path, pushed()), pushed()
    del made.defined.catalog.definitions[table.name]
    with pytest.raises(UnknownRelation):
        made.inlets.push(table, numbers(0, 1))
    made.close()


class Told(Numbers):
    """A source that hears how far it was read for good."""

    heard: list[int]
    on_heard: Callable[[int], object] | None = None

    def acknowledge(self, end: int) -> None:
        if self.on_heard is not None:
            self.on_heard(end)
        self.heard.append(end)


def told(root: Path) -> tuple[Ways, Told]:
    source = Told()
    source.heard = []
    made = Ways.at(root, NUMBERS, sources={"s": source})
    return made, source


def test_a_source_hears_each_position_once(tmp_path: Path) -> None:
    made, source = told(tmp_path)
    made.inlets.commit_offsets()
    assert source.heard == []  # nothing was read
    for end in (3, 3, 5):
        made.books.offsets["s"] = end
        made.inlets.commit_offsets()
    assert source.heard == [3, 5]


def test_what_a_source_raises_is_said_again_and_keeps_nobody_from_hearing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made, source = told(tmp_path)
    made.books.offsets["s"] = 3

    def fails(_end: int) -> None:
        raise ConnectionError("away")

    source.on_heard = fails
    made.inlets.commit_offsets()
    assert "away" in caplog.text
    source.on_heard = None
    made.inlets.commit_offsets()
    made.inlets.commit_offsets()
    assert source.heard == [3]


def test_one_thread_at_a_time_tells_and_the_last_position_is_the_last_said(tmp_path: Path) -> None:
    made, source = told(tmp_path)
    inside, may_go = threading.Event(), threading.Event()
    told_at: list[str] = []
    begun: list[int] = []

    def slow(end: int) -> None:
        told_at.append(threading.current_thread().name)
        begun.append(end)
        inside.set()
        assert may_go.wait(60)

    source.on_heard = slow
    made.books.offsets["s"] = 3
    first = threading.Thread(target=made.inlets.commit_offsets, name="first")
    first.start()
    assert inside.wait(60)
    made.books.offsets["s"] = 5
    made.inlets.commit_offsets()  # comes meanwhile, and does not wait
    assert begun == [3]
    may_go.set()
    first.join(60)
    assert source.heard == [3, 5]
    assert set(told_at) == {"laminar-offsets-s"}  # a thread that nobody has to wait for
    made.books.offsets["s"] = 6
    made.inlets.commit_offsets()
    assert source.heard == [3, 5, 6]


def test_an_interrupt_leaves_the_next_one_free_to_tell(tmp_path: Path) -> None:
    made, source = told(tmp_path)
    made.books.offsets["s"] = 3

    def stopped(_end: int) -> None:
        raise KeyboardInterrupt

    source.on_heard = stopped
    made.inlets.commit_offsets()  # raised on the thread of the connector, and told in the log
    source.on_heard = None
    made.inlets.commit_offsets()
    assert source.heard == [3]


def test_a_source_that_does_not_come_back_is_left_alone_until_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acknowledgements, "SECONDS", 0.01)
    made, source = told(tmp_path)
    may_go, is_level = threading.Event(), threading.Event()
    calls: list[int] = []

    def hangs(end: int) -> None:
        calls.append(end)
        assert may_go.wait(60)
        if end == 5:
            is_level.set()

    source.on_heard = hangs
    for end in (3, 4, 5):
        made.books.offsets["s"] = end
        made.inlets.commit_offsets()
    assert calls == [3]
    may_go.set()  # it hears the rest at once, not at the next commit
    assert is_level.wait(60)
    assert calls == [3, 5]


def test_the_loop_does_not_wait_for_a_source_to_hear(tmp_path: Path) -> None:
    made, source = told(tmp_path)
    may_go, has_heard = threading.Event(), threading.Event()

    def slow(_end: int) -> None:
        assert may_go.wait(60)
        has_heard.set()

    source.on_heard = slow
    made.books.offsets["s"] = 3
    made.inlets.commit_offsets(is_waiting=False)
    assert source.heard == []
    may_go.set()
    assert has_heard.wait(60)


def test_all_is_kept_of_a_source_that_takes_rows_back(tmp_path: Path) -> None:
    dropping = replace(NUMBERS, options={"backpressure": "drop"})
    source = Told()
    made = Ways.at(tmp_path, dropping, sources={"s": source})
    source.append_only = False
    with pytest.raises(NotSupported, match="takes rows back"):
        made.inlets.attach_source("s", source)
