"""Rows from the user: inserted, deleted, updated. All become a delta of the next epoch.

Nothing is applied to a table here. A change is first worked out in full, then written to the
pending log with one atomic write, so a mistake leaves no trace.

What a change sees: tables with all that is pending, and views as the next epoch would leave them.
So an epoch runs first if it reads a view and rows wait for that; one that is held is read as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from laminar.bridge.prefix import last_of_each
from laminar.delta.change import columns, quote
from laminar.errors import (
    InvalidQuery,
    NotSupported,
    RowDoesNotMatch,
    TableRedefined,
    UnknownColumn,
)
from laminar.model.trace import ARRIVAL, WEIGHT
from laminar.runtime.catalog.column_rules import (
    BROKEN,
    completed,
    default_of,
    instead,
    kept,
    refuse_generated,
)
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.ingest.primary_keys import refuse_twice
from laminar.runtime.spark.error_translation import SPARK_FAILS, explain_refusal
from laminar.runtime.statements.current_rows import CurrentRows, collected
from laminar.runtime.statements.merge_rows import COUNTED, TARGET, merge_query, refuse_conflict
from laminar.runtime.statements.query import Reader
from laminar.runtime.statements.user_rows import refuse_split_years, to_arrow
from laminar.sql import Merge
from laminar.sql.dml import with_defaults

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from laminar.runtime.engine.engine import Engine


def _each_of_pair(query: str) -> str:
    return f"SELECT __row.* FROM (SELECT EXPLODE(__pair) AS __row FROM ({query}))"


class Dml:
    """Changes to the rows of tables: durable when they return, seen after the next epoch."""

    def __init__(self, engine: Engine, reader: Reader, run_epoch: Callable[[], object]) -> None:
        self._engine = engine
        self._reader = reader
        self._run_epoch = run_epoch
        self._current = CurrentRows(engine, reader)
        self._schemas: dict[tuple[Any, ...], pa.Schema] = {}

    def insert(self, table: str, rows: Any) -> int:
        """Add rows; return how many."""
        definition = self._table(table)
        data = self._arrow(definition, rows, self._current.defaults(definition))
        return self._admitted(definition, self._completed(definition, data))

    def delete(self, table: str, rows: Any) -> int:
        """Take back one copy of each row; raise if one is not there, then nothing is taken."""
        definition = self._kept_table(table)
        data = self._arrow(definition, rows)
        if definition.generated or definition.chars:
            data = self._current.completed(definition, data).drop_columns([BROKEN])
        with self._changing("DELETE FROM", definition):
            return self._push(definition, self._current.copies(definition, data), -1)

    def insert_query(self, table: str, names: tuple[str, ...], query: str) -> int:
        """Add the rows of a query, by position."""
        definition = self._table(table)
        read = self._reader.named(query)
        self._catch_up(read)
        with self._undisturbed(read, definition):
            query = with_defaults(query, partial(self._default, definition, names))
            frame = self._reader.query(query, current=True).frame
            data = self._values(definition, names, frame)
        _refuse_nulls(definition, data)
        return self._admitted(definition, data)

    def _default(self, definition: TableDefinition, names: tuple[str, ...], place: int) -> str:
        """Return what DEFAULT stands for at some place of a row."""
        wanted = names or definition.shape.columns
        name = self._column(definition, wanted[place]) if place < len(wanted) else ""
        return default_of(definition, name)

    def _completed(self, definition: TableDefinition, data: pa.Table) -> pa.Table:
        """Return new rows as their table declares them; raise if one breaks a rule."""
        if definition.has_rules and data.num_rows:
            data = kept(definition, self._current.completed(definition, data))
        _refuse_nulls(definition, data)
        return data

    def _catch_up(self, names: Iterable[str]) -> None:
        """Bring the views that a change reads to all that waits for them."""
        if self._reader.tables.behind(names):
            self._run_epoch()

    @contextmanager
    def _undisturbed(self, names: Iterable[str], definition: TableDefinition) -> Iterator[None]:
        """Let no epoch take rows that a query reads while they wait."""
        snapshot = self._engine.snapshot()
        waits = any(self._reader.tables.waiting(name, snapshot) for name in names)
        with self._changing("INSERT INTO", definition) if waits else nullcontext():
            yield

    def _values(
        self, definition: TableDefinition, names: tuple[str, ...], frame: DataFrame
    ) -> pa.Table:
        """Return the rows of a query as rows of a table."""
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
            is_given = name in wanted
            value = f"v{wanted.index(name)}" if is_given else default_of(definition, name)
            items.append(f"CAST({value} AS {kind}) AS {quote(name)}")
        try:
            given = frame.toDF(*[f"v{place}" for place in range(len(frame.columns))])
            rows = given.selectExpr(*items)
            if definition.has_rules:
                return kept(definition, self._current.completed(definition, rows))
            return collected(rows)
        except SPARK_FAILS as error:
            raise explain_refusal(error, {}) from None

    def _admitted(self, definition: TableDefinition, data: pa.Table) -> int:
        """Add rows if there is room for them; before any lock is taken, for this may wait."""
        if not self._engine.work.inlets.admit(definition.name, data.num_rows):
            return 0
        return self._add(definition, data)

    def _add(self, definition: TableDefinition, data: pa.Table) -> int:
        """Make new rows pending; with a primary key, an old row goes or the new one is refused."""
        if not definition.primary_key or not data.num_rows:
            return self._push(definition, data, 1)
        with self._changing("INSERT INTO", definition):
            if definition.upserts:
                delta = self._current.replacing(
                    definition, last_of_each(data, definition.primary_key)
                )
                self._append(definition, delta)
                return int(data.num_rows)
            refuse_twice(definition, data)
            self._current.refuse_clash(definition, _weighted(data, 1))
            return self._push(definition, data, 1)

    def delete_where(self, table: str, condition: str | None) -> int:
        """Take back all rows that meet a condition."""
        definition = self._kept_table(table)
        query = f"SELECT * FROM {_matching(definition.name, condition)}"
        self._catch_up(self._current.named(query))
        with self._changing("DELETE FROM", definition):
            return self._push(definition, self._current.run(definition, query), -1)

    def update(
        self, table: str, assignments: tuple[tuple[str, str], ...], condition: str | None
    ) -> int:
        """Replace all rows that meet a condition; old and new rows are one atomic change."""
        definition = self._kept_table(table)
        changed = self._assigned(definition, assignments)
        old = columns(definition.shape.columns)
        new = ", ".join(
            f"CAST({changed.get(name, quote(name))}\n AS {kind}) AS {quote(name)}"
            for name, kind, _ in definition.columns
        )
        # Both in one pass over the row: a condition may well be one that chance decides.
        gone = f"STRUCT({old}, {ARRIVAL}, -1L AS {WEIGHT})"
        come = f"STRUCT({new}, CAST(NULL AS BIGINT) AS {ARRIVAL}, 1L AS {WEIGHT})"
        pairs = f"ARRAY({gone}, {come}) AS __pair"
        query = f"SELECT {pairs} FROM {_matching(definition.name, condition)}"
        self._catch_up(self._current.named(query))
        with self._changing("UPDATE", definition):
            both = self._current.run(definition, query, then=self._ruled(definition))
            return self._change(definition, both) // 2

    def _assigned(
        self, definition: TableDefinition, assignments: tuple[tuple[str, str], ...]
    ) -> dict[str, str]:
        """Return column -> expression; a generated column is none that can be set."""
        found = {}
        for given, value in assignments:
            name = self._column(definition, given)
            refuse_generated(definition, name)
            found[name] = instead(definition, name, value)
        return found

    def _ruled(self, definition: TableDefinition, *more: str) -> Callable[[str], str]:
        """Return what makes of pairs of rows, those before and after, rows that are looked at."""
        if not definition.has_rules:
            return _each_of_pair
        hidden = (ARRIVAL, WEIGHT, *more)
        return lambda query: completed(definition, _each_of_pair(query), hidden, is_given=False)

    def merge(self, statement: Merge) -> int:
        """Change a table by the rows of a query; return how many rows were changed."""
        definition = self._kept_table(statement.table)
        query = merge_query(statement, definition, self._source_columns(statement))
        self._catch_up(self._current.named(query, TARGET))
        with self._changing("MERGE INTO", definition):
            then = self._ruled(definition, COUNTED)
            found = self._current.run(definition, query, then=then, weighted=TARGET)
            refuse_conflict(definition, found)
            taken = int(pc.sum(found.column(COUNTED)).as_py() or 0)
            self._change(definition, found.drop_columns([COUNTED]))
            return taken

    def _source_columns(self, statement: Merge) -> tuple[str, ...]:
        """Return the columns of what is merged in, for the forms with a star."""
        if not any(clause.is_star for clause in statement.clauses):
            return ()
        return tuple(self._reader.query(f"SELECT * FROM {statement.source}").frame.columns)

    @contextmanager
    def _changing(self, what: str, definition: TableDefinition) -> Iterator[None]:
        """Have the turn from looking at the rows of a table until the change is pending.

        Two deletions of one row must not both find it, nor may an epoch take rows away meanwhile.

        Raises:
            TableRedefined: the table is another one by the time of the turn.
        """
        with self._engine.ledger.turn(f"{what} {definition.name}"):
            if not self._table(definition.name).takes_rows_of(definition):
                raise TableRedefined(definition.name)
            yield

    def _change(self, definition: TableDefinition, delta: pa.Table) -> int:
        """Make a weighted change pending that keeps what the table declares."""
        if definition.has_rules:
            delta = kept(definition, delta)
        _refuse_nulls(definition, delta.filter(pc.greater(delta.column(WEIGHT), 0)))
        self._current.refuse_clash(definition, delta)
        return self._append(definition, delta)

    def _kept_table(self, name: str) -> TableDefinition:
        """Return a table whose rows are there to be looked at."""
        definition = self._table(name)
        self._engine.work.pruning.refuse_reading(definition.name)
        return definition

    def _table(self, name: str) -> TableDefinition:
        found = self._engine.defined.catalog.definitions[self._engine.defined.catalog.resolve(name)]
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

    def _arrow(
        self, definition: TableDefinition, rows: Any, missing: Mapping[str, Any] | None = None
    ) -> pa.Table:
        if hasattr(rows, "sparkSession"):
            try:
                rows = collected(rows)
            except SPARK_FAILS as error:
                raise explain_refusal(error, {}) from None
        made = frozenset(name for name, _ in definition.generated)
        found = to_arrow(rows, self._schema(definition), definition.name, missing or {}, made)
        kinds = {name: kind for name, kind, _ in definition.columns}
        refuse_split_years(found, kinds, definition.name)
        return found

    def _schema(self, definition: TableDefinition) -> pa.Schema:
        key = (definition.name, definition.columns, definition.generated)
        if key not in self._schemas:
            found = collected(self._reader.store.frame(definition.shape.ddl, ()))
            made = dict(definition.generated)  # they are not NULL once they are computed
            nullable = {name: null or name in made for name, _, null in definition.columns}
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
            hidden = [pa.field(ARRIVAL, pa.int64()), pa.field(WEIGHT, pa.int64())]
            schema = pa.schema([*fields, *hidden])
            if ARRIVAL not in data.column_names:
                data = data.append_column(ARRIVAL, pa.nulls(data.num_rows, pa.int64()))
            self._engine.work.inlets.push(definition, data.select(schema.names).cast(schema))
        return int(data.num_rows)


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


def _refuse_nulls(definition: TableDefinition, data: pa.Table) -> None:
    for name, _, nullable in definition.columns:
        column = data.column(name)
        if column.null_count and not nullable:
            row = pc.index(pc.is_null(column), True).as_py() + 1
            reason = "it is NULL and must not be"
            raise RowDoesNotMatch(definition.name, row, name, reason=reason)
