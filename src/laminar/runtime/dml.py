"""Rows from the user: inserted, deleted, updated. All become a delta of the next epoch.

Nothing is applied to a table here. A change is first worked out in full, then written to the
pending log with one atomic write, so a mistake leaves no trace.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from laminar.delta.change import bag, columns, consolidate
from laminar.errors import NotSupported, RowNotFound
from laminar.model.trace import WEIGHT
from laminar.runtime.definitions import TableDefinition
from laminar.runtime.rows import to_arrow
from laminar.runtime.views import explain_refusal
from laminar.store import SegmentStore
from laminar.store.collect import collect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from laminar.runtime.engine import Engine


class Dml:
    """Changes to tables."""

    def __init__(
        self, engine: Engine, session: SparkSession, store: SegmentStore, lock: threading.Lock
    ) -> None:
        self._engine = engine
        self._session = session
        self._store = store
        self._lock = lock
        self._schemas: dict[str, pa.Schema] = {}

    def insert(self, table: str, rows: Any) -> int:
        """Add rows."""
        definition = self._table(table)
        return self._push(definition, self._arrow(definition, rows), 1)

    def delete(self, table: str, rows: Any) -> int:
        """Take back one copy of each row."""
        definition = self._table(table)
        data = self._arrow(definition, rows)
        self._require_present(definition, data)
        return self._push(definition, data, -1)

    def insert_query(self, table: str, names: tuple[str, ...], frame: DataFrame) -> int:
        """Add the rows of a query, by position."""
        definition = self._table(table)
        wanted = [self._column(definition, name) for name in names] or [
            name for name, _, _ in definition.columns
        ]
        given = frame.toDF(*[f"v{place}" for place in range(len(frame.columns))])
        if len(frame.columns) != len(wanted):
            raise NotSupported(
                f"INSERT of {len(frame.columns)} values into {len(wanted)} columns",
                f"give one value for each of {', '.join(wanted)}",
            )
        items = []
        for name, kind, _ in definition.columns:
            value = f"v{wanted.index(name)}" if name in wanted else "NULL"
            items.append(f"CAST({value} AS {kind}) AS `{name}`")
        typed = given.selectExpr(*items)
        try:
            data = collect(typed)
        except PySparkException as error:
            raise explain_refusal(error, self._engine.catalog.shapes()) from None
        assert data is not None
        return self._push(definition, data, 1)

    def delete_where(self, table: str, condition: str | None) -> int:
        """Take back all rows that meet a condition."""
        definition = self._table(table)
        rows = self._current(definition, f"SELECT * FROM current WHERE {condition or 'true'}")
        return self._push(definition, rows, -1)

    def update(
        self, table: str, assignments: tuple[tuple[str, str], ...], condition: str | None
    ) -> int:
        """Replace all rows that meet a condition; old and new rows are one atomic change."""
        definition = self._table(table)
        changed = {self._column(definition, name): value for name, value in assignments}
        test = condition or "true"
        names = tuple(name for name, _, _ in definition.columns)
        new = ", ".join(
            f"CAST({changed.get(name, f'`{name}`')} AS {kind}) AS `{name}`"
            for name, kind, _ in definition.columns
        )
        both = self._current(
            definition,
            f"SELECT {columns(names)}, -1L AS {WEIGHT} FROM current WHERE {test} UNION ALL "
            f"SELECT {new}, 1L AS {WEIGHT} FROM current WHERE {test}",
        )
        if both.num_rows:
            self._engine.pending.append(definition.name, both)
        return int(both.num_rows) // 2

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
        from laminar.errors import UnknownColumn

        known = [column for column, _, _ in definition.columns]
        for column in known:
            if column.lower() == name.lower():
                return column
        raise UnknownColumn(name, known)

    def _arrow(self, definition: TableDefinition, rows: Any) -> pa.Table:
        if hasattr(rows, "sparkSession"):
            typed = rows.selectExpr(
                *[f"CAST(`{name}` AS {kind}) AS `{name}`" for name, kind, _ in definition.columns]
            )
            found = collect(typed)
            assert found is not None
            return found
        return to_arrow(rows, self._schema(definition), definition.name)

    def _schema(self, definition: TableDefinition) -> pa.Schema:
        if definition.name not in self._schemas:
            empty = self._store.frame(definition.shape.ddl, ())
            found = collect(empty)
            assert found is not None
            nullable = {name: null for name, _, null in definition.columns}
            self._schemas[definition.name] = pa.schema(
                [pa.field(f.name, f.type, nullable[f.name]) for f in found.schema]
            )
        return self._schemas[definition.name]

    def _push(self, definition: TableDefinition, data: pa.Table, weight: int) -> int:
        if data.num_rows == 0:
            return 0
        weights = pa.array([weight], pa.int64()).take(pa.array([0] * data.num_rows, pa.int32()))
        data = pa.table(
            {**{name: data.column(name) for name in data.column_names}, WEIGHT: weights}
        )
        self._engine.pending.append(definition.name, data)
        return int(data.num_rows)

    def _weighted(self, definition: TableDefinition) -> str:
        """Bind committed and pending rows of a table; return the query of both."""
        from laminar.delta.change import Version

        name = definition.name
        _, faces = self._engine.faces_at(self._session, self._store)
        faces.frame(name, Version.AFTER).createOrReplaceTempView("committed_rows")
        start = self._engine.manifest.offsets.get(name) or 0
        parts = ["SELECT * FROM committed_rows"]
        batches = self._engine.pending.after(name, int(start))
        if batches:
            schema = self._store.struct(f"{definition.shape.ddl}, {WEIGHT} BIGINT")
            paths = [f"file://{batch.path}" for batch in batches]
            waiting = self._session.read.schema(schema).parquet(*paths)
            waiting.createOrReplaceTempView("pending_rows")
            parts.append("SELECT * FROM pending_rows")
        return " UNION ALL ".join(parts)

    def _current(self, definition: TableDefinition, query: str) -> pa.Table:
        """Run a query over `current`, the table's rows with all that is pending."""
        names = definition.shape.columns
        with self._lock:
            rows = bag(self._weighted(definition), names, positive=False)
            try:
                self._session.sql(rows).createOrReplaceTempView("current")
                found = collect(self._session.sql(query))
            except PySparkException as error:
                raise explain_refusal(error, self._engine.catalog.shapes()) from None
        assert found is not None
        return found

    def _require_present(self, definition: TableDefinition, data: pa.Table) -> None:
        """Refuse a deletion of rows that are not there, or not that often."""
        names = definition.shape.columns
        with self._lock:
            self._session.createDataFrame(data).createOrReplaceTempView("unwanted")
            wanted = f"SELECT {columns(names)}, -1L AS {WEIGHT} FROM unwanted"
            on = " AND ".join(f"t.`{name}` <=> u.`{name}`" for name in names)
            there = (
                f"SELECT {columns(names, 't.')}, t.{WEIGHT} "
                f"FROM ({self._weighted(definition)}) t LEFT SEMI JOIN unwanted u ON {on}"
            )
            left = consolidate(f"{there} UNION ALL {wanted}", names)
            missing = self._session.sql(f"SELECT * FROM ({left}) WHERE {WEIGHT} < 0 LIMIT 3")
            rows = [row.asDict() for row in missing.drop(WEIGHT).collect()]
        if rows:
            raise RowNotFound(definition.name, rows)
