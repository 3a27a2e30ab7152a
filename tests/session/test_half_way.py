"""A step fails half-way, or somebody comes in between: nothing is lost, doubled, held or leaked."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import laminar
from laminar.errors import DatabaseClosed, LaminarError, LoopFailed, StoreUnwritable
from laminar.runtime.catalog.definitions import ViewDefinition
from laminar.runtime.catalog.python_objects import OBJECT
from laminar.runtime.ingest.read_range import SegmentWriter
from laminar.runtime.output.sink_definition import SinkDefinition
from laminar.runtime.statements.create_sink import define_sink
from laminar.store import Range, durable_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> Iterator[laminar.Database]:
    with laminar.connect(tmp_path / "state", spark=spark) as opened:
        yield opened


def rows(db: laminar.Database, query: str) -> list[Any]:
    return sorted(map(tuple, db.sql(query).rows()))


def reopened(db: laminar.Database, spark: SparkSession, query: str) -> list[Any]:
    db.close()
    with laminar.connect(db.path, spark=spark) as again:
        again.drain()
        return rows(again, query)


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Let no manifest be written, or let it again."""

    def refuse(point: str) -> None:
        if point.startswith("manifest."):
            raise OSError(28, "No space left on device")

    def switch(is_full: bool) -> None:
        monkeypatch.setattr(
            durable_files, "failpoint", refuse if is_full else durable_files._nothing
        )

    return switch


class Sink:
    """Notes what it is given."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.closed = 0

    def write(self, _: int, delta: Any) -> None:
        self.got += sorted(map(tuple, delta.collect()))

    def close(self) -> None:
        self.closed += 1


class Servers:
    """Sinks of a registered connector, by their tag; some cannot be reached."""

    def __init__(self) -> None:
        self.made: dict[str, Sink] = {}
        self.down: set[str] = set()
        laminar.register_sink("servers", self.build)

    def build(self, spec: Any) -> Sink:
        if spec.options["tag"] in self.down:
            raise OSError("connection refused")
        made = self.made[spec.options["tag"]] = Sink()
        return made


def sink(db: laminar.Database, name: str, relation: str, tag: str) -> None:
    db.execute(f"CREATE SINK {name} FROM {relation} WITH (connector = 'servers', tag = '{tag}')")


def test_an_epoch_that_fails_as_it_reads_gives_back_what_it_took(
    db: laminar.Database, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.execute("SET laminar.epochs_in_flight = 2; CREATE TABLE a (n BIGINT);")
    db.execute("CREATE TABLE b (n BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT n FROM a UNION ALL SELECT n FROM b")
    db.insert("a", [(1,)])
    db.insert("b", [(2,)])
    write = SegmentWriter.write

    def broken(self: SegmentWriter, *args: Any, **more: Any) -> Any:
        if self.definition.name == "b":
            raise StoreUnwritable("b", "No space left on device")
        return write(self, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(SegmentWriter, "write", broken)
        with pytest.raises(StoreUnwritable):
            db.drain()
    assert db.engine.ledger.wal.open_after(db.engine.ledger.epoch) == []
    db.execute("REFRESH MATERIALIZED VIEW v")
    assert rows(db, "SELECT n FROM v") == [(1,), (2,)]
    db.insert("a", [(3,)])
    db.drain()
    assert rows(db, "SELECT n FROM v") == [(1,), (2,), (3,)]
    assert reopened(db, spark, "SELECT n FROM v") == [(1,), (2,), (3,)]


@pytest.mark.parametrize("statement", ["REFRESH", "RESUME"])
def test_what_was_logged_comes_before_what_is_asked_for(
    db: laminar.Database, statement: str
) -> None:
    db.execute("CREATE TABLE a (n BIGINT); CREATE MATERIALIZED VIEW v AS SELECT n FROM a")
    db.insert("a", [(1,)])
    taken = db.engine.work.inlets.cut(whole=True)
    db.engine.work.runner.log(db.engine.ledger.epoch + 1, taken)  # as a crash leaves it
    db.insert("a", [(2,)])
    if statement == "RESUME":
        db.execute("PAUSE MATERIALIZED VIEW v")
    db.execute(f"{statement} MATERIALIZED VIEW v")
    db.drain()
    assert rows(db, "SELECT n FROM v") == [(1,), (2,)]


def test_a_view_that_could_not_be_dropped_is_where_it_was(
    db: laminar.Database, spark: SparkSession, full_disk: Callable[[bool], None]
) -> None:
    db.execute("CREATE TABLE t (n BIGINT); CREATE MATERIALIZED VIEW v AS SELECT n FROM t")
    db.insert("t", [(1,)])
    db.step()
    db.execute("PAUSE MATERIALIZED VIEW v")
    db.insert("t", [(2,)])
    db.step()
    full_disk(True)
    with pytest.raises(StoreUnwritable):
        db.execute("DROP MATERIALIZED VIEW v")
    full_disk(False)
    assert db.engine.scheduler.progress.behind == {"v": 1}
    db.execute("RESUME MATERIALIZED VIEW v")
    db.insert("t", [(3,)])
    db.step()
    assert rows(db, "SELECT n FROM v") == [(1,), (2,), (3,)]
    assert reopened(db, spark, "SELECT n FROM v") == [(1,), (2,), (3,)]


def test_event_time_of_a_table_that_could_not_be_dropped_stays(
    db: laminar.Database, full_disk: Callable[[bool], None]
) -> None:
    db.execute("CREATE SOURCE t (ts TIMESTAMP, WATERMARK FOR ts AS ts)")
    db.execute("INSERT INTO t VALUES (TIMESTAMP '2026-01-01 00:00:09')")
    db.step()
    before = db.engine.time.watermarks.current
    full_disk(True)
    with pytest.raises(StoreUnwritable):
        db.execute("DROP SOURCE t")
    full_disk(False)
    assert db.engine.time.watermarks.current == before
    db.execute("DROP SOURCE t")
    assert db.engine.time.watermarks.current == {}


@pytest.mark.parametrize("point", ["restore.after_aside", "restore.after_commit"])
def test_rows_that_are_pushed_during_a_restore_stay(
    db: laminar.Database, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    db.execute("CREATE TABLE t (n BIGINT)")
    db.insert("t", [(1,)])
    db.step()
    db.insert("t", [(2,)])  # waits
    checkpoint = db.checkpoint()
    db.step()
    db.insert("t", [(3,)])
    db.step()
    came: list[threading.Thread] = []

    def reached(name: str) -> None:
        if name == point and not came:
            came.append(threading.Thread(target=lambda: db.insert("t", [(4,)])))
            came[0].start()
            came[0].join(0.2)  # it waits for the restore, or it is in by now

    with monkeypatch.context() as patch:
        patch.setattr(durable_files, "failpoint", reached)
        db.restore(checkpoint)
    came[0].join(60)
    db.drain()
    assert rows(db, "SELECT n FROM t") == [(1,), (2,), (4,)]
    assert reopened(db, spark, "SELECT n FROM t") == [(1,), (2,), (4,)]


def behind(db: laminar.Database, waiting: str, first: str) -> None:
    """Run a statement that waits for the turn while another one runs in it."""
    turn = db.engine.ledger.turn
    other = threading.Thread(target=lambda: db.execute(waiting))
    with turn("a test"):
        other.start()
        while not turn._queue:
            threading.Event().wait(0.001)
        db.execute(first)
    other.join(60)


def test_what_was_created_while_replace_waited_is_rebuilt_too(db: laminar.Database) -> None:
    db.execute("CREATE TABLE t (n BIGINT); CREATE MATERIALIZED VIEW v AS SELECT n FROM t")
    db.insert("t", [(1,)])
    db.step()
    behind(
        db,
        "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT n * 10 AS n FROM t",
        "CREATE MATERIALIZED VIEW w AS SELECT SUM(n) AS s FROM v",
    )
    assert rows(db, "SELECT * FROM w") == [(10,)]
    db.insert("t", [(2,)])
    db.step()
    assert rows(db, "SELECT * FROM w") == [(30,)]


def test_alter_changes_the_view_that_is_there_when_its_turn_comes(db: laminar.Database) -> None:
    db.execute("CREATE TABLE t (n BIGINT); CREATE MATERIALIZED VIEW v AS SELECT n FROM t")
    db.insert("t", [(1,)])
    db.step()
    behind(
        db,
        "ALTER MATERIALIZED VIEW v SET (schedule = '1h')",
        "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT n * 10 AS n FROM t",
    )
    definition = db.engine.defined.catalog.definitions["v"]
    assert isinstance(definition, ViewDefinition)
    assert (definition.query, definition.schedule is None) == ("SELECT n * 10 AS n FROM t", False)
    assert rows(db, "SELECT * FROM v") == [(10,)]


def test_a_restored_sink_starts_anew_if_another_one_has_its_name(db: laminar.Database) -> None:
    servers = Servers()
    db.execute("CREATE TABLE a (n BIGINT); CREATE TABLE b (n BIGINT)")
    db.insert("a", [(1,), (2,)])
    db.step()
    sink(db, "s", "a", "first")
    checkpoint = db.checkpoint()
    for relation, tag in (("b", "other relation"), ("a", "other place")):
        db.execute("DROP SINK s")
        sink(db, "s", relation, tag)
        db.insert("b", [(7,)])
        db.step()
        servers.made.pop("first").got.clear()
        db.restore(checkpoint)
        assert servers.made["first"].got == [(1, 1), (2, 1)], tag
    db.insert("a", [(3,)])
    db.step()
    assert servers.made["first"].got[2:] == [(3, 1)]


def test_a_sink_that_cannot_be_opened_after_a_restore_is_tried_again(db: laminar.Database) -> None:
    servers = Servers()
    db.execute("CREATE TABLE a (n BIGINT)")
    sink(db, "s1", "a", "one")
    sink(db, "s2", "a", "two")
    checkpoint = db.checkpoint()
    db.execute("DROP SINK s1; DROP SINK s2")
    servers.down.add("one")
    db.restore(checkpoint)
    db.insert("a", [(2,)])
    report = db.step()
    assert report is not None
    assert (report.sinks["s1"].state, report.sinks["s1"].reason) == ("away", "connection refused")
    assert servers.made["two"].got == [(2, 1)]
    servers.down.clear()
    db.insert("a", [(3,)])
    db.step()
    db.execute("RESUME SINK s1")
    assert servers.made["one"].got == servers.made["two"].got == [(2, 1), (3, 1)]


def test_a_sink_that_could_not_be_given_another_relation_goes_on(
    db: laminar.Database, full_disk: Callable[[bool], None]
) -> None:
    db.execute("CREATE TABLE a (n BIGINT); CREATE TABLE b (n BIGINT)")
    kept, other = Sink(), Sink()
    define_sink(db.engine, SinkDefinition("k", "a", OBJECT), kept)
    db.insert("a", [(1,)])
    db.step()
    full_disk(True)
    with pytest.raises(StoreUnwritable):
        define_sink(db.engine, SinkDefinition("k", "b", OBJECT), other)
    full_disk(False)
    db.insert("a", [(2,)])
    db.step()
    assert (kept.got, kept.closed, other.got) == ([(1, 1), (2, 1)], 0, [])


class Operator:
    """Hands on what it is given."""

    def process(self, delta: Any, _: Any) -> Any:
        return delta

    def snapshot(self) -> bytes:
        return b"seen"

    def restore(self, state: bytes) -> None:
        assert state == b"seen"


def test_a_checkpoint_with_an_operator_that_was_dropped_asks_for_it(db: laminar.Database) -> None:
    def run() -> None:
        db.run(
            laminar.DagBuilder()
            .source("t", schema="n BIGINT")
            .operator("total", Operator(), schema="n BIGINT")
            .connect("t", "total")
            .build()
        )

    run()
    db.insert("t", [(1,)])
    db.step()
    checkpoint = db.checkpoint()
    db.execute("DROP MATERIALIZED VIEW total")
    assert db.engine.defined.operators == {}
    assert db.engine.ledger.manifest.state.operators == {}
    db.insert("t", [(2,)])
    db.step()
    db.restore(checkpoint)
    assert rows(db, "SELECT n FROM t") == [(1,)]
    assert rows(db, "SELECT n FROM total") == [(1,)]
    run()
    db.insert("t", [(3,)])
    db.step()
    assert rows(db, "SELECT n FROM total") == [(1,), (3,)]


class Numbers:
    """A source of numbers, one at a time."""

    append_only = True

    def __init__(self, total: int = 3) -> None:
        self.total = total
        self.fails_at: int | None = None
        self.closed = 0
        self.asked = threading.Lock()
        self.asked_at_once = 0

    def latest_offset(self, start: Any) -> Any:
        at = start or 0
        if self.fails_at is not None and at >= self.fails_at:
            raise DatabaseClosed("another one")
        with self.once():
            return at + 1 if at < self.total else None

    def read_arrow(self, start: Any, end: Any) -> pa.Table:
        with self.once():
            threading.Event().wait(0.05)
            return pa.table({"n": pa.array(range(start or 0, end), pa.int64())})

    def read(self, *_: Any) -> Any:
        raise AssertionError

    def once(self) -> threading.Lock:
        if self.asked.locked():
            self.asked_at_once += 1
        return self.asked

    def close(self) -> None:
        self.closed += 1


def test_who_listens_hears_of_epochs_before_a_source_that_failed(db: laminar.Database) -> None:
    source, told = Numbers(6), list[int]()
    laminar.register_source("numbers_up_to", lambda _: source)
    db.execute("SET laminar.epochs_in_flight = 2")
    db.execute("CREATE SOURCE x (n BIGINT) WITH (connector = 'numbers_up_to')")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT n FROM x")
    db.on_epoch(lambda report: told.append(report.epoch))
    source.fails_at = 3
    with pytest.raises(LaminarError):
        db.drain()
    assert told == list(range(1, db.engine.ledger.epoch + 1))
    source.fails_at = None
    db.drain()
    assert told == list(range(1, db.engine.ledger.epoch + 1))


def test_connectors_are_closed_also_if_another_one_could_not_be_built(
    spark: SparkSession, tmp_path: Path
) -> None:
    made: list[Numbers] = []
    is_down = False

    def build(spec: Any) -> Numbers:
        if is_down and spec.name == "y":
            raise OSError("connection refused")
        made.append(Numbers())
        return made[-1]

    laminar.register_source("some_are_down", build)
    with laminar.connect(tmp_path / "state", spark=spark) as db:
        for name in ("x", "y"):
            db.execute(f"CREATE SOURCE {name} (n BIGINT) WITH (connector = 'some_are_down')")
    made.clear()
    is_down = True
    with laminar.connect(tmp_path / "state", spark=spark) as db:
        query = "SELECT name, state FROM laminar_system.sources"
        assert dict(db.sql(query).rows()) == {"x": "running", "y": "away"}
    assert [each.closed for each in made] == [1]


def test_a_source_is_asked_by_one_thread_at_a_time_also_in_a_replay(db: laminar.Database) -> None:
    source = Numbers()
    laminar.register_source("asked_once", lambda _: source)
    db.execute("CREATE SOURCE x (n BIGINT) WITH (connector = 'asked_once')")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT n FROM x")
    db.engine.work.runner.log(1, [Range("x", None, 2)])  # as a crash leaves it
    done = threading.Event()
    db.on_epoch(lambda report: done.set() if report.epoch == 2 else None)
    db.start()
    assert done.wait(60)
    db.stop()
    assert source.asked_at_once == 0
    assert rows(db, "SELECT n FROM v") == [(0,), (1,), (2,)]


def test_a_loop_that_somebody_ends_says_so_and_keeps_nobody_waiting(db: laminar.Database) -> None:
    db.execute("CREATE SOURCE t (n BIGINT) WITH (buffer_rows = '2')")
    db.on_epoch(lambda _: sys.exit(1))
    db.start()
    db.insert("t", [(1,)])
    thread = db._loop._thread
    assert thread is not None
    thread.join(60)
    assert not thread.is_alive()
    assert not db.engine.work.inlets.running
    with pytest.raises(LoopFailed, match="SystemExit"):
        db.step()
