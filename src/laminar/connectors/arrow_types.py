"""The Arrow type of each Spark type, for readers that work without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa

from laminar.model.schema import Field, Schema
from laminar.model.types import split_column, split_top_level

INSTANT = pa.timestamp("us", tz="UTC")
WALL_CLOCK = pa.timestamp("us")

_PLAIN: dict[str, pa.DataType] = {
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "double": pa.float64(),
    "float": pa.float32(),
    "int": pa.int32(),
    "smallint": pa.int16(),
    "string": pa.string(),
    "timestamp": INSTANT,
    "timestamp_ntz": WALL_CLOCK,
    "tinyint": pa.int8(),
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)$")
_GENERIC = re.compile(r"(array|map|struct)<(.*)>$", re.DOTALL)


def arrow_type(text: str) -> pa.DataType | None:
    """Return the Arrow type of a type in Spark's spelling; None if it has none here."""
    if text in _PLAIN:
        return _PLAIN[text]
    decimal = _DECIMAL.match(text)
    if decimal is not None:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    generic = _GENERIC.match(text)
    if generic is None:
        return None
    kind, inside = generic.groups()
    if kind == "struct":
        return _struct(inside)
    parts = [arrow_type(part) for part in split_top_level(inside)]
    if any(part is None for part in parts):
        return None
    return pa.list_(parts[0]) if kind == "array" else pa.map_(*parts)


def arrow_schema(schema: Schema) -> pa.Schema | None:
    """Return the Arrow schema of a relation; None if one of its types has none.

    Columns may all be NULL in it: files do not promise otherwise, readers check.
    """
    columns = [(field.name, arrow_type(field.type)) for field in schema]
    if any(kind is None for _, kind in columns):
        return None
    return pa.schema(columns)


def leaf_types(kind: pa.DataType) -> Iterator[pa.DataType]:
    """Yield the type itself, or those at the ends of a nested one."""
    if pa.types.is_nested(kind):
        for index in range(kind.num_fields):
            yield from leaf_types(kind.field(index).type)
    else:
        yield kind


def null_where_forbidden(table: pa.Table, schema: Schema) -> Field | None:
    """Return the first NOT NULL column that holds a NULL."""
    return next(
        (field for field in schema if not field.nullable and table[field.name].null_count), None
    )


def _struct(inside: str) -> pa.DataType | None:
    if not inside.strip():
        return None
    fields = []
    for part in split_top_level(inside):
        name, text, _ = split_column(part)
        kind = arrow_type(text)
        if kind is None:
            return None
        fields.append(pa.field(name, kind))
    return pa.struct(fields)
