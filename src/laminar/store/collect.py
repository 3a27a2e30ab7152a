"""Results through Arrow into the driver, where Arrow can carry them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
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


def collect(df: DataFrame) -> pa.Table | None:
    """Run a frame and return its rows; None, before anything ran, if Arrow cannot carry them."""
    return relaxed(df).toArrow() if carried(df.schema) else None


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
