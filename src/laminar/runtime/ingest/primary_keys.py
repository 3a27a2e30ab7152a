"""Primary keys: at most one row per key, and for sources the newest one.

A table refuses a second row with a key. A source replaces the old row: with K the keys that a
batch brings, N the last row of the batch for each of them, and S the rows so far,

    delta = N - (S where key in K)

The batch's order decides which row is the last; all work on rows is Spark's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from laminar.bridge.prefix import keys_of
from laminar.delta.change import columns, quote, same_rows
from laminar.errors import DuplicateKey, NotSupported, SourceReadFailed
from laminar.model.same_row import collation_of
from laminar.model.trace import ARRIVAL, WEIGHT, Segment
from laminar.runtime.spark.error_translation import SPARK_FAILS, first_sentence
from laminar.store import SegmentStore, discard

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from laminar.runtime.catalog.definitions import TableDefinition

_PLACE = "__place"
_NO_KEYS = ("array", "map", "struct", "variant", "binary", "interval")


def refuse_unfit_keys(definition: TableDefinition) -> None:
    """Raise if a column of the key has a type whose values are not compared as a whole."""
    for name, kind, _ in definition.columns:
        is_unfit = kind.lower().startswith(_NO_KEYS) or collation_of(kind) is not None
        if name in definition.primary_key and is_unfit:
            hint = "choose columns of numbers, text, dates or times"
            raise NotSupported(f'"{name}" in a primary key, which is {kind.lower()}', hint)


def refuse_twice(definition: TableDefinition, data: pa.Table) -> None:
    """Raise if a batch has a key twice; cheaper than looking at the table, so it comes first."""
    keys = keys_of(data, definition.primary_key)
    counted = keys.group_by(list(definition.primary_key))
    found = counted.aggregate([([], "count_all")])
    twice = found.filter(pc.greater(found.column("count_all"), 1))
    if twice.num_rows:
        raise _duplicate(definition, twice)


def clashes(definition: TableDefinition, current: str, delta: str) -> str:
    """Return a query for keys that have more than one row once a weighted delta is applied."""
    keys = columns(definition.primary_key)
    new = f"SELECT {keys} FROM ({delta}) WHERE {WEIGHT} > 0"
    both = (
        f"{_restricted(definition, current, new, keys)}"
        f" UNION ALL SELECT {keys}, {WEIGHT} FROM ({delta})"
    )
    return (
        f"SELECT {keys} FROM ({both}) GROUP BY {keys} HAVING SUM({WEIGHT}) > 1 ORDER BY {keys}"
        " LIMIT 3"
    )


def replacement(definition: TableDefinition, current: str, new: str) -> str:
    """Return the delta of an upsert; `new` has one row per key, numbered, and no weights."""
    listed = columns(definition.shape.columns)
    keys = f"SELECT {columns(definition.primary_key)} FROM ({new})"
    old = _restricted(definition, current, keys, f"{listed}, {ARRIVAL}")
    rows = (
        f"SELECT {listed}, {ARRIVAL}, 1L AS {WEIGHT} FROM ({new})"
        f" UNION ALL SELECT {listed}, {ARRIVAL}, -{WEIGHT} AS {WEIGHT} FROM ({old})"
    )
    # A row that comes again as it is stays, with the number it has.
    number = (
        f"IF(SUM({WEIGHT}) < 0, MAX(IF({WEIGHT} < 0, {ARRIVAL}, NULL)),"
        f" MAX(IF({WEIGHT} > 0, {ARRIVAL}, NULL)))"
    )
    each = same_rows(definition.shape.row)
    return (
        f"SELECT {each.listed}, {number} AS {ARRIVAL}, SUM({WEIGHT}) AS {WEIGHT} FROM ({rows}) "
        f"GROUP BY {each.by} HAVING SUM({WEIGHT}) <> 0"
    )


def _restricted(definition: TableDefinition, rows: str, keys: str, listed: str) -> str:
    """Return weighted rows whose key is among others."""
    same = " AND ".join(f"__r.{quote(name)} = __k.{quote(name)}" for name in definition.primary_key)
    return (
        f"SELECT {listed}, {WEIGHT} FROM ({rows}) AS __r LEFT SEMI JOIN ({keys}) AS __k ON {same}"
    )


class Upserts:
    """Turns what a keyed source delivered into a delta, when an epoch takes it."""

    def __init__(self, session: SparkSession, store: SegmentStore) -> None:
        self._session = session
        self._store = store

    def resolve(
        self,
        definition: TableDefinition,
        delivered: Segment,
        before: tuple[Segment, ...],
        epoch: int,
    ) -> Segment | None:
        """Store the delta that delivered rows stand for, in the place of the rows themselves.

        Rows that were pushed are a delta already.
        """
        if definition.connector is None or not definition.upserts:
            return delivered
        schema = definition.shape.numbered
        self._store.frame(schema, before).createOrReplaceTempView("__keyed_before")
        self._delivered(definition, delivered, schema).createOrReplaceTempView("__keyed_new")
        sql = replacement(definition, "SELECT * FROM __keyed_before", _newest(definition))
        try:
            return self._store.materialise(
                definition.name,
                epoch,
                self._session.sql(sql),
                delivered.rows * 2,
                tuple(delivered.spans),
            )
        except SPARK_FAILS as error:
            raise SourceReadFailed(definition.name, first_sentence(error)) from error
        finally:
            discard(self._store.root, delivered.files)

    def _delivered(self, definition: TableDefinition, delivered: Segment, schema: str) -> DataFrame:
        """Return the rows with their place: which file of the segment, and which row of it."""
        names = ", ".join(f"'{file.rpartition('/')[2]}'" for file in delivered.files)
        place = f"STRUCT(ARRAY_POSITION(ARRAY({names}), _metadata.file_name) AS f,"
        place += " _metadata.row_index AS r)"
        frame = self._store.frame(schema, (delivered,))
        # Not every connector checks what it delivers, and NULL would be no key at all.
        named = [
            f"COALESCE({quote(name)}, RAISE_ERROR('its key is NULL')) AS {quote(name)}"
            if name in definition.primary_key
            else quote(name)
            for name in definition.shape.columns
        ]
        return frame.selectExpr(*named, ARRIVAL, f"{place} AS {_PLACE}")


def _newest(definition: TableDefinition) -> str:
    row = f"STRUCT({columns(definition.shape.columns)}, {ARRIVAL})"
    keys = columns(definition.primary_key)
    return (
        f"SELECT __row.* FROM (SELECT MAX_BY({row}, {_PLACE}) AS __row FROM __keyed_new"
        f" GROUP BY {keys})"
    )


def _duplicate(definition: TableDefinition, found: pa.Table) -> DuplicateKey:
    keys = list(definition.primary_key)
    rows = found.select(keys).slice(0, 3).to_pylist()
    return DuplicateKey(definition.name, keys, [tuple(row.values()) for row in rows])


def refuse_found(definition: TableDefinition, found: pa.Table) -> None:
    """Raise if the query of `clashes` found a key."""
    if found.num_rows:
        raise _duplicate(definition, found)
