"""The rows of a table that a change is about: those it finds, takes, replaces or clashes with.

Whoever asks has the writer's turn: an epoch would move rows from the one to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import IntegerType, StructType

from laminar.delta.change import bag, columns, consolidate, quote
from laminar.delta.taken_back import comparable
from laminar.errors import NotSupported, RowNotFound, SqlSyntaxError
from laminar.model.quoting import backquoted
from laminar.model.same_row import sought
from laminar.model.trace import ARRIVAL, WEIGHT
from laminar.runtime.catalog.column_rules import completed, default_values
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.ingest.primary_keys import clashes, refuse_found, replacement
from laminar.runtime.spark.error_translation import SPARK_FAILS, explain_refusal
from laminar.runtime.spark.session_functions import known_functions
from laminar.runtime.statements.query import Reader, bindings_at
from laminar.store.char_notes import as_chars
from laminar.store.collect import collect
from laminar.store.months import from_numbers, instead_of_months

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from laminar.runtime.engine.engine import Engine

_UNWANTED, _NEW = "__unwanted_rows", "__new_rows"


class CurrentRows:
    """Asks about the rows that a table has now."""

    def __init__(self, engine: Engine, reader: Reader) -> None:
        self._engine = engine
        self._reader = reader
        self._session = reader.session
        self._store = reader.store

    def named(self, query: str, *own: str) -> list[str]:
        """Return the relations that such a query names, apart from names of our own."""
        with _in_own_text():
            return self._reader.named(query, own)

    def run(
        self,
        definition: TableDefinition,
        query: str,
        then: Callable[[str], str] = str,
        weighted: str = "",
    ) -> pa.Table:
        """Run a query in which the table's name stands for its rows with all that is pending.

        Args:
            definition: the table.
            query: reads the table under its own name.
            then: what the query is put into, once its names are known.
            weighted: a name for the table's distinct rows with their weights.
        """
        with self._reader.lock:
            with _in_own_text():
                skip = (definition.name, weighted)
                bound = self._reader.bind(query, skip=skip, current=True)
            # Copies of a row are told apart by their number, so that one of them can be taken back.
            row, current = definition.shape.row.plus(ARRIVAL, "bigint"), self._rows(definition)
            try:
                chars = definition.shape.chars
                rows = as_chars(self._session.sql(bag(current, row, positive=False)), chars)
                rows.createOrReplaceTempView(backquoted(definition.name))
                if weighted:
                    distinct = as_chars(self._session.sql(consolidate(current, row)), chars)
                    distinct.createOrReplaceTempView(weighted)
                return collected(self._session.sql(then(bound.text)))
            except SPARK_FAILS as error:
                functions = partial(known_functions, self._session)
                raise explain_refusal(error, bound.shapes, functions) from None

    def completed(self, definition: TableDefinition, given: DataFrame | pa.Table) -> pa.Table:
        """Return new rows with their generated columns, and which rule each breaks."""
        with self._reader.lock:
            if isinstance(given, pa.Table):
                self._bind(definition, given, _NEW)
            else:
                given.createOrReplaceTempView(_NEW)
            try:
                rows = f"SELECT *, 1L AS {WEIGHT} FROM {_NEW}"
                found = self._session.sql(completed(definition, rows))
                return collected(found.drop(WEIGHT))
            except SPARK_FAILS as error:
                raise explain_refusal(error, {}) from None

    def defaults(self, definition: TableDefinition) -> dict[str, Any]:
        """Return what columns have in rows that do not give them."""
        if not definition.defaults:
            return {}
        with self._reader.lock:
            try:
                found = collected(self._session.sql(default_values(definition)))
            except SPARK_FAILS as error:
                raise explain_refusal(error, {}) from None
        return dict(found.to_pylist()[0])

    def copies(self, definition: TableDefinition, data: pa.Table) -> pa.Table:
        """Return the copies that a deletion takes: those that came last, with their numbers.

        Raises:
            RowNotFound: rows are not there, or not that often.
        """
        listed = columns(definition.shape.columns)
        with self._reader.lock:
            self._bind(definition, data, _UNWANTED)
            there = f"SELECT t.* FROM ({self._rows(definition)}) t"
            on = " AND ".join(
                f"t.{name} <=> u.{name}"
                for name in comparable((c[0], c[1]) for c in definition.columns)
            )
            if on:
                there += f" LEFT SEMI JOIN {_UNWANTED} u ON {on}"
            both = _paired(definition, there)
            taken = f"SELECT {listed}, {ARRIVAL} FROM ({both}) WHERE __wanted = 0"
            found = collected(self._session.sql(f"{taken} AND __place <= __asked"))
            if found.num_rows == data.num_rows:
                return found
            missing = self._session.sql(
                f"SELECT {listed} FROM ({both}) "
                "WHERE __wanted = 1 AND __place = 1 AND __there < __asked LIMIT 3"
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
        plain = instead_of_months(schema, IntegerType())
        assert isinstance(plain, StructType)
        frame = from_numbers(self._session.createDataFrame(data, plain), schema)
        frame.createOrReplaceTempView(name)

    def _rows(self, definition: TableDefinition) -> str:
        """Bind committed and pending rows of a table; return the query of both."""
        name, snapshot = definition.name, self._engine.snapshot()
        _, bindings = bindings_at(self._engine, self._session, self._store, snapshot=snapshot)
        return self._reader.tables.weighted(name, bindings, snapshot)


@contextmanager
def _in_own_text() -> Iterator[None]:
    """Forget the place of a syntax error: it is one in our own text, not in the user's."""
    try:
        yield
    except SqlSyntaxError as error:
        raise SqlSyntaxError(error.message, hint=error.hint) from None


def _paired(definition: TableDefinition, there: str) -> str:
    """Return copies of rows that are there beside those that are wanted (`__wanted` is 1).

    Of copies that are the same, `__there` says how many there are, `__asked` how many are wanted,
    and `__place` numbers each kind, what came last first. Rows from before numbers were kept have
    none; they count as the oldest.
    """
    row = definition.shape.row
    listed = columns(row.names)
    held = bag(there, row.plus(ARRIVAL, "bigint"), positive=False)
    wanted = f"SELECT {listed}, CAST(NULL AS BIGINT) AS {ARRIVAL}, 1 AS __wanted FROM {_UNWANTED}"
    both = f"SELECT {listed}, {ARRIVAL}, 0 AS __wanted FROM ({held}) UNION ALL {wanted}"
    pairs = zip(map(quote, row.names), row.kinds, strict=True)
    same = ", ".join(each for name, kind in pairs for each in sought(name, kind).by)
    return (
        f"SELECT *, SUM(__wanted) OVER (PARTITION BY {same}) AS __asked, "
        f"SUM(1 - __wanted) OVER (PARTITION BY {same}) AS __there, "
        f"ROW_NUMBER() OVER (PARTITION BY {same}, __wanted ORDER BY {ARRIVAL} DESC) AS __place "
        f"FROM ({both})"
    )


def collected(frame: DataFrame) -> pa.Table:
    """Run a frame and return its rows; raise if Arrow cannot carry them."""
    found = collect(frame)
    if found is None:
        kinds = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in frame.schema.fields)
        raise NotSupported(f"rows of these types here: {kinds}", "read them from a source")
    return found
