"""Rows from the user: inserted, deleted, updated. All become a delta of the next epoch.

Nothing is applied to a table here. A change is first worked out in full, then written to the
pending log with one atomic write, so a mistake leaves no trace.

What a change sees: a table that it changes, with all that is pending; other relations as they are
at the last epoch.
"""

from __future__ import annotations

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
from laminar.runtime.keys import clashes, last_of_each, refuse_clash, refuse_twice, replacement
from laminar.runtime.merging import COUNTED, TARGET, merge_query, refuse_conflict
from laminar.runtime.reading import Reader, quote_all
from laminar.runtime.rows import to_arrow
from laminar.runtime.views import SPARK_FAILS, explain_refusal
from laminar.sql import Merge
from laminar.store.collect import collect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from laminar.runtime.engine import Engine

_COMMITTED, _PENDING, _UNWANTED = "__committed_rows", "__pending_rows", "__unwanted_rows"
_NEW = "__new_rows"

_EACH_OF_PAIR = "SELECT __row.* FROM (SELECT EXPLODE(__pair) AS __row FROM ({}))"


class Dml:
    """Changes to tables."""

    def __init__(self, engine: Engine, reader: Reader) -> None:
        self._engine = engine
        self._reader = reader
        self._session = reader.session
        self._store = reader.store
        self._lock = reader.lock
        # From looking at the rows until the change is pending: two deletions of one row must
        # not both find it.
        self._changing = threading.RLock()
        self._schemas: dict[tuple[Any, ...], pa.Schema] = {}

    def insert(self, table: str, rows: Any) -> int:
        """Add rows."""
        definition = self._table(table)
        return self._add(definition, self._arrow(definition, rows))

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
        return self._add(definition, data)

    def _add(self, definition: TableDefinition, data: pa.Table) -> int:
        """Make new rows pending; with a primary key, an old row goes or the new one is refused."""
        if not definition.primary_key or not data.num_rows:
            return self._push(definition, data, 1)
        with self._changing:
            if definition.upserts:
                delta = self._replacing(definition, last_of_each(definition, data))
                self._append(definition, delta)
                return int(data.num_rows)
            refuse_twice(definition, data)
            self._refuse_clash(definition, _weighted(data, 1))
            return self._push(definition, data, 1)

    def _replacing(self, definition: TableDefinition, data: pa.Table) -> pa.Table:
        with self._lock:
            self._session.createDataFrame(data).createOrReplaceTempView(_NEW)
            sql = replacement(definition, self._weighted(definition), f"SELECT * FROM {_NEW}")
            return _collected(self._session.sql(sql))

    def _refuse_clash(self, definition: TableDefinition, delta: pa.Table) -> None:
        """Refuse a weighted change after which a key would have two rows."""
        if not definition.primary_key or not delta.num_rows:
            return
        with self._lock:
            self._session.createDataFrame(delta).createOrReplaceTempView(_NEW)
            sql = clashes(definition, self._weighted(definition), f"SELECT * FROM {_NEW}")
            refuse_clash(definition, _collected(self._session.sql(sql)))

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
            return self._change(definition, both) // 2

    def merge(self, statement: Merge) -> int:
        """Change a table by the rows of a query; return how many rows were changed."""
        definition = self._table(statement.table)
        with self._changing:
            found = self._current(
                definition,
                merge_query(statement, definition, self._source_columns(statement)),
                then=_EACH_OF_PAIR,
                weighted=TARGET,
            )
            refuse_conflict(definition, found)
            taken = int(pc.sum(found.column(COUNTED)).as_py() or 0)
            self._change(definition, found.drop_columns([COUNTED]))
            return taken

    def _source_columns(self, statement: Merge) -> tuple[str, ...]:
        """Return the columns of what is merged in, for the forms with a star."""
        if not any(clause.is_star for clause in statement.clauses):
            return ()
        return tuple(self._reader.query(f"SELECT * FROM {statement.source}").frame.columns)

    def _change(self, definition: TableDefinition, delta: pa.Table) -> int:
        """Make a weighted change pending that keeps what the table declares."""
        _refuse_nulls(definition, delta.filter(pc.greater(delta.column(WEIGHT), 0)))
        self._refuse_clash(definition, delta)
        return self._append(definition, delta)

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
        return self._append(definition, _weighted(data, weight))

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

    def _current(
        self, definition: TableDefinition, query: str, then: str = "{}", weighted: str = ""
    ) -> pa.Table:
        """Run a query in which the table's name stands for its rows with all that is pending.

        Args:
            definition: the table.
            query: reads the table under its own name.
            then: what the query is put into, once its names are known.
            weighted: a name for the table's distinct rows with their weights.
        """
        with self._lock:
            try:
                bound = self._reader.bind(query, skip=(definition.name, weighted))
            except SqlSyntaxError as error:
                # Its place is one in our own text, not in the user's.
                raise SqlSyntaxError(error.message, hint=error.hint) from None
            names, current = definition.shape.columns, self._weighted(definition)
            try:
                rows = bag(current, names, positive=False)
                self._session.sql(rows).createOrReplaceTempView(quote_all(definition.name))
                if weighted:
                    distinct = self._session.sql(consolidate(current, names))
                    distinct.createOrReplaceTempView(weighted)
                return _collected(self._session.sql(then.format(bound.text)))
            except SPARK_FAILS as error:
                raise explain_refusal(error, bound.shapes) from None

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


def _weighted(data: pa.Table, weight: int) -> pa.Table:
    weights = pa.array([weight], pa.int64()).take(pa.array([0] * data.num_rows, pa.int32()))
    return data.append_column(WEIGHT, weights)


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
