"""Variants through Arrow, wherever they are in a type: PySpark collects none that is NULL.

So each NULL is filled in, and beside the column comes another one of its form that says where they
were. In Arrow a variant is a struct of its two parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions
from pyspark.sql import types as t

from laminar.model.quoting import backquoted, string_literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VARIANT = pa.struct(
    [pa.field("value", pa.binary(), nullable=False), pa.field("metadata", pa.binary(), False)]
)
"""A variant in Arrow: its two parts. No other column has this type: fields may be NULL there."""


def has_variants(kind: t.DataType) -> bool:
    """Say whether a type is a variant, or has one inside."""
    match kind:
        case t.StructType():
            return any(has_variants(field.dataType) for field in kind.fields)
        case t.ArrayType():
            return has_variants(kind.elementType)
        case t.MapType():
            return has_variants(kind.valueType)
    return isinstance(kind, t.VariantType)


def with_places(df: DataFrame, names: list[str]) -> DataFrame:
    """Return a frame without NULL variants in some columns, and with columns that say where."""
    kinds = {name: df.schema[name].dataType for name in names}
    filled = {name: functions.expr(_filled(backquoted(name), kind)) for name, kind in kinds.items()}
    places = {
        place_of(at): functions.expr(_places(backquoted(name), kind))
        for at, (name, kind) in enumerate(kinds.items())
    }
    return df.withColumns({**places, **filled})


def place_of(at: int) -> str:
    """Name the column that says where in a column NULL was."""
    return f"__null_{at}"


def _filled(value: str, kind: t.DataType, depth: int = 0) -> str:
    """Render a value with a variant in the place of each NULL, also of one in a NULL struct."""
    each = f"__v{depth}"
    match kind:
        case t.StructType() if has_variants(kind):
            fields = ", ".join(
                f"{string_literal(field.name)}, {_filled(part, field.dataType, depth)}"
                for field, part in _fields(value, kind)
            )
            return f"NAMED_STRUCT({fields})"
        case t.ArrayType() if has_variants(kind):
            return f"TRANSFORM({value}, {each} -> {_filled(each, kind.elementType, depth + 1)})"
        case t.MapType() if has_variants(kind):
            inner = _filled(each, kind.valueType, depth + 1)
            return f"TRANSFORM_VALUES({value}, (__k{depth}, {each}) -> {inner})"
        case t.VariantType():
            return f"COALESCE({value}, PARSE_JSON('null'))"
    return value


def _places(value: str, kind: t.DataType, depth: int = 0) -> str:
    """Render what says of a value, and of each one inside that has variants, whether it is NULL."""
    each = f"__v{depth}"
    match kind:
        case t.StructType() if has_variants(kind):
            fields = ", ".join(  # by place, for fields may have any name
                f"'f{at}', {_places(part, field.dataType, depth)}"
                for at, (field, part) in enumerate(_fields(value, kind))
            )
            return f"NAMED_STRUCT('n', {value} IS NULL, {fields})"
        case t.ArrayType() if has_variants(kind):
            return f"TRANSFORM({value}, {each} -> {_places(each, kind.elementType, depth + 1)})"
        case t.MapType() if has_variants(kind):
            inner = _places(each, kind.valueType, depth + 1)
            return f"TRANSFORM(MAP_VALUES({value}), {each} -> {inner})"
    return f"({value} IS NULL)"


def _fields(value: str, kind: t.StructType) -> list[tuple[t.StructField, str]]:
    return [(field, f"{value}.{backquoted(field.name)}") for field in kind.fields]


def with_nulls(found: pa.Array, places: pa.Array, kind: t.DataType) -> pa.Array:
    """Return an array as it was before NULL was filled in."""
    match kind:
        case t.StructType() if has_variants(kind):
            nulls, *flags = places.flatten()
            kinds = [field.dataType for field in kind.fields]
            parts = list(map(with_nulls, found.flatten(), flags, kinds))
            fields = [pa.field(*each) for each in zip(kind.names, _types(parts), strict=True)]
            return pa.StructArray.from_arrays(parts, fields=fields, mask=nulls)
        case t.ArrayType() if has_variants(kind):
            inner = with_nulls(found.flatten(), places.flatten(), kind.elementType)
            return pa.ListArray.from_arrays(_offsets(found), inner, mask=found.is_null())
        case t.MapType() if has_variants(kind):
            entries = found.cast(pa.list_(pa.struct(list(found.type.field(0).type))))
            keys, values = entries.flatten().flatten()
            inner = with_nulls(values, places.flatten(), kind.valueType)
            offsets, nulls = _offsets(entries), found.is_null()
            return pa.MapArray.from_arrays(offsets, keys, inner, mask=nulls)
        case t.VariantType():
            return pa.StructArray.from_arrays(found.flatten(), fields=list(VARIANT), mask=places)
    return found


def _types(arrays: list[pa.Array]) -> list[pa.DataType]:
    return [each.type for each in arrays]


def _offsets(lists: pa.Array) -> pa.Array:
    """Return where each list begins among the elements of all."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0)
    ends = pc.cumulative_sum(lengths.cast(pa.int64())).cast(pa.int32())
    return pa.concat_arrays([pa.array([0], pa.int32()), ends])
