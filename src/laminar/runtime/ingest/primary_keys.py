"""Primary keys: at most one row per key, and for sources the newest one.

A table refuses a second row with a key. A source replaces the old row: with K the keys that a
batch brings, N the last row of the batch for each of them unless that one is taken back, and S the
rows so far,

    delta = N - (S where key in K)

The batch's order decides which row is the last; all work on rows is Spark's.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from laminar.bridge.prefix import keys_of
from laminar.delta.change import columns, quote, same_rows
from laminar.errors import DuplicateKey, NotSupported
from laminar.model.same_row import collation_of
from laminar.model.trace import ARRIVAL, WEIGHT
from laminar.runtime.catalog.definitions import TableDefinition

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


def replacement(
    definition: TableDefinition, current: str, new: str, named: str | None = None
) -> str:
    """Return the delta of an upsert.

    Args:
        definition: the table.
        current: a query for its weighted rows.
        new: a query for one row per key, numbered.
        named: a query for rows with all keys that are named; those of `new` if it is not given.
    """
    listed = columns(definition.shape.columns)
    keys = f"SELECT {columns(definition.primary_key)} FROM ({named or new})"
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


def _duplicate(definition: TableDefinition, found: pa.Table) -> DuplicateKey:
    keys = list(definition.primary_key)
    rows = found.select(keys).slice(0, 3).to_pylist()
    return DuplicateKey(definition.name, keys, [tuple(row.values()) for row in rows])


def refuse_found(definition: TableDefinition, found: pa.Table) -> None:
    """Raise if the query of `clashes` found a key."""
    if found.num_rows:
        raise _duplicate(definition, found)
