"""Results through Arrow into the driver, where Arrow can carry them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as t

from laminar.model.quoting import backquoted
from laminar.store.months import as_numbers
from laminar.store.variants import has_variants, place_of, with_nulls, with_places

if TYPE_CHECKING:
    import pyarrow as pa
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


def collectable(kind: t.DataType) -> bool:
    """Say whether rows with a column of a type can be collected, in one form or another."""
    match kind:
        case t.StructType():
            return all(collectable(field.dataType) for field in kind.fields)
        case t.ArrayType():
            return collectable(kind.elementType)
        case t.MapType():
            return collectable(kind.keyType) and collectable(kind.valueType)
    return isinstance(kind, (*_CARRIED, t.VariantType, t.YearMonthIntervalType))


def collect(df: DataFrame) -> pa.Table | None:
    """Run a frame and return its rows; None, before anything ran, if Arrow cannot carry them.

    A variant is a struct of its parts, an interval of months a number of them.
    """
    if not all(collectable(field.dataType) for field in df.schema.fields):
        return None
    variants = [f.name for f in df.schema.fields if has_variants(f.dataType)]
    plain = as_numbers(df)
    return _with_variants(plain, variants) if variants else relaxed(plain).toArrow()


def _with_variants(df: DataFrame, variants: list[str]) -> pa.Table:
    """Return rows with variants; PySpark collects none that is NULL."""
    found = relaxed(with_places(df, variants)).toArrow()
    places = [place_of(at) for at in range(len(variants))]
    for name, place in zip(variants, places, strict=True):
        column, nulls = (found.column(each).combine_chunks() for each in (name, place))
        made = with_nulls(column, nulls, df.schema[name].dataType)
        found = found.set_column(found.column_names.index(name), name, made)
    return found.drop_columns(places)


def relaxed(df: DataFrame) -> DataFrame:
    """Return a frame that toArrow can carry.

    A NULL struct whose fields may not be NULL, as an outer join makes, breaks it, and so does VOID
    that may not be NULL, as `array_compact(array(null))` has it.
    """
    casts = {
        field.name: df[backquoted(field.name)].cast(kind)
        for field in df.schema.fields
        if (kind := nullable(field.dataType)) != field.dataType
    }
    return df.withColumns(casts) if casts else df


def nullable(kind: t.DataType) -> t.DataType:
    """Return the type with every field of a struct, and all that is VOID, allowed to be NULL."""
    match kind:
        case t.StructType():
            return t.StructType(
                [t.StructField(f.name, nullable(f.dataType), True, f.metadata) for f in kind.fields]
            )
        case t.ArrayType():
            may = kind.containsNull or isinstance(kind.elementType, t.NullType)
            return t.ArrayType(nullable(kind.elementType), may)
        case t.MapType():
            may = kind.valueContainsNull or isinstance(kind.valueType, t.NullType)
            return t.MapType(nullable(kind.keyType), nullable(kind.valueType), may)
    return kind
