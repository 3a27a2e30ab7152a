"""Who may be called when: a user's code has the database for itself, and keeps nobody from it.

Threads meet at events; nothing sleeps. Wherever a test waits for somebody else it gives up after a
minute, so that a deadlock is a red test.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar import DagBuilder
from laminar.testing.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PATIENCE = 60.0


class Threads:
    """Other threads of a test."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(4)

    def run(self, work: Callable[[], Any]) -> Future[Any]:
        return self._pool.submit(work)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


@pytest.fixture
def others() -> Iterator[Threads]:
    made = Threads()
    yield made
    made.close()


class Sink:
    """Remembers what it was given; may be told to do something first."""

    def __init__(self) -> None:
        self.taken: list[tuple[int, list[tuple[Any, ...]]]] = []
        self.entered, self.may_go_on = threading.Event(), threading.Event()
        self.blocks = False
        self.then: Callable[[int], object] = lambda _epoch: None
        self.closed = 0
        self.is_writing = False

    def write(self, epoch: int, delta: DataFrame) -> None:
        assert not self.is_writing
        self.is_writing = True
        try:
            if self.blocks:
                self.entered.set()
                assert self.may_go_on.wait(PATIENCE)
            self.then(epoch)
            self.taken.append((epoch, sorted(map(tuple, delta.collect()))))
        finally:
            self.is_writing = False

    def close(self) -> None:
        assert not self.is_writing
        self.closed += 1

    @property
    def epochs(self) -> list[int]:
        return [epoch for epoch, _ in self.taken]


@pytest.fixture
def sink() -> Sink:
    made = Sink()
    laminar.register_sink("remembering", lambda _spec: made)
    return made


@pytest.fixture
def table(db: laminar.Database) -> laminar.Database:
    """A database with a table and a view; its settings do not let epochs overlap."""
    db.execute(
        "CREATE TABLE t (n BIGINT);"
        "CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n, SUM(n) AS s FROM t"
    )
    return db


@pytest.fixture
def piped(table: laminar.Database, sink: Sink) -> laminar.Database:
    """The same with a sink on the table, which has taken the empty beginning."""
    assert sink.taken == []
    table.execute("CREATE SINK k FROM t WITH (connector = 'remembering')")
    return table


def stuck(db: laminar.Database, sink: Sink, others: Threads) -> Future[Any]:
    """Begin to step on another thread, and return once the sink is called and does not return."""
    sink.blocks = True
    db.insert("t", [(1,)])
    stepping = others.run(db.step)
    assert sink.entered.wait(PATIENCE)
    return stepping


def cursor(db: laminar.Database, name: str = "k") -> int | None:
    found = db.sql(f"SELECT cursor FROM laminar_system.sinks WHERE name = '{name}'").rows()
    return found[0][0] if found else None


# Listeners


def test_a_listener_may_step_and_define(table: laminar.Database) -> None:
    heard: list[int] = []

    def listen(report: laminar.EpochReport) -> None:
        heard.append(report.epoch)
        if report.epoch == 1:
            table.execute("CREATE TABLE u (n BIGINT)")
            table.insert("u", [(1,)])
            table.step()

    table.on_epoch(listen)
    table.insert("t", [(1,)])
    assert table.step() is not None
    assert heard == [1, 2]
    assert table.sql("SELECT * FROM u").rows() == [(1,)]


def test_a_listener_that_blocks_keeps_nobody_from_stepping(
    table: laminar.Database, others: Threads
) -> None:
    blocked, may_end = threading.Event(), threading.Event()

    def listen(report: laminar.EpochReport) -> None:
        if report.epoch == 1:
            blocked.set()
            assert may_end.wait(PATIENCE)

    table.on_epoch(listen)
    table.insert("t", [(1,)])
    first = others.run(table.drain)
    assert blocked.wait(PATIENCE)
    table.insert("t", [(2,)])
    report = others.run(table.step).result(PATIENCE)
    assert report.epoch == 2
    others.run(lambda: table.execute("CREATE TABLE u (n BIGINT)")).result(PATIENCE)
    assert table.sql("SELECT s FROM v").rows() == [(3,)]
    may_end.set()
    assert first.result(PATIENCE) is not None


def test_listeners_hear_of_all_that_was_committed_whatever_failed(
    piped: laminar.Database, sink: Sink
) -> None:
    heard: list[tuple[str, int]] = []

    def fail(_: object) -> None:
        raise ZeroDivisionError

    def first(report: laminar.EpochReport) -> None:
        heard.append(("first", report.epoch))
        raise KeyError(report.epoch)

    piped.on_epoch(first)
    piped.on_epoch(lambda report: heard.append(("second", report.epoch)))
    sink.then = fail
    piped.insert("t", [(1,)])
    with pytest.raises(KeyError):  # of the listener: an error of a sink is in its state
        piped.step()
    assert piped.sql("SELECT state FROM laminar_system.sinks").rows() == [("retrying",)]
    assert heard == [("first", 1), ("second", 1)]
    piped.execute(
        "CREATE MATERIALIZED VIEW bad AS SELECT 1 / n AS x FROM t;SET laminar.retry_backoff_ms = 0"
    )
    piped.insert("t", [(0,)])
    with pytest.raises(laminar.OperatorError):
        piped.step()
    assert heard[2:] == [("first", 2), ("second", 2)]
    sink.then = lambda _: None
    piped.insert("t", [(4,)])
    with pytest.raises(laminar.OperatorError):
        piped.drain()
    piped.execute("RESUME SINK k")
    assert heard[4:] == [("first", 3), ("second", 3)]
    assert sink.epochs == [1, 2, 3]


# Sinks


def test_a_slow_sink_keeps_nobody_from_defining_reading_inserting_or_stepping(
    piped: laminar.Database, sink: Sink, others: Threads
) -> None:
    first = stuck(piped, sink, others)

    def work() -> None:
        piped.execute("CREATE MATERIALIZED VIEW w AS SELECT n * 2 AS n FROM t")
        assert piped.sql("SELECT * FROM w").rows() == [(2,)]
        piped.insert("t", [(2,)])
        piped.delete("t", [(1,)])
        piped.checkpoint()
        assert piped.metrics().epoch == 1
        piped.execute("DROP MATERIALIZED VIEW w; SET laminar.retained_epochs = 5")

    others.run(work).result(PATIENCE)
    # The epoch of another thread is committed at once, and its step returns when the sink has it,
    # as long as it is not known to be slow.
    second = others.run(piped.step)
    until(lambda: piped.sql("SELECT * FROM t").rows() == [(2,)])
    assert not first.done()
    assert not second.done()
    assert sink.taken == []
    sink.blocks = False
    sink.may_go_on.set()
    assert (first.result(PATIENCE).epoch, second.result(PATIENCE).epoch) == (1, 2)
    assert sink.taken == [(1, [(1, 1)]), (2, [(1, -1), (2, 1)])]
    assert cursor(piped) == 2


def test_nobody_waits_twice_for_a_sink_that_is_slow(
    piped: laminar.Database, sink: Sink, others: Threads
) -> None:
    sink.blocks = True
    piped.execute("SET laminar.sink_wait_ms = 1")
    for number in (1, 2):
        piped.insert("t", [(number,)])
        report = others.run(piped.step).result(PATIENCE)
        assert report.epoch == number
        assert report.sinks["k"].state == "running"
        piped.execute("SET laminar.sink_wait_ms = 600000")  # it is known to be slow now
    assert piped.sql("SELECT s FROM v").rows() == [(3,)]
    assert piped.sql("SELECT lag_epochs FROM laminar_system.sinks").rows() == [(2,)]
    sink.blocks = False
    sink.may_go_on.set()
    until(lambda: sink.epochs == [1, 2])
    until(lambda: not piped.engine.outputs.sinks.books.outlets["k"].is_slow)
    piped.insert("t", [(3,)])
    report = piped.step()
    assert report is not None
    assert report.sinks == {}
    assert sink.epochs == [1, 2, 3]  # it is waited for again


def test_a_sink_may_read_insert_define_and_step(piped: laminar.Database, sink: Sink) -> None:
    seen: list[list[tuple[Any, ...]]] = []

    def use(epoch: int) -> None:
        seen.append(piped.sql("SELECT n FROM v").rows())
        if epoch == 1:
            piped.execute("CREATE TABLE log (epoch BIGINT, PRIMARY KEY (epoch))")
        if epoch < 3:
            piped.insert("log", [(epoch,)])
            piped.insert("t", [(10 * epoch,)])
            piped.step()

    sink.then = use
    piped.insert("t", [(1,)])
    report = piped.step()
    assert report is not None
    assert report.epoch == 1
    # What it committed while it wrote came to it behind that, in order, and nothing twice.
    until(lambda: cursor(piped) == 3)
    assert sink.taken == [(1, [(1, 1)]), (2, [(10, 1)]), (3, [(20, 1)])]
    assert [rows[0][0] for rows in seen] == [1, 2, 3]
    assert sorted(piped.sql("SELECT * FROM log").rows()) == [(1,), (2,)]
    assert cursor(piped) == 3


def test_a_sink_that_fails_does_not_stop_the_epochs(piped: laminar.Database, sink: Sink) -> None:
    def fail(_: int) -> None:
        raise OSError("no room")

    sink.then = fail
    for number in (1, 2):
        piped.insert("t", [(number,)])
        report = piped.step()
        assert report is not None
        assert report.sinks["k"].reason == "no room"
    assert piped.engine.ledger.epoch == 2
    sink.then = lambda _: None
    piped.execute("RESUME SINK k")
    assert sink.taken == [(1, [(1, 1)]), (2, [(2, 1)])]


def test_files_that_are_replaced_before_a_sink_has_read_them_are_found_again(
    piped: laminar.Database, sink: Sink
) -> None:
    gone: list[bool] = []

    def merge(epoch: int) -> None:
        if epoch == 4 and not gone:
            held = piped.engine.ledger.manifest.traces["t"].files
            piped.engine.settle()  # merges what the sink is about to read
            gone.extend(not (piped.path / each).exists() for each in held)

    piped.execute("SET laminar.compaction = off; SET laminar.compaction_fanout = 2")
    sink.then = merge
    for number in range(1, 6):
        piped.insert("t", [(number,)])
        piped.step()
    assert any(gone)
    assert sink.taken == [(number, [(number, 1)]) for number in range(1, 6)]


def test_steps_of_two_threads_reach_a_sink_in_order_and_once(
    piped: laminar.Database, sink: Sink, others: Threads
) -> None:
    start = threading.Barrier(3)

    def steps(first: int) -> list[int]:
        start.wait(PATIENCE)
        found = []
        for number in range(first, first + 8):
            piped.insert("t", [(number,)])
            report = piped.step()
            if report is not None:
                found.append(report.epoch)
                assert report.epoch in sink.epochs  # on return its epoch is out
        return found

    running = [others.run(lambda at=at: steps(at)) for at in (0, 100)]  # type: ignore[misc]
    start.wait(PATIENCE)
    made = sorted(epoch for each in running for epoch in each.result(PATIENCE))
    piped.drain()
    assert sink.epochs == sorted(set(sink.epochs))
    assert set(made) <= set(sink.epochs)
    rows = [row for _, delta in sink.taken for row in delta]
    assert sorted(rows) == [(n, 1) for n in (*range(8), *range(100, 108))]


def test_a_sink_that_is_dropped_while_it_writes_is_closed_after_that(
    piped: laminar.Database, sink: Sink, others: Threads
) -> None:
    first = stuck(piped, sink, others)
    others.run(lambda: piped.execute("DROP SINK k")).result(PATIENCE)
    assert sink.closed == 0
    newer = Sink()
    laminar.register_sink("remembering", lambda _spec: newer)
    # One of the same name takes nothing of what the other one had.
    create = "CREATE SINK k FROM t WITH (connector = 'remembering')"
    second = others.run(lambda: piped.execute(create))
    sink.blocks = False
    sink.may_go_on.set()
    first.result(PATIENCE)
    second.result(PATIENCE)
    assert sink.closed == 1
    assert newer.taken == [(1, [(1, 1)])]
    assert cursor(piped) == 1
    piped.execute("DROP TABLE t CASCADE")
    assert (sink.closed, newer.closed) == (1, 1)
    assert cursor(piped) is None


def test_closing_waits_for_a_sink_that_writes(
    spark: SparkSession, tmp_path: Path, sink: Sink, others: Threads
) -> None:
    db = laminar.connect(tmp_path / "state", spark=spark)
    db.execute("CREATE TABLE t (n BIGINT)")
    db.execute("CREATE SINK k FROM t WITH (connector = 'remembering')")
    stepping = stuck(db, sink, others)
    closing = others.run(db.close)
    assert not closing.done()
    with pytest.raises(laminar.DatabaseLocked):
        laminar.connect(tmp_path / "state", spark=spark)
    sink.may_go_on.set()
    stepping.result(PATIENCE)
    closing.result(PATIENCE)
    assert (sink.epochs, sink.closed) == ([1], 1)
    with laminar.connect(tmp_path / "state", spark=spark) as again:
        assert again.step() is None
        assert sink.epochs == [1]  # its cursor was moved


def test_a_sink_is_built_begun_and_filled_outside_of_the_turn(
    table: laminar.Database, sink: Sink, others: Threads
) -> None:
    building, may_build = threading.Event(), threading.Event()

    def build(_: object) -> Sink:
        building.set()
        assert may_build.wait(PATIENCE)
        return sink

    laminar.register_sink("remembering", build)
    table.insert("t", [(1,)])
    table.step()
    sink.blocks = True
    create = "CREATE SINK k FROM t WITH (connector = 'remembering')"
    creating = others.run(lambda: table.execute(create))
    assert building.wait(PATIENCE)
    table.insert("t", [(2,)])
    assert others.run(table.step).result(PATIENCE).epoch == 2
    may_build.set()
    assert sink.entered.wait(PATIENCE)
    table.insert("t", [(3,)])
    stepping = others.run(table.step)
    others.run(lambda: table.execute("CREATE TABLE u (n BIGINT)")).result(PATIENCE)
    sink.blocks = False
    sink.may_go_on.set()
    creating.result(PATIENCE)
    assert stepping.result(PATIENCE).epoch == 3
    assert sink.taken == [(2, [(1, 1), (2, 1)]), (3, [(3, 1)])]


def test_a_sink_that_cannot_be_made_leaves_nothing(table: laminar.Database, sink: Sink) -> None:
    def refuse() -> None:
        raise laminar.BadOption("remembering", "path", "x", "another one")

    def fail(_: int) -> None:
        raise OSError("no room")

    table.insert("t", [(1,)])
    table.step()
    create = "CREATE SINK k FROM t WITH (connector = 'remembering')"
    sink.begin = refuse  # type: ignore[attr-defined]
    with pytest.raises(laminar.BadOption):
        table.execute(create)
    del sink.begin  # type: ignore[attr-defined]
    sink.then = fail
    with pytest.raises(laminar.ConnectorError, match="k"):
        table.execute(create)
    assert (sink.closed, sink.taken) == (2, [])
    assert table.execute("SHOW SINKS").rows() == []
    assert table.engine.ledger.manifest.state.sinks == ()
    assert list((table.path / "cursors").glob("*")) == []
    sink.then = lambda _: None
    table.execute(create)
    assert sink.taken == [(1, [(1, 1)])]


# Sources


class Numbers:
    """A source with nothing in it, whose life can be watched."""

    append_only = True

    def __init__(self) -> None:
        self.closing, self.may_close = threading.Event(), threading.Event()
        self.closed = 0

    def latest_offset(self, _start: Any) -> Any:
        return None

    def read(self, *_: Any) -> Any:
        raise AssertionError("there is nothing")

    def close(self) -> None:
        self.closing.set()
        assert self.may_close.wait(PATIENCE)
        self.closed += 1


def test_a_source_is_built_and_closed_outside_of_the_turn(
    table: laminar.Database, others: Threads
) -> None:
    source, building, may_build = Numbers(), threading.Event(), threading.Event()

    def build(_: object) -> Numbers:
        building.set()
        assert may_build.wait(PATIENCE)
        return source

    laminar.register_source("watched", build)
    create = "CREATE SOURCE s (n BIGINT) WITH (connector = 'watched')"
    creating = others.run(lambda: table.execute(create))
    assert building.wait(PATIENCE)
    table.insert("t", [(1,)])
    assert others.run(table.step).result(PATIENCE).epoch == 1
    # Somebody else is faster: then the connector is given back, and nothing else has happened.
    table.execute("CREATE TABLE s (n BIGINT)")
    source.may_close.set()
    may_build.set()
    with pytest.raises(laminar.LaminarError, match="s"):
        creating.result(PATIENCE)
    assert source.closed == 1
    table.execute("DROP TABLE s")
    source.closing.clear()
    source.may_close.clear()
    table.execute(create)
    assert table.step() is None
    dropping = others.run(lambda: table.execute("DROP SOURCE s"))
    assert source.closing.wait(PATIENCE)
    table.insert("t", [(2,)])
    assert others.run(table.step).result(PATIENCE).epoch == 2
    source.may_close.set()
    dropping.result(PATIENCE)
    assert source.closed == 2


def test_a_source_that_would_wait_for_the_epoch_that_polls_it_is_refused(
    table: laminar.Database,
) -> None:
    source, refused = Numbers(), list[laminar.LaminarError]()
    source.may_close.set()

    def ask(_start: Any) -> Any:
        try:
            table.step()
        except laminar.WriteWithinEpoch as error:
            refused.append(error)

    source.latest_offset = ask  # type: ignore[method-assign]
    laminar.register_source("watched", lambda _spec: source)
    table.execute("CREATE SOURCE s (n BIGINT) WITH (connector = 'watched')")
    table.insert("t", [(1,)])
    report = table.step()
    assert report is not None
    assert report.epoch == 1
    assert '"s", which it waits for, asks for a step' in refused[0].message


def test_going_back_builds_and_closes_connectors_outside_of_the_turn(
    table: laminar.Database, others: Threads
) -> None:
    made: list[Numbers] = []

    def build(_: object) -> Numbers:
        # Whoever builds does not have the turn, so that others may have it.
        others.run(lambda: table.execute("SET laminar.max_fan_out = 100")).result(PATIENCE)
        made.append(Numbers())
        return made[-1]

    laminar.register_source("watched", build)
    table.execute("CREATE SOURCE s (n BIGINT) WITH (connector = 'watched')")
    table.execute("CREATE SOURCE stays (n BIGINT) WITH (connector = 'watched')")
    point = table.checkpoint()
    made[0].may_close.set()
    table.execute("DROP SOURCE s")
    table.execute("CREATE SOURCE other (n BIGINT) WITH (connector = 'watched')")
    assert len(made) == 3
    going = others.run(lambda: table.restore(point))
    assert made[2].closing.wait(PATIENCE)
    others.run(lambda: table.execute("CREATE TABLE u (n BIGINT)")).result(PATIENCE)
    made[2].may_close.set()
    going.result(PATIENCE)
    assert [each.closed for each in made] == [1, 0, 1, 0]
    assert table.engine.defined.sources == {"s": made[3], "stays": made[1]}
    for each in made:
        each.may_close.set()


# Operators


def operator(work: Callable[[], object]) -> Callable[[DataFrame], DataFrame]:
    """A function that is declared linear, and does something else besides."""

    def run(rows: DataFrame) -> DataFrame:
        work()
        return rows.selectExpr("n + 1 AS n")

    return run


def with_operator(db: laminar.Database, work: Callable[[], object]) -> None:
    dag = (
        DagBuilder()
        .source("s", schema="n BIGINT")
        .operator("o", operator(work), schema="n BIGINT")
        .connect("s", "o")
        .build()
    )
    db.run(dag)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "use",
    [
        lambda db: db.execute("CREATE TABLE u (n BIGINT)"),
        lambda db: db.step(),
        lambda db: db.drain(),
        lambda db: db.checkpoint(),
        lambda db: db.restore(1),
        lambda db: db.delete("s", [(1,)]),
        lambda db: db.stop(),
        lambda db: db.close(),
        lambda db: db.execute("CREATE SINK k FROM s WITH (connector = 'console')"),
    ],
    ids=["define", "step", "drain", "checkpoint", "restore", "delete", "stop", "close", "sink"],
)
def test_an_operator_that_would_wait_for_itself_is_refused(
    db: laminar.Database, use: Callable[[laminar.Database], object]
) -> None:
    calls: list[object] = []
    armed = False
    with_operator(db, lambda: calls.append(use(db)) if armed else None)
    armed = True
    db.insert("s", [(1,)])
    with pytest.raises(laminar.OperatorError) as found:
        db.step()
    assert isinstance(found.value.__cause__, laminar.WriteWithinEpoch)
    assert "an epoch would wait for itself" in found.value.detail
    assert calls == []
    assert db.sql("SELECT * FROM o").rows() == []
    armed = False
    db.execute("CREATE TABLE u (n BIGINT); SET laminar.retry_backoff_ms = 0")
    db.drain()
    assert db.sql("SELECT * FROM o").rows() == [(2,)]


def test_an_operator_may_read_and_insert(db: laminar.Database) -> None:
    seen: list[Any] = []

    def use() -> None:
        seen.append(db.sql("SELECT COUNT(*) FROM s").rows())
        seen.append(db.metrics().epoch)
        db.insert("log", [(len(seen),)])

    db.execute("CREATE TABLE log (n BIGINT)")
    armed = False
    with_operator(db, lambda: use() if armed else None)
    armed = True
    db.insert("s", [(1,)])
    db.step()
    assert seen == [[(0,)], 0]
    armed = False
    db.step()
    assert db.sql("SELECT * FROM log").rows() == [(2,)]


def test_an_operator_that_is_filled_is_refused_on_the_thread_that_has_the_turn(
    db: laminar.Database,
) -> None:
    db.execute("CREATE TABLE s (n BIGINT); INSERT INTO s VALUES (1)")
    db.step()
    with pytest.raises(laminar.OperatorError) as found:
        with_operator(db, lambda: db.execute("CREATE TABLE u (n BIGINT)"))
    assert isinstance(found.value.__cause__, laminar.WriteWithinEpoch)
    assert not db.engine.defined.catalog.exists("o")
    assert not db.engine.defined.catalog.exists("u")


def test_a_full_table_does_not_make_an_operator_wait_for_itself(db: laminar.Database) -> None:
    """While the loop runs, whoever inserts waits for room; an operator would wait for ever."""
    raised: list[laminar.LaminarError] = []
    done = threading.Event()

    def fill() -> None:
        try:
            for _ in range(20):
                db.insert("narrow", [(1,), (2,), (3,)])
        except laminar.Backpressure as error:
            raised.append(error)
        finally:
            done.set()

    db.execute("CREATE SOURCE narrow (n BIGINT) WITH (buffer_rows = 10, backpressure = 'pause')")
    armed = False
    with_operator(db, lambda: fill() if armed else None)
    armed = True
    db.start()
    db.insert("s", [(1,)])
    assert done.wait(PATIENCE)
    armed = False
    db.stop()
    assert len(raised) == 1


# The turn


def test_who_waits_too_long_for_a_writer_hears_for_whom_and_has_done_nothing(
    db: laminar.Database, others: Threads
) -> None:
    entered, may_go_on = threading.Event(), threading.Event()

    def block() -> None:
        entered.set()
        assert may_go_on.wait(PATIENCE)

    db.execute("CREATE TABLE t (n BIGINT, PRIMARY KEY (n)); SET laminar.writer_timeout_ms = 0")
    armed = False
    with_operator(db, lambda: block() if armed else None)
    armed = True
    db.insert("s", [(1,)])
    running = others.run(db.step)
    assert entered.wait(PATIENCE)
    before = db.engine.ledger.manifest
    for use in (
        db.step,
        db.drain,
        db.checkpoint,
        db.close,
        lambda: db.execute("CREATE TABLE u (n BIGINT)"),
        lambda: db.execute("DROP TABLE t"),
        lambda: db.execute("PAUSE MATERIALIZED VIEW o"),
        lambda: db.insert("t", [(1,)]),
        lambda: db.advance_watermark("s", "2024-01-01"),
    ):
        with pytest.raises(laminar.WriterBusy, match="another writer is busy: epoch 1 runs since"):
            use()
    assert db.engine.ledger.manifest is before
    # Those who only read, insert or look are not concerned.
    db.insert("s", [(2,)])
    assert db.sql("SELECT COUNT(*) FROM s").rows() == [(0,)]
    assert db.execute("SHOW TABLES").rows() != []
    assert db.metrics().epoch == 0
    assert list(db.subscribe("s")) == []
    may_go_on.set()
    assert running.result(PATIENCE).epoch == 1
    armed = False
    db.execute("CREATE TABLE u (n BIGINT)")
    db.step()
    assert sorted(db.sql("SELECT * FROM o").rows()) == [(2,), (3,)]


def test_statements_between_epochs_get_their_turn_while_the_loop_runs(
    piped: laminar.Database, sink: Sink
) -> None:
    piped.start()
    for number in range(5):
        piped.insert("t", [(number,)])
        piped.execute(f"CREATE MATERIALIZED VIEW w{number} AS SELECT n FROM t WHERE n > {number}")
    piped.stop()
    piped.drain()
    assert piped.sql("SELECT n FROM v").rows() == [(5,)]
    rows = [row for _, delta in sink.taken for row in delta]
    assert sorted(rows) == [(n, 1) for n in range(5)]
    assert sink.epochs == sorted(set(sink.epochs))
