"""Results through Arrow into the driver, where Arrow can carry them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions
from pyspark.sql import types as t

from laminar.model.quoting import backquoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CARRIED = (
    t.BinaryType,
    t.BooleanType,
    t.ByteType,
    t.DateType,
    t.DayTimeIntervalType,
    t.DecimalType,
    t.DoubleType,
    t.FloatType,
    t.IntegerType,
    t.LongType,
    t.NullType,
    t.ShortType,
    t.StringType,
    t.TimestampNTZType,
    t.TimestampType,
    *(kind for kind in (getattr(t, "TimeType", None),) if kind is not None),  # from Spark 4.1
)
"""What Arrow has a type for, and Spark reads back from the Parquet that Arrow writes.

Not so year-month intervals, which Arrow lacks, and variants, of which PySpark cannot collect NULL.
"""


VARIANT = pa.struct(
    [pa.field("value", pa.binary(), nullable=False), pa.field("metadata", pa.binary(), False)]
)
"""A variant in Arrow: its two parts. No other column has this type: fields may be NULL there."""


def carried(kind: t.DataType) -> bool:
    """Say whether Arrow can carry every value of a type."""
    match kind:
        case t.StructType():
            return all(carried(field.dataType) for field in kind.fields)
        case t.ArrayType():
            return carried(kind.elementType)
        case t.MapType():
            return carried(kind.keyType) and carried(kind.valueType)
    return isinstance(kind, _CARRIED)


def storable(kind: t.DataType) -> bool:
    """Say whether a file can keep every value of a type."""
    match kind:
        case t.StructType():
            names = [name.lower() for name in kind.names]
            is_plain = bool(names) and len(names) == len(set(names))
            return is_plain and all(storable(field.dataType) for field in kind.fields)
        case t.ArrayType():
            return storable(kind.elementType)
        case t.MapType():
            return storable(kind.keyType) and storable(kind.valueType)
    return not isinstance(kind, t.CalendarIntervalType)


def collectable(kind: t.DataType) -> bool:
    """Say whether rows with a column of a type can be collected; a variant is one by itself."""
    return carried(kind) or isinstance(kind, t.VariantType)


def collect(df: DataFrame) -> pa.Table | None:
    """Run a frame and return its rows; None, before anything ran, if Arrow cannot carry them."""
    if not all(collectable(field.dataType) for field in df.schema.fields):
        return None
    variants = [f.name for f in df.schema.fields if isinstance(f.dataType, t.VariantType)]
    return _with_variants(df, variants) if variants else relaxed(df).toArrow()


def _with_variants(df: DataFrame, variants: list[str]) -> pa.Table:
    """Return rows with variants, each as its two parts; PySpark collects none that is NULL."""
    flags = {
        f"__null_{place}": df[backquoted(name)].isNull() for place, name in enumerate(variants)
    }
    filled = {
        name: functions.coalesce(df[backquoted(name)], functions.parse_json(functions.lit("null")))
        for name in variants
    }
    found = relaxed(df.withColumns(flags).withColumns(filled)).toArrow()
    for name, flag in zip(variants, flags, strict=True):
        at, column = found.column_names.index(name), found.column(name).combine_chunks()
        parts = [column.field(part.name) for part in VARIANT]
        nulls = found.column(flag).combine_chunks()
        made = pa.StructArray.from_arrays(parts, fields=list(VARIANT), mask=nulls)
        found = found.set_column(at, pa.field(name, VARIANT), made)
    return found.drop_columns(list(flags))


def relaxed(df: DataFrame) -> DataFrame:
    """Return a frame that toArrow can carry.

    A NULL struct whose fields may not be NULL, as an outer join makes, breaks it.
    """
    casts = {
        field.name: df[backquoted(field.name)].cast(kind)
        for field in df.schema.fields
        if (kind := nullable(field.dataType)) != field.dataType
    }
    return df.withColumns(casts) if casts else df


def nullable(kind: t.DataType) -> t.DataType:
    """Return the type with every field of every struct in it allowed to be NULL."""
    match kind:
        case t.StructType():
            return t.StructType(
                [t.StructField(f.name, nullable(f.dataType), True, f.metadata) for f in kind.fields]
            )
        case t.ArrayType():
            return t.ArrayType(nullable(kind.elementType), kind.containsNull)
        case t.MapType():
            return t.MapType(
                nullable(kind.keyType), nullable(kind.valueType), kind.valueContainsNull
            )
    return kind
