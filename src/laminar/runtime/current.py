"""A table as a change sees it: committed rows and all that is pending.

Whoever asks holds the engine's lock: an epoch would move rows from the one to the other.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa  # type: ignore[import-untyped]

from laminar.delta.change import Version, bag, columns, consolidate, quote
from laminar.errors import NotSupported, RowNotFound, SqlSyntaxError
from laminar.model.trace import WEIGHT
from laminar.runtime.definitions import TableDefinition
from laminar.runtime.functions import known_functions
from laminar.runtime.keys import clashes, refuse_found, replacement
from laminar.runtime.reading import Reader, quote_all
from laminar.runtime.refusals import SPARK_FAILS, explain_refusal
from laminar.store.collect import collect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from laminar.runtime.engine import Engine

_COMMITTED, _PENDING, _UNWANTED = "__committed_rows", "__pending_rows", "__unwanted_rows"
_NEW = "__new_rows"


class CurrentRows:
    """Asks about the rows that a table has now."""

    def __init__(self, engine: Engine, reader: Reader) -> None:
        self._engine = engine
        self._reader = reader
        self._session = reader.session
        self._store = reader.store

    def run(
        self, definition: TableDefinition, query: str, then: str = "{}", weighted: str = ""
    ) -> pa.Table:
        """Run a query in which the table's name stands for its rows with all that is pending.

        Args:
            definition: the table.
            query: reads the table under its own name.
            then: what the query is put into, once its names are known.
            weighted: a name for the table's distinct rows with their weights.
        """
        with self._reader.lock:
            try:
                bound = self._reader.bind(query, skip=(definition.name, weighted))
            except SqlSyntaxError as error:
                # Its place is one in our own text, not in the user's.
                raise SqlSyntaxError(error.message, hint=error.hint) from None
            names, current = definition.shape.columns, self._rows(definition)
            try:
                rows = bag(current, names, positive=False)
                self._session.sql(rows).createOrReplaceTempView(quote_all(definition.name))
                if weighted:
                    distinct = self._session.sql(consolidate(current, names))
                    distinct.createOrReplaceTempView(weighted)
                return collected(self._session.sql(then.format(bound.text)))
            except SPARK_FAILS as error:
                functions = functools.partial(known_functions, self._session)
                raise explain_refusal(error, bound.shapes, functions) from None

    def require_present(self, definition: TableDefinition, data: pa.Table) -> None:
        """Refuse a deletion of rows that are not there, or not that often."""
        names = definition.shape.columns
        with self._reader.lock:
            self._session.createDataFrame(data).createOrReplaceTempView(_UNWANTED)
            wanted = f"SELECT {columns(names)}, -1L AS {WEIGHT} FROM {_UNWANTED}"
            there = f"SELECT {columns(names, 't.')}, t.{WEIGHT} FROM ({self._rows(definition)}) t"
            on = " AND ".join(f"t.{name} <=> u.{name}" for name in _comparable(definition))
            if on:
                there += f" LEFT SEMI JOIN {_UNWANTED} u ON {on}"
            left = consolidate(f"{there} UNION ALL {wanted}", names)
            missing = self._session.sql(f"SELECT * FROM ({left}) WHERE {WEIGHT} < 0 LIMIT 3")
            rows = [row.asDict() for row in missing.drop(WEIGHT).collect()]
        if rows:
            raise RowNotFound(definition.name, rows)

    def replacing(self, definition: TableDefinition, data: pa.Table) -> pa.Table:
        """Return the delta by which new rows, one per key, take the place of old ones."""
        with self._reader.lock:
            self._session.createDataFrame(data).createOrReplaceTempView(_NEW)
            sql = replacement(definition, self._rows(definition), f"SELECT * FROM {_NEW}")
            return collected(self._session.sql(sql))

    def refuse_clash(self, definition: TableDefinition, delta: pa.Table) -> None:
        """Refuse a weighted change after which a key would have two rows."""
        if not definition.primary_key or not delta.num_rows:
            return
        with self._reader.lock:
            self._session.createDataFrame(delta).createOrReplaceTempView(_NEW)
            sql = clashes(definition, self._rows(definition), f"SELECT * FROM {_NEW}")
            refuse_found(definition, collected(self._session.sql(sql)))

    def _rows(self, definition: TableDefinition) -> str:
        """Bind committed and pending rows of a table; return the query of both."""
        name, visible = definition.name, self._engine.visible
        _, faces = self._engine.faces_at(self._session, self._store, visible=visible)
        faces.frame(name, Version.AFTER).createOrReplaceTempView(_COMMITTED)
        start = visible.manifest.offsets.get(name) or 0
        parts = [f"SELECT * FROM {_COMMITTED}"]
        batches = self._engine.pending.after(name, int(start))
        if batches:
            schema = self._store.struct(definition.shape.stored)
            paths = [f"file://{batch.path}" for batch in batches]
            waiting = self._session.read.schema(schema).parquet(*paths)
            waiting.createOrReplaceTempView(_PENDING)
            parts.append(f"SELECT * FROM {_PENDING}")
        return " UNION ALL ".join(parts)


def _comparable(definition: TableDefinition) -> Iterable[str]:
    """Yield the columns that a join can compare; maps can only be grouped by."""
    for name, kind, _ in definition.columns:
        if "map" not in kind.lower():
            yield quote(name)


def collected(frame: DataFrame) -> pa.Table:
    """Run a frame and return its rows; raise if Arrow cannot carry them."""
    found = collect(frame)
    if found is None:
        kinds = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in frame.schema.fields)
        raise NotSupported(f"rows of these types here: {kinds}", "read them from a source")
    return found
