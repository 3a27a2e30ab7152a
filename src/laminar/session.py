"""The door to Laminar: a database under one directory, on one Spark."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

import pyarrow as pa

from laminar.checkpoint import DagRecoveryMetrics
from laminar.errors import (
    DatabaseClosed,
    DatabaseNotFound,
    InvalidSetting,
    NotSupported,
    ReadOnlyDatabase,
    StoreUnwritable,
    WriterBusy,
)
from laminar.errors.secrets import scrub
from laminar.model.event_time import END_OF_TIME
from laminar.result import Changes, Result
from laminar.runtime.catalog.settings import TimeSettings
from laminar.runtime.catalog.source_options import to_options
from laminar.runtime.engine.driver import Driver
from laminar.runtime.engine.engine import Engine
from laminar.runtime.engine.recover import Definitions, complete, recover, restore
from laminar.runtime.epoch.outcome import EpochReport
from laminar.runtime.introspection.live_dag import live_dag
from laminar.runtime.output.subscriptions import Subscription
from laminar.runtime.spark.lifeline import Lifeline
from laminar.runtime.spark.session import own_session, start_spark
from laminar.runtime.spark.workspace import store_in
from laminar.runtime.statements.attach_dag import attach
from laminar.runtime.statements.create_drop import alter_source
from laminar.runtime.statements.dispatch import StatementRunner
from laminar.runtime.statements.dml import Dml
from laminar.runtime.statements.query import Reader, asked
from laminar.runtime.statements.user_code import register_function
from laminar.sql import Describe, Explain, Query, Show, Use, parse_script
from laminar.sql.parameters import Arguments, with_arguments
from laminar.sql.time_travel import Past
from laminar.store import ManifestStore, StateLock, durable_files
from laminar.store.address import local_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from laminar.bridge import BackpressureStrategy, BatchPolicy
    from laminar.checkpoint import RecoveryConfig
    from laminar.checkpoint.recovery import Recovered
    from laminar.dag import StreamingDag
    from laminar.runtime.history.differences import ChangeFrame
    from laminar.runtime.introspection.metrics import Metrics
    from laminar.sql.statements import Statement


_P = ParamSpec("_P")
_T = TypeVar("_T")
_Call = Callable[Concatenate["Database", _P], _T]


def _on_spark(call: _Call[_P, _T]) -> _Call[_P, _T]:
    """Let a call that fails because Spark is lost say so, whatever it met on its way."""

    @wraps(call)
    def guarded(db: Database, *given: _P.args, **named: _P.kwargs) -> _T:
        try:
            with db.engine.calls():
                return call(db, *given, **named)
        except Exception as error:
            if (clean := scrub(error)) is not error:
                raise clean from None
            raise

    return cast("_Call[_P, _T]", guarded)


def connect(
    path: str | Path | None = None,
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    settings: TimeSettings | None = None,
    read_only: bool = False,
    recovery: RecoveryConfig | None = None,
    functions: Mapping[str, Any] | None = None,
) -> Database:
    """Open a database, or create it.

    Args:
        path: its directory, or an address that begins with `file://`; None for a temporary one
            that goes when it is closed.
        spark: a session of the caller's; by default an embedded one is started.
        master: where an embedded session runs, `local[*]` by default.
        settings: limits of event time, and the clock that time is read from.
        read_only: read beside a process that writes: no lock is taken and nothing is written, and
            every query sees the newest epoch that is committed when it is asked.
        recovery: which state to open, and how it is verified; the newest that is whole by default.
        functions: Python functions by name, each with its type as a pair, or as Spark's object, as
            `register_function` takes them.
    """
    return Database(
        path,
        spark=spark,
        master=master,
        settings=settings,
        read_only=read_only,
        recovery=recovery,
        functions=functions,
    )


class Database:
    """Tables, views and their epochs in one folder: one process writes, others may read."""

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        spark: SparkSession | None = None,
        master: str | None = None,
        settings: TimeSettings | None = None,
        read_only: bool = False,
        recovery: RecoveryConfig | None = None,
        functions: Mapping[str, Any] | None = None,
    ) -> None:
        self._temporary = path is None
        path = None if path is None else local_path(path)
        self.path = _existing(path) if read_only else _folder(path)
        # Before Spark starts, which takes seconds: a second writer hears at once.
        self._lock = None if read_only else StateLock(self.path)
        try:
            found = None if read_only else recover(self.path, recovery)
            session = spark if spark is not None else start_spark(master)
            with Lifeline(session).calls():
                self._open(session, settings, read_only=read_only)
                for name, given in (functions or {}).items():
                    pair = given if isinstance(given, tuple) else (given, None)
                    register_function(self.engine, name, *pair)
                self.recovery = self._recovered(found, recovery)
                """What was recovered on opening; a reader recovers nothing."""
                if not read_only:
                    self.engine.keep_spark_settings()
                    self.engine.outputs.sinks.books.start()
        except BaseException:
            self._give_up()
            raise

    def _recovered(
        self, found: Recovered | None, recovery: RecoveryConfig | None
    ) -> DagRecoveryMetrics:
        if found is not None:
            return complete(self.engine, found, recovery)
        return DagRecoveryMetrics(None, self.engine.ledger.manifest.offsets, 0, source="reader")

    def _open(
        self, session: SparkSession, settings: TimeSettings | None, *, read_only: bool
    ) -> None:
        self.engine = Engine(self.path, session, settings, read_only=read_only)
        self._reading = own_session(self.engine.env.spark, 2)
        store = store_in(self._reading, self.path)
        self._reader = Reader(self.engine, self._reading, store)
        self._closed = False
        self._driver = Driver(self.engine)
        self._loop = self._driver.loop
        in_order = self._driver.in_order
        self._dml = Dml(self.engine, self._reader, lambda: in_order(self.engine.step))
        self._statements = StatementRunner(
            self.engine, self._dml, self._reader, self._query, self._listing, in_order
        )

    # Statements

    def execute(self, script: str, args: Arguments | None = None) -> Any:
        """Run a script of statements; return the result of the last one.

        Args:
            script: statements, separated by semicolons.
            args: values for its parameters, as for `sql`; definitions have none.
        """
        result: Any = None
        for statement in parse_script(with_arguments(script, args)):
            result = self.run_statement(statement)
        return result

    @_on_spark
    def run_statement(self, statement: Statement) -> Any:
        """Run one parsed statement; a database that is read only refuses those that write."""
        self._require_well()
        if not isinstance(statement, Query | Show | Describe | Explain | Use):
            self._require_writable(" ".join(statement.text.split()[:2]))
        return self._statements.run(statement)

    def sql(
        self, query: str, args: Arguments | None = None, *, as_of_epoch: int | None = None
    ) -> Result:
        """Run a query over one consistent epoch of all relations it names.

        Args:
            query: a SELECT; other statements are for `execute`.
            args: values for its parameters: a dict for `:name`, a list for `?`. They are values
                and nothing else, whatever they hold.
            as_of_epoch: an older epoch to read, like AS OF EPOCH in the query.
        """
        statement = asked(query, args)
        if as_of_epoch is not None:
            if statement.as_of_epoch not in (None, as_of_epoch) or statement.pasts:
                raise NotSupported("two epochs in one query", "a query reads one of everything")
            statement = replace(statement, as_of_epoch=as_of_epoch)
        found = self.run_statement(statement)
        assert isinstance(found, Result)
        return found

    def _query(
        self, query: str, as_of_epoch: int | None = None, pasts: Sequence[Past] = ()
    ) -> Result:
        def again() -> tuple[DataFrame, int]:
            made = self._reader.query(query, as_of_epoch, pasts)
            return made.frame, made.epoch

        found = self._reader.query(query, as_of_epoch, pasts)
        return Result(found.frame, found.epoch, found.shapes, again, self.engine)

    def _listing(self, columns: list[str], rows: Sequence[tuple[str, ...]]) -> Result:
        """Return rows that the engine itself knows as a result."""
        data = {
            name: pa.array([row[at] for row in rows], pa.string())
            for at, name in enumerate(columns)
        }
        table = pa.table(data)

        def again() -> tuple[DataFrame, int]:
            return self._reading.createDataFrame(table), self.engine.ledger.epoch

        return Result(*again(), again=again, spark=self.engine)

    @_on_spark
    def run(self, dag: StreamingDag) -> None:
        """Make a DAG that was built in Python part of this database."""
        self._require_writable("run")
        attach(self.engine, dag)

    @_on_spark
    def register_function(
        self, name: str, function: Any, returns: Any = None, *, or_replace: bool = False
    ) -> None:
        """Let views and queries call a Python function.

        It must be deterministic: a row that is taken back is computed once more. Its name and type
        are stored, its code is not: after opening a database it is registered again, and views that
        call it wait until it is.

        Args:
            name: what it is called in SQL; not the name of a function of Spark's.
            function: a plain function of a row's values, or what Spark's `udf`, `pandas_udf` or
                `arrow_udf` made of one.
            returns: its type, as DDL or a DataType; not needed where Spark's object says it.
            or_replace: take it in the place of another one, and build views that call it anew.
        """
        self._require_well()
        register_function(self.engine, name, function, returns, or_replace=or_replace)

    # Names

    @property
    def current_schema(self) -> str:
        """The schema that names of one part are in: `default`, until USE says another.

        It is that of this object, not of the database, and goes with it.
        """
        return self._statements.schema

    def known_as(self, name: str) -> str:
        """Return the name under which the database knows a relation, there or not.

        That is what system tables say, and what `topology` shows: its own name for one in the
        schema `default`, else schema and name.
        """
        return self._statements.names().identity(name)

    # Rows

    @_on_spark
    def insert(self, table: str, rows: Any) -> int:
        """Add rows to a table; they are durable on return and visible after the next step.

        Returns:
            How many rows were added: all of them, or none if the source is one that drops.
        """
        self._require_writable("insert")
        return self._dml.insert(self.known_as(table), rows)

    @_on_spark
    def delete(self, table: str, rows: Any) -> int:
        """Take back one copy of each given row; an unknown row is an error, nothing is applied."""
        self._require_writable("delete")
        return self._dml.delete(self.known_as(table), rows)

    # Epochs

    @_on_spark
    def step(self) -> EpochReport | None:
        """Run one epoch over all that is pending; None if there is nothing to do.

        Raises:
            OperatorError: a view failed. It stays where it was, with its group and all that depend
                on it; the epoch is committed for the others, and is the error's `report`.
        """
        self._require_writable("step")
        return self._driver.told(self.engine.step)

    @_on_spark
    def configure_source(
        self,
        name: str,
        *,
        policy: BatchPolicy | None = None,
        backpressure: BackpressureStrategy | None = None,
    ) -> None:
        """Say how the rows of a source come in, like the options after WITH do; it lasts.

        Args:
            name: the source.
            policy: when a batch is closed.
            backpressure: what to do when epochs are behind.
        """
        self._require_writable("configure_source")
        alter_source(self.engine, self.known_as(name), to_options(policy, backpressure))

    @_on_spark
    def start(self) -> None:
        """Step in the background from now on, as soon as a source has a batch ready.

        What goes wrong there is kept and raised by `stop`, or by the next call of any other kind;
        `metrics().loop` shows it meanwhile. Functions given to `on_epoch` are called on the thread
        of the loop, between epochs; sinks each on its own.
        """
        self._require_writable("start")
        self.engine.defined.require_attached()
        self._loop.start()

    def stop(self) -> None:
        """Stop stepping in the background, after the epoch that runs.

        What the sources have delivered and no epoch has taken yet is for the next step.

        Raises:
            LaminarError: what went wrong since `start` and was not raised yet.
            WriterBusy: the last epoch takes longer than `laminar.writer_timeout_ms`; the loop ends
                after it.
        """
        self._require_open()
        self.engine.ledger.turn.refuse_inside("stop")
        self._loop.stop()

    @_on_spark
    def drain(self) -> EpochReport | None:
        """Step until all sources are idle; return the last report.

        A view that fails does not keep the others from going on; its error is raised at the end.
        """
        self._require_writable("drain")
        return self._driver.drain()

    @_on_spark
    def advance_watermark(self, name: str, watermark: datetime | str) -> None:
        """Say that a source has no more rows before a time, as its own punctuation would.

        The next step acts on it. A time may be ISO text; without a zone it is UTC, and one in the
        past changes nothing.
        """
        self._require_writable("advance_watermark")
        self.engine.advance_watermark(self.known_as(name), _micros(watermark))

    @_on_spark
    def end_of_stream(self, name: str) -> None:
        """Say that a source has no more rows: with the next step all its windows are over."""
        self._require_writable("end_of_stream")
        self.engine.advance_watermark(self.known_as(name), END_OF_TIME)

    def on_epoch(self, callback: Callable[[EpochReport], object]) -> None:
        """Call a function after every committed epoch, on the thread that ran it.

        It may use the database as it likes: nobody waits for it but the caller of `step`.
        """
        self._driver.listeners.append(callback)

    # Changes

    @_on_spark
    def subscribe(
        self,
        relation: str,
        from_epoch: int | None = None,
        *,
        name: str | None = None,
        timeout: float | None = None,
    ) -> Subscription[Changes]:
        """Follow a relation: an iterator of (epoch, rows with `__weight`).

        It ends when it has caught up; asked again after further steps, it goes on. While the
        database runs continuously it waits for the next change instead.

        Args:
            relation: a table or a view.
            from_epoch: the last epoch that was seen; what came after it is given. None starts with
                all rows there are, as insertions, or where a subscription of that name was.
            name: keeps the cursor on disk: an epoch counts as taken when the next is asked for.
            timeout: seconds to wait for the next change before ending.

        Raises:
            EpochNotFound: that epoch is pruned, here or in the middle if the reader falls behind.
            SubscriptionEnded: the relation was defined anew.
        """
        self._require_open()
        self.engine.have_spark()
        relation = self.engine.snapshot().catalog.resolve(self.known_as(relation))
        self.engine.work.pruning.refuse_reading(relation)
        return self.engine.outputs.subscriptions.subscribe(
            relation, from_epoch, self._present, name=name, timeout=timeout
        )

    @_on_spark
    def unsubscribe(self, name: str) -> bool:
        """Forget a subscription that has a name; say whether there was one."""
        self._require_writable("unsubscribe")
        return self.engine.outputs.subscriptions.forget(name)

    def _present(self, told: ChangeFrame, epoch: int) -> Changes | None:
        def again() -> tuple[DataFrame, int]:
            return told.again().frame, epoch

        made = Changes(Result(told.frame, epoch, again=again, spark=self.engine))
        return made if told.is_large or len(made) else None

    # Durable points

    @_on_spark
    def checkpoint(self) -> int:
        """Keep the current epoch as a checkpoint; durable and verified on return.

        Returns:
            Its number, for `restore`. `laminar_system.checkpoints` says more about it.
        """
        self._require_writable("checkpoint")
        return self.engine.work.checkpoints.now()

    @_on_spark
    def restore(self, checkpoint_id: int, *, definitions: Definitions = "then") -> int:
        """Go back to what a checkpoint holds; the state as it is now is set aside, not deleted.

        It becomes the next epoch, so that sinks get the difference like any other change.

        Args:
            checkpoint_id: its number.
            definitions: `then` brings back tables, views and sinks as they were defined;
                `current` keeps those of now: views that were defined alike keep the rows they had
                then, the others are built anew.

        Returns:
            The epoch that holds the checkpoint's content again.
        """
        self._require_writable("restore")
        return restore(self.engine, checkpoint_id, definitions).epoch

    # Introspection

    def topology(self) -> StreamingDag:
        """Return the DAG of sources, views and sinks, with the columns of each."""
        return live_dag(self.engine)

    def metrics(self) -> Metrics:
        """Return counters of this process."""
        from laminar.runtime.introspection.metrics import collect_metrics

        return collect_metrics(self.engine, self._loop.status)

    # Lifetime

    def _require_writable(self, what: str) -> None:
        self._require_well()
        if self.engine.env.read_only:
            raise ReadOnlyDatabase(what, str(self.path))

    def _require_open(self) -> None:
        if self._closed:
            raise DatabaseClosed(str(self.path))

    def _require_well(self) -> None:
        """Raise if it is closed, or what the loop in the background has met."""
        self._require_open()
        self._loop.report()
        self.engine.have_spark()

    def close(self) -> None:
        """Stop; everything committed is on disk already.

        Raises:
            WriterBusy: another thread writes for longer than `laminar.writer_timeout_ms`; the
                database stays open.
        """
        if self._closed:
            return
        self.engine.ledger.turn.refuse_inside("close")
        self._loop.halt()
        self._closed = True
        try:
            self.engine.close()
        except WriterBusy:
            self._closed = False  # somebody writes: the folder must stay ours
            raise
        except DatabaseClosed:
            return  # another thread is closing it: the folder stays ours until it is done
        except BaseException:
            self._leave()
            raise
        self._leave()

    def _give_up(self) -> None:
        """Leave the folder to others: the database cannot be opened, and why is what counts."""
        with suppress(Exception):
            if hasattr(self, "engine"):
                self.engine.close()
        self._leave()

    def _leave(self) -> None:
        if self._lock is not None:
            self._lock.release()
        if self._temporary:
            shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _micros(given: datetime | str) -> int:
    try:
        moment = datetime.fromisoformat(given) if isinstance(given, str) else given
    except ValueError:
        raise InvalidSetting("watermark", given, "a time such as 2026-01-31T12:00:00") from None
    if not isinstance(moment, datetime):
        raise InvalidSetting("watermark", given, "a datetime")
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _existing(path: str | Path | None) -> Path:
    if path is None or ManifestStore(Path(path)).newest() is None:
        raise DatabaseNotFound(str(path))
    return Path(path)


def _folder(path: str | Path | None) -> Path:
    if path is None:
        return Path(tempfile.mkdtemp(prefix="laminar-")).resolve()
    try:
        durable_files.make_root(Path(path))
    except OSError as error:
        raise StoreUnwritable(str(path), error.strerror or str(error)) from None
    return Path(path)
