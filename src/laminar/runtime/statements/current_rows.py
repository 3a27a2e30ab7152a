"""A table as a change sees it: committed rows and all that is pending.

Whoever asks has the writer's turn: an epoch would move rows from the one to the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import StructType

from laminar.delta.change import Version, bag, columns, consolidate, quote
from laminar.errors import NotSupported, RowNotFound, SqlSyntaxError
from laminar.model.quoting import backquoted
from laminar.model.spark_path import source_uri
from laminar.model.trace import ARRIVAL, WEIGHT
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.ingest.arriving_rows import pending_number
from laminar.runtime.ingest.primary_keys import clashes, refuse_found, replacement
from laminar.runtime.spark.error_translation import SPARK_FAILS, explain_refusal
from laminar.runtime.spark.functions import known_functions
from laminar.runtime.statements.query import Reader, bindings_at
from laminar.store.collect import collect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from laminar.runtime.engine.engine import Engine

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
            # Copies of a row are told apart by their number, so that one of them can be taken back.
            names, current = (*definition.shape.columns, ARRIVAL), self._rows(definition)
            try:
                rows = bag(current, names, positive=False)
                self._session.sql(rows).createOrReplaceTempView(backquoted(definition.name))
                if weighted:
                    distinct = self._session.sql(consolidate(current, names))
                    distinct.createOrReplaceTempView(weighted)
                return collected(self._session.sql(then.format(bound.text)))
            except SPARK_FAILS as error:
                functions = partial(known_functions, self._session)
                raise explain_refusal(error, bound.shapes, functions) from None

    def copies(self, definition: TableDefinition, data: pa.Table) -> pa.Table:
        """Return the copies that a deletion takes: those that came last, with their numbers.

        Raises:
            RowNotFound: rows are not there, or not that often.
        """
        names = definition.shape.columns
        with self._reader.lock:
            self._bind(definition, data, _UNWANTED)
            there = f"SELECT t.* FROM ({self._rows(definition)}) t"
            on = " AND ".join(f"t.{name} <=> u.{name}" for name in _comparable(definition))
            if on:
                there += f" LEFT SEMI JOIN {_UNWANTED} u ON {on}"
            # Rows from before numbers were kept have none; they count as the oldest.
            held = (
                f"SELECT {columns(names)}, {ARRIVAL}, {WEIGHT}, 0L AS __wanted "
                f"FROM ({consolidate(there, (*names, ARRIVAL))})"
            )
            wanted = (
                f"SELECT {columns(names)}, CAST(NULL AS BIGINT) AS {ARRIVAL}, 0L AS {WEIGHT}, "
                f"1L AS __wanted FROM {_UNWANTED}"
            )
            numbers = (
                f"SORT_ARRAY(FLATTEN(COLLECT_LIST(ARRAY_REPEAT(STRUCT({ARRIVAL} AS n), "
                f"CAST(GREATEST({WEIGHT}, 0L) AS INT)))), false)"
            )
            groups = (
                f"SELECT {columns(names)}, {numbers} AS __held, SUM(__wanted) AS __wanted "
                f"FROM ({held} UNION ALL {wanted}) GROUP BY {columns(names)} "
                "HAVING SUM(__wanted) > 0"
            )
            taken = (
                f"SELECT {columns(names)}, __copy.n AS {ARRIVAL} FROM ({groups}) LATERAL VIEW "
                "EXPLODE(SLICE(__held, 1, CAST(__wanted AS INT))) copies AS __copy"
            )
            found = collected(self._session.sql(taken))
            if found.num_rows == data.num_rows:
                return found
            missing = self._session.sql(
                f"SELECT {columns(names)} FROM ({groups}) WHERE SIZE(__held) < __wanted LIMIT 3"
            )
            rows = [row.asDict() for row in missing.collect()]
        raise RowNotFound(definition.name, rows)

    def replacing(self, definition: TableDefinition, data: pa.Table) -> pa.Table:
        """Return the delta by which new rows, one per key, take the place of old ones."""
        with self._reader.lock:
            self._bind(definition, data, _NEW)
            new = f"SELECT *, CAST(NULL AS BIGINT) AS {ARRIVAL} FROM {_NEW}"
            sql = replacement(definition, self._rows(definition), new)
            return collected(self._session.sql(sql))

    def refuse_clash(self, definition: TableDefinition, delta: pa.Table) -> None:
        """Refuse a weighted change after which a key would have two rows."""
        if not definition.primary_key or not delta.num_rows:
            return
        with self._reader.lock:
            self._bind(definition, delta, _NEW)
            sql = clashes(definition, self._rows(definition), f"SELECT * FROM {_NEW}")
            refuse_found(definition, collected(self._session.sql(sql)))

    def _bind(self, definition: TableDefinition, data: pa.Table, name: str) -> None:
        """Let rows of a table be read under a name, in exactly the types that it declares.

        Left to guess, Spark takes times without a zone for instants, and a collated text for one
        that is not.
        """
        declared = self._store.struct(definition.shape.numbered)
        schema = StructType([declared[column] for column in data.column_names])
        self._session.createDataFrame(data, schema).createOrReplaceTempView(name)

    def _rows(self, definition: TableDefinition) -> str:
        """Bind committed and pending rows of a table; return the query of both."""
        name, snapshot = definition.name, self._engine.snapshot()
        _, bindings = bindings_at(self._engine, self._session, self._store, snapshot=snapshot)
        bindings.frame(name, Version.AFTER).createOrReplaceTempView(_COMMITTED)
        start = snapshot.manifest.offsets.get(name) or 0
        listed = f"{columns(definition.shape.columns)}, {ARRIVAL}, {WEIGHT}"
        parts = [f"SELECT {listed} FROM {_COMMITTED}"]
        batches = self._engine.ledger.pending.after(name, int(start))
        if batches:
            self._engine.ledger.pending.verify(batches)  # Spark would not notice a changed footer
            schema = self._store.struct(definition.shape.numbered)
            paths = [source_uri(batch.path) for batch in batches]
            waiting = self._session.read.schema(schema).parquet(*paths)
            names = [quote(each) for each in definition.shape.columns]
            waiting = waiting.selectExpr(*names, f"{pending_number()} AS {ARRIVAL}", WEIGHT)
            waiting.createOrReplaceTempView(_PENDING)
            parts.append(f"SELECT {listed} FROM {_PENDING}")
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
