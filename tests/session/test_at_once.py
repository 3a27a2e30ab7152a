"""Several threads use one database, and callbacks use it from inside: nobody waits for himself."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar import session
from laminar.errors import (
    DatabaseClosed,
    DatabaseLocked,
    LaminarError,
    RecoveryFailed,
    TableRedefined,
    UnknownRelation,
)
from laminar.store import StateLock, durable_files
from laminar.testing.waiting import until

from . import numbers_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PATIENCE = 60.0


@pytest.fixture
def others() -> Iterator[ThreadPoolExecutor]:
    made = ThreadPoolExecutor(4)
    yield made
    made.shutdown(wait=False, cancel_futures=True)


class Sink:
    """Waits in its first call until it may go on, then does what it was told."""

    def __init__(self) -> None:
        self.entered, self.may_go_on = threading.Event(), threading.Event()
        self.then: Callable[[], object] = lambda: None

    def write(self, _epoch: int, delta: DataFrame) -> None:
        if not delta.collect() or self.entered.is_set():
            return
        self.entered.set()
        assert self.may_go_on.wait(PATIENCE)
        self.then()


@pytest.fixture
def sink(db: laminar.Database) -> Sink:
    """A sink on a table `t`; it has taken the empty beginning."""
    made = Sink()
    laminar.register_sink("waiting", lambda _spec: made)
    db.execute("CREATE TABLE t (n BIGINT); CREATE SINK k FROM t WITH (connector = 'waiting')")
    return made


# Callbacks


def test_who_is_called_by_the_loop_may_follow_a_relation(db: laminar.Database) -> None:
    """It would wait for the next epoch, which waits for it."""
    db.execute("CREATE TABLE t (n BIGINT)")
    found: list[int] = []
    heard = threading.Event()

    def listen(_report: laminar.EpochReport) -> None:
        found.extend(epoch for epoch, _ in db.subscribe("t"))
        heard.set()

    db.on_epoch(listen)
    db.insert("t", [(1,)])
    db.start()
    assert heard.wait(PATIENCE)
    db.stop()
    assert found == [1]


@pytest.mark.parametrize("end", ["stop", "close"])
def test_a_sink_may_end_the_loop_that_waits_for_it(
    db: laminar.Database, sink: Sink, others: ThreadPoolExecutor, end: str
) -> None:
    sink.then = getattr(db, end)
    db.insert("t", [(1,)])
    stepping = others.submit(db.step)
    assert sink.entered.wait(PATIENCE)
    db.start()
    sink.may_go_on.set()
    stepping.result(PATIENCE)
    until(lambda: not db.engine.work.inlets.running)


# Rows on their way into a table that goes


@pytest.fixture
def before_push(
    db: laminar.Database, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[], object]], None]:
    """Let something happen between the check of rows that are inserted and their arrival."""
    admit = db.engine.work.inlets.admit

    def happen(what: Callable[[], object]) -> None:
        def after(table: str, rows: int) -> bool:
            found = admit(table, rows)
            monkeypatch.setattr(db.engine.work.inlets, "admit", admit)
            what()
            return found

        monkeypatch.setattr(db.engine.work.inlets, "admit", after)

    return happen


@pytest.mark.parametrize("first", ["n BIGINT", "n BIGINT, PRIMARY KEY (n)"])
@pytest.mark.parametrize(
    ("then", "error"),
    [
        ("DROP TABLE t; CREATE TABLE t (n STRING)", TableRedefined),
        ("DROP TABLE t; CREATE TABLE t (n BIGINT, m INT, PRIMARY KEY (m))", TableRedefined),
        ("DROP TABLE t; CREATE SOURCE t (n BIGINT) WITH (connector = 'datagen')", LaminarError),
        ("DROP TABLE t", UnknownRelation),
    ],
)
def test_rows_are_not_put_into_another_table_of_that_name(
    db: laminar.Database,
    before_push: Callable[[Callable[[], object]], None],
    first: str,
    then: str,
    error: type[LaminarError],
) -> None:
    db.execute(f"CREATE TABLE t ({first})")
    before_push(lambda: db.execute(then))
    with pytest.raises(error):
        db.insert("t", [(1,)])
    assert not list((Path(db.path) / "pending").glob("*/*.parquet"))


def test_rows_reach_a_table_that_was_created_again_alike(
    db: laminar.Database, before_push: Callable[[Callable[[], object]], None]
) -> None:
    db.execute("CREATE TABLE t (n BIGINT)")
    before_push(lambda: db.execute("DROP TABLE t; CREATE TABLE t (n BIGINT)"))
    db.insert("t", [(1,)])
    db.step()
    assert db.sql("SELECT n FROM t").rows() == [(1,)]


# Closing


def test_nothing_is_pushed_once_a_database_is_closed(
    db: laminar.Database, before_push: Callable[[Callable[[], object]], None]
) -> None:
    """By then somebody else may write to the folder, and give out the same numbers."""
    db.execute("CREATE TABLE t (n BIGINT)")
    before_push(db.close)
    with pytest.raises(DatabaseClosed):
        db.insert("t", [(1,)])
    assert not list((Path(db.path) / "pending").glob("*/*.parquet"))


def test_a_folder_stays_locked_until_it_is_closed_whoever_else_closes_it(
    db: laminar.Database,
    sink: Sink,
    others: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    db.insert("t", [(1,)])
    others.submit(db.step)
    assert sink.entered.wait(PATIENCE)
    both = threading.Barrier(2)
    monkeypatch.setattr(db._loop, "halt", lambda: both.wait(PATIENCE))
    closing: list[Future[Any]] = [others.submit(db.close) for _ in range(2)]
    until(lambda: any(each.done() for each in closing))
    with pytest.raises(DatabaseLocked):
        StateLock(Path(db.path))
    sink.may_go_on.set()
    for each in closing:
        each.result(PATIENCE)
    StateLock(Path(db.path)).release()


def test_a_database_that_can_be_neither_opened_nor_closed_leaves_its_folder(
    db: laminar.Database, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RecoveryFailed("for a test")

    def cannot(_self: object) -> None:
        raise OSError("connection reset")

    db.execute(numbers_source.declared("s", total=1))
    db.close()
    with monkeypatch.context() as patch:
        patch.setattr(session, "complete", fail)
        patch.setattr(numbers_source.NumbersSource, "close", cannot, raising=False)
        with pytest.raises(RecoveryFailed):
            laminar.connect(db.path, spark=spark)
    StateLock(Path(db.path)).release()


def test_closing_ends_subscriptions_and_what_was_given_last_is_given_again(
    db: laminar.Database, spark: SparkSession, others: ThreadPoolExecutor
) -> None:
    db.execute("CREATE TABLE t (n BIGINT)")
    db.insert("t", [(1,)])
    db.step()
    named, waiting = db.subscribe("t", name="n"), db.subscribe("t", timeout=2 * PATIENCE)
    assert [next(named)[0], next(waiting)[0]] == [1, 1]
    ended = others.submit(next, waiting, None)
    db.close()
    assert ended.result(PATIENCE) is None
    assert next(named, None) is None
    with laminar.connect(db.path, spark=spark) as again:
        assert [epoch for epoch, _ in again.subscribe("t", name="n")] == [1]


def test_a_patience_longer_than_a_thread_can_wait_is_as_long_as_it_can(
    db: laminar.Database,
) -> None:
    db.execute("SET laminar.writer_timeout_ms = 100000000000000000000")
    db.start()
    db.stop()
    db.close()


# Ctrl-C


@pytest.mark.sampled(4)
@pytest.mark.parametrize("point", ["manifest.before_write", "manifest.after_rename"])
@pytest.mark.parametrize("in_flight", [1, 2])
def test_an_interruption_comes_before_a_commit_or_behind_it(
    db: laminar.Database,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
    in_flight: int,
) -> None:
    """Else what is committed would be taken back, with its files."""
    db.execute(f"SET laminar.epochs_in_flight = {in_flight}")
    db.execute(numbers_source.declared("s", total=60, per_poll=5, max_rows=5))
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, SUM(n) AS n FROM s GROUP BY k")

    def press(at: str) -> None:
        if at == point:
            monkeypatch.undo()
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(durable_files, "failpoint", press)
    with pytest.raises(KeyboardInterrupt):
        db.drain()
    expected = {(k, sum(range(k, 60, 3))) for k in range(3)}
    db.drain()
    assert set(db.sql("SELECT * FROM v").rows()) == expected
    db.close()
    with laminar.connect(db.path, spark=spark) as again:
        assert not again.recovery.set_aside
        assert set(again.sql("SELECT * FROM v").rows()) == expected


def test_an_interruption_of_a_definition_leaves_it_whole(
    db: laminar.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(at: str) -> None:
        if at == "manifest.after_rename":
            monkeypatch.undo()
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(durable_files, "failpoint", press)
    with pytest.raises(KeyboardInterrupt):
        db.execute("CREATE TABLE t (n BIGINT)")
    db.insert("t", [(1,)])
    db.step()
    assert db.sql("SELECT n FROM t").rows() == [(1,)]


class Total:
    """An operator with a state: how many rows it was given."""

    def __init__(self) -> None:
        self.rows = 0

    def process(self, delta: DataFrame, _ctx: object) -> DataFrame:
        self.rows += delta.count()
        return delta.selectExpr("n", "__weight")

    def snapshot(self) -> bytes:
        return str(self.rows).encode()

    def restore(self, state: bytes) -> None:
        self.rows = int(state or b"0")


def test_an_operator_forgets_an_epoch_that_cannot_be_committed(
    db: laminar.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reach(point: str) -> None:
        if point == "manifest.before_write":
            monkeypatch.undo()
            raise OSError(28, "No space left on device")

    total = Total()
    nodes = laminar.DagBuilder().source("o", schema="n BIGINT")
    db.run(nodes.operator("f", total, schema="n BIGINT").connect("o", "f").build())
    db.insert("o", [(1,)])
    db.step()
    db.insert("o", [(2,)])
    monkeypatch.setattr(durable_files, "failpoint", reach)
    with pytest.raises(laminar.StoreUnwritable):
        db.step()
    db.drain()
    assert total.rows == 2
    assert len(db.sql("SELECT n FROM f").rows()) == 2
