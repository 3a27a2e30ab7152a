"""Rows from the user: inserted, deleted, updated. All become a delta of the next epoch.

Nothing is applied to a table here. A change is first worked out in full, then written to the
pending log with one atomic write, so a mistake leaves no trace.

What a change sees: a table that it changes, with all that is pending; other relations as they are
at the last epoch.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from laminar.delta.change import Version, bag, columns, consolidate, quote
from laminar.errors import (
    InvalidQuery,
    NotSupported,
    RowDoesNotMatch,
    RowNotFound,
    SqlSyntaxError,
    UnknownColumn,
)
from laminar.model.trace import WEIGHT
from laminar.runtime.definitions import TableDefinition
from laminar.runtime.functions import known_functions
from laminar.runtime.refusals import SPARK_FAILS, explain_refusal
from laminar.runtime.rows import to_arrow
from laminar.sql import relations_of
from laminar.store import SegmentStore
from laminar.store.collect import collect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from laminar.runtime.engine import Engine

_COMMITTED, _PENDING, _UNWANTED = "__committed_rows", "__pending_rows", "__unwanted_rows"

_EACH_OF_PAIR = "SELECT __row.* FROM (SELECT EXPLODE(__pair) AS __row FROM ({}))"


class Dml:
    """Changes to tables."""

    def __init__(
        self, engine: Engine, session: SparkSession, store: SegmentStore, lock: threading.Lock
    ) -> None:
        self._engine = engine
        self._session = session
        self._store = store
        self._lock = lock
        # From looking at the rows until the change is pending: two deletions of one row must
        # not both find it.
        self._changing = threading.RLock()
        self._schemas: dict[tuple[Any, ...], pa.Schema] = {}

    def insert(self, table: str, rows: Any) -> int:
        """Add rows."""
        definition = self._table(table)
        return self._push(definition, self._arrow(definition, rows), 1)

    def delete(self, table: str, rows: Any) -> int:
        """Take back one copy of each row."""
        definition = self._table(table)
        data = self._arrow(definition, rows)
        with self._changing:
            self._require_present(definition, data)
            return self._push(definition, data, -1)

    def insert_query(self, table: str, names: tuple[str, ...], frame: DataFrame) -> int:
        """Add the rows of a query, by position."""
        definition = self._table(table)
        wanted = [self._column(definition, name) for name in names] or list(
            definition.shape.columns
        )
        if len(frame.columns) != len(wanted):
            raise InvalidQuery(
                f"{len(frame.columns)} values are given for {len(wanted)} columns",
                hint=f"give one value for each of {', '.join(wanted)}",
            )
        items = []
        for name, kind, _ in definition.columns:
            value = f"v{wanted.index(name)}" if name in wanted else "NULL"
            items.append(f"CAST({value} AS {kind}) AS {quote(name)}")
        try:
            given = frame.toDF(*[f"v{place}" for place in range(len(frame.columns))])
            data = _collected(given.selectExpr(*items))
        except SPARK_FAILS as error:
            raise explain_refusal(error, {}) from None
        _refuse_nulls(definition, data)
        return self._push(definition, data, 1)

    def delete_where(self, table: str, condition: str | None) -> int:
        """Take back all rows that meet a condition."""
        definition = self._table(table)
        query = f"SELECT * FROM {_matching(definition.name, condition)}"
        with self._changing:
            return self._push(definition, self._current(definition, query), -1)

    def update(
        self, table: str, assignments: tuple[tuple[str, str], ...], condition: str | None
    ) -> int:
        """Replace all rows that meet a condition; old and new rows are one atomic change."""
        definition = self._table(table)
        changed = {self._column(definition, name): value for name, value in assignments}
        old = columns(definition.shape.columns)
        new = ", ".join(
            f"CAST({changed.get(name, quote(name))}\n AS {kind}) AS {quote(name)}"
            for name, kind, _ in definition.columns
        )
        # Both in one pass over the row: a condition may well be one that chance decides.
        pairs = f"ARRAY(STRUCT({old}, -1L AS {WEIGHT}), STRUCT({new}, 1L AS {WEIGHT})) AS __pair"
        query = f"SELECT {pairs} FROM {_matching(definition.name, condition)}"
        with self._changing:
            both = self._current(definition, query, then=_EACH_OF_PAIR)
            _refuse_nulls(definition, both.filter(pc.greater(both.column(WEIGHT), 0)))
            return self._append(definition, both) // 2

    def _table(self, name: str) -> TableDefinition:
        found = self._engine.catalog.definitions[self._engine.catalog.resolve(name)]
        if not isinstance(found, TableDefinition):
            raise NotSupported(f'changing rows of the view "{name}"', "change the tables it reads")
        if found.connector is not None:
            raise NotSupported(
                f'changing rows of "{found.name}", which reads from {found.connector}',
                "create a table for rows of your own",
            )
        return found

    def _column(self, definition: TableDefinition, name: str) -> str:
        known = definition.shape.columns
        for column in known:
            if column.lower() == name.lower():
                return column
        raise UnknownColumn(name, known)

    def _arrow(self, definition: TableDefinition, rows: Any) -> pa.Table:
        if hasattr(rows, "sparkSession"):
            try:
                rows = _collected(rows)
            except SPARK_FAILS as error:
                raise explain_refusal(error, {}) from None
        return to_arrow(rows, self._schema(definition), definition.name)

    def _schema(self, definition: TableDefinition) -> pa.Schema:
        key = (definition.name, definition.columns)
        if key not in self._schemas:
            found = _collected(self._store.frame(definition.shape.ddl, ()))
            nullable = {name: null for name, _, null in definition.columns}
            self._schemas[key] = pa.schema(
                [pa.field(f.name, f.type, nullable[f.name]) for f in found.schema]
            )
        return self._schemas[key]

    def _push(self, definition: TableDefinition, data: pa.Table, weight: int) -> int:
        weights = pa.array([weight], pa.int64()).take(pa.array([0] * data.num_rows, pa.int32()))
        return self._append(definition, data.append_column(WEIGHT, weights))

    def _append(self, definition: TableDefinition, data: pa.Table) -> int:
        """Make weighted rows pending; all batches of a table have one and the same schema."""
        if data.num_rows:
            fields = [pa.field(each.name, each.type) for each in self._schema(definition)]
            schema = pa.schema([*fields, pa.field(WEIGHT, pa.int64())])
            self._engine.pending.append(definition.name, data.select(schema.names).cast(schema))
        return int(data.num_rows)

    def _weighted(self, definition: TableDefinition) -> str:
        """Bind committed and pending rows of a table; return the query of both."""
        name = definition.name
        _, faces = self._engine.faces_at(self._session, self._store)
        faces.frame(name, Version.AFTER).createOrReplaceTempView(_COMMITTED)
        start = self._engine.manifest.offsets.get(name) or 0
        parts = [f"SELECT * FROM {_COMMITTED}"]
        batches = self._engine.pending.after(name, int(start))
        if batches:
            schema = self._store.struct(definition.shape.stored)
            paths = [f"file://{batch.path}" for batch in batches]
            waiting = self._session.read.schema(schema).parquet(*paths)
            waiting.createOrReplaceTempView(_PENDING)
            parts.append(f"SELECT * FROM {_PENDING}")
        return " UNION ALL ".join(parts)

    def _current(self, definition: TableDefinition, query: str, then: str = "{}") -> pa.Table:
        """Run a query in which the table's name stands for its rows with all that is pending."""
        catalog = self._engine.catalog
        try:
            names = {catalog.resolve(each) for each in relations_of(query)}
        except SqlSyntaxError as error:
            # Its place is one in our own text, not in the user's.
            raise SqlSyntaxError(error.message, hint=error.hint) from None
        shapes = {name.lower(): catalog.shape(name) for name in names}
        with self._lock:
            _, faces = self._engine.faces_at(self._session, self._store)
            for name in names - {definition.name}:
                faces.content(name).createOrReplaceTempView(quote(name))
            rows = bag(self._weighted(definition), definition.shape.columns, positive=False)
            try:
                self._session.sql(rows).createOrReplaceTempView(quote(definition.name))
                return _collected(self._session.sql(then.format(query)))
            except SPARK_FAILS as error:
                functions = functools.partial(known_functions, self._session)
                raise explain_refusal(error, shapes, functions) from None

    def _require_present(self, definition: TableDefinition, data: pa.Table) -> None:
        """Refuse a deletion of rows that are not there, or not that often."""
        names = definition.shape.columns
        with self._lock:
            self._session.createDataFrame(data).createOrReplaceTempView(_UNWANTED)
            wanted = f"SELECT {columns(names)}, -1L AS {WEIGHT} FROM {_UNWANTED}"
            there = (
                f"SELECT {columns(names, 't.')}, t.{WEIGHT} FROM ({self._weighted(definition)}) t"
            )
            on = " AND ".join(f"t.{name} <=> u.{name}" for name in _comparable(definition))
            if on:
                there += f" LEFT SEMI JOIN {_UNWANTED} u ON {on}"
            left = consolidate(f"{there} UNION ALL {wanted}", names)
            missing = self._session.sql(f"SELECT * FROM ({left}) WHERE {WEIGHT} < 0 LIMIT 3")
            rows = [row.asDict() for row in missing.drop(WEIGHT).collect()]
        if rows:
            raise RowNotFound(definition.name, rows)


def _matching(table: str, condition: str | None) -> str:
    """Return what follows FROM."""
    # The condition is in brackets, so that it is one and nothing else, and on lines of its own,
    # because it may end in a comment. Without the alias Spark would take `t WHERE (flag)` for an
    # alias called WHERE with a column called flag.
    name = quote(table)
    return f"{name} AS {name} WHERE (\n{condition}\n)" if condition else name


def _comparable(definition: TableDefinition) -> Iterable[str]:
    """Yield the columns that a join can compare; maps can only be grouped by."""
    for name, kind, _ in definition.columns:
        if "map" not in kind.lower():
            yield quote(name)


def _collected(frame: DataFrame) -> pa.Table:
    found = collect(frame)
    if found is None:
        kinds = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in frame.schema.fields)
        raise NotSupported(f"rows of these types here: {kinds}", "read them from a source")
    return found


def _refuse_nulls(definition: TableDefinition, data: pa.Table) -> None:
    for name, _, nullable in definition.columns:
        column = data.column(name)
        if column.null_count and not nullable:
            row = pc.index(pc.is_null(column), True).as_py() + 1
            reason = "it is NULL and must not be"
            raise RowDoesNotMatch(definition.name, row, name, reason=reason)
