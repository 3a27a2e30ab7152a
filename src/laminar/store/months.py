"""Intervals of months, which neither Arrow nor PySpark carries: on the way they are numbers.

A file keeps how many months one is, and Spark reads that back, inside of other types too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as t

from laminar.model.quoting import backquoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MONTH = t.YearMonthIntervalType(t.YearMonthIntervalType.MONTH)
"""The one such type that Spark casts from whole numbers and to them."""


def has_months(kind: t.DataType) -> bool:
    """Say whether a type is an interval of months, or has one inside."""
    return instead_of_months(kind, t.IntegerType()) != kind


def instead_of_months(kind: t.DataType, other: t.DataType) -> t.DataType:
    """Return a type with another one in the place of each interval of months."""
    match kind:
        case t.StructType():
            return t.StructType(
                [
                    t.StructField(f.name, instead_of_months(f.dataType, other), f.nullable)
                    for f in kind.fields
                ]
            )
        case t.ArrayType():
            return t.ArrayType(instead_of_months(kind.elementType, other), kind.containsNull)
        case t.MapType():
            key, value = (instead_of_months(each, other) for each in (kind.keyType, kind.valueType))
            return t.MapType(key, value, kind.valueContainsNull)
    return other if isinstance(kind, t.YearMonthIntervalType) else kind


def as_numbers(df: DataFrame) -> DataFrame:
    """Return the frame with so many months for each interval of them."""
    return _cast(df, {f.name: f.dataType for f in df.schema.fields}, t.IntegerType())


def from_numbers(df: DataFrame, schema: t.StructType) -> DataFrame:
    """Return the intervals that a schema declares, of which the frame has the numbers of months."""
    kinds = {field.name: field.dataType for field in schema.fields}
    return _cast(df, kinds, None)


def _cast(df: DataFrame, kinds: dict[str, t.DataType], to: t.DataType | None) -> DataFrame:
    casts = {
        name: df[backquoted(name)]
        .cast(instead_of_months(kind, _MONTH))
        .cast(kind if to is None else instead_of_months(kind, to))
        for name, kind in kinds.items()
        if has_months(kind)
    }
    return df.withColumns(casts) if casts else df
