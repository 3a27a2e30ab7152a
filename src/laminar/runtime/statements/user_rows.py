"""Rows that users hand in, as an Arrow table of exactly the declared types.

Law: every value arrives as it was given (see `exact_values`), or nothing arrives at all.

Columns are converted at once where that is known to be exact; only a column for which it is not
is looked at value by value, which also finds the row to blame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from laminar.errors.data import DataError, RowDoesNotMatch
from laminar.errors.sql import UnknownColumn
from laminar.runtime.statements.exact_values import Misfit, exact, named, splits_a_year
from laminar.store.variants import VARIANT

_NOTHING = type(None)
_NONE: Mapping[str, Any] = {}
_ARROW_FAILS = (pa.ArrowException, TypeError, ValueError, OverflowError)

_YEAR_1, _YEAR_10000 = -62135596800000000, 253402300800000000  # in microseconds from 1970

_AT_ONCE: tuple[tuple[Callable[[pa.DataType], bool], frozenset[type]], ...] = (
    (pa.types.is_boolean, frozenset({bool, _NOTHING})),
    (pa.types.is_integer, frozenset({int, _NOTHING})),
    (pa.types.is_float64, frozenset({float, int, _NOTHING})),
    (pa.types.is_decimal, frozenset({Decimal, int, _NOTHING})),
    (pa.types.is_string, frozenset({str, _NOTHING})),
    (pa.types.is_binary, frozenset({bytes, _NOTHING})),
    (pa.types.is_date32, frozenset({date, _NOTHING})),
    (
        lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None,
        frozenset({datetime, _NOTHING}),
    ),
)
"""Kind of type -> the Python types of which Arrow takes every value exactly, or raises."""

_SPELLED = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
    VARIANT: "VARIANT",
}


def to_arrow(
    rows: Any,
    schema: pa.Schema,
    relation: str,
    missing: Mapping[str, Any] = _NONE,
    generated: frozenset[str] = frozenset(),
) -> pa.Table:
    """Return rows as a table of that schema.

    Rows are dicts, tuples, namedtuples or Spark Rows in a list or any other iterable, or a pandas
    or Spark DataFrame, or an Arrow table or batch. Names ignore case; a column that is not given
    is what it is if `missing`, else NULL. Tuples may leave out columns that are `generated`.

    Raises:
        UnknownColumn: a column is given that the relation does not have.
        RowDoesNotMatch: a row has another width, or a value that its column cannot hold.
        DataError: these are no rows.
    """
    columns, count = _columns(rows, schema, relation, missing, generated)
    arrays = []
    for field in schema:
        column = columns.get(field.name)
        if column is None and field.name in missing:
            column = [missing[field.name]] * count
        array = pa.nulls(count, field.type) if column is None else _array(column, field, relation)
        if array.null_count and not field.nullable:
            row = pc.index(pc.is_null(array), True).as_py() + 1
            raise RowDoesNotMatch(relation, row, field.name, reason="it is NULL and must not be")
        arrays.append(array)
    return pa.Table.from_arrays(arrays, schema=schema)


def refuse_split_years(table: pa.Table, kinds: Mapping[str, str], relation: str) -> None:
    """Refuse intervals in years (columns and their types) with months that make no whole one."""
    for name, kind in kinds.items():
        if "interval year" not in kind:
            continue
        for place, value in enumerate(table.column(name).to_pylist()):
            if splits_a_year(value, kind):
                reason = "its months make no whole year"
                raise RowDoesNotMatch(relation, place + 1, name, value, kind.upper(), reason=reason)


def _columns(
    rows: Any,
    schema: pa.Schema,
    relation: str,
    missing: Mapping[str, Any],
    generated: frozenset[str],
) -> tuple[dict[str, Any], int]:
    """Return the given columns by name, as lists or as Arrow arrays, and the number of rows."""
    table = rows.toArrow() if hasattr(rows, "toArrow") else rows
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if isinstance(table, pa.Table):
        targets = _targets(table.column_names, schema, relation, 1)
        return dict(zip(targets, table.columns, strict=True)), table.num_rows
    if isinstance(table, pd.DataFrame):
        targets = _targets(list(table.columns), schema, relation, 1)
        series = (table.iloc[:, place] for place in range(len(targets)))
        found = zip(targets, series, strict=True)
        return {name: _of_series(each, schema.field(name)) for name, each in found}, len(table)
    listed = _listed(rows)
    kinds = set(map(type, listed))
    if any(issubclass(kind, tuple) and kind is not tuple for kind in kinds):
        listed = [named(row) for row in listed]
        kinds = set(map(type, listed))
    if all(issubclass(kind, tuple | list) for kind in kinds):
        plain = [field for field in schema if field.name not in generated]
        is_plain = listed and all(len(row) == len(plain) for row in listed)
        return _of_tuples(listed, pa.schema(plain) if is_plain else schema, relation), len(listed)
    dicts = _all_dicts(listed, schema, relation)
    return _of_dicts(dicts, schema, relation, missing), len(listed)


def _listed(rows: Any) -> list[Any]:
    if isinstance(rows, Mapping | str | bytes) or not isinstance(rows, Iterable):
        raise DataError(
            f"cannot read rows from a {type(rows).__name__}",
            hint="give a list of dicts or tuples, a pandas DataFrame or an Arrow table",
        )
    return list(rows)


def _of_tuples(rows: list[Any], schema: pa.Schema, relation: str, first: int = 1) -> dict[str, Any]:
    if set(map(len, rows)) - {len(schema)}:
        place, row = next((at, row) for at, row in enumerate(rows) if len(row) != len(schema))
        raise RowDoesNotMatch(
            relation,
            place + first,
            reason=f"it has {len(row)} values for {len(schema)} columns",
            hint=f"give every one of {', '.join(schema.names)}, or dicts",
        )
    return dict(zip(schema.names, map(list, zip(*rows, strict=True)), strict=False))


def _all_dicts(rows: list[Any], schema: pa.Schema, relation: str) -> list[Mapping[str, Any]]:
    """Return rows of which some may be tuples as dicts; they stay as they are if all are dicts."""
    if all(isinstance(row, Mapping) for row in rows):
        return rows
    found: list[Mapping[str, Any]] = []
    for place, row in enumerate(rows):
        if isinstance(row, tuple | list):
            columns = _of_tuples([row], schema, relation, place + 1)
            found.append({name: values[0] for name, values in columns.items()})
        elif isinstance(row, Mapping):
            found.append(row)
        else:
            reason = f"a row is a dict or a tuple, not a {type(row).__name__}"
            raise RowDoesNotMatch(relation, place + 1, reason=reason)
    return found


def _of_dicts(
    rows: list[Mapping[str, Any]], schema: pa.Schema, relation: str, missing: Mapping[str, Any]
) -> dict[str, Any]:
    shapes: dict[tuple[str, ...], dict[str, str]] = {}
    of_row = []
    for place, row in enumerate(rows):
        shape = tuple(row)
        if shape not in shapes:
            targets = _targets(shape, schema, relation, place + 1)
            shapes[shape] = dict(zip(targets, shape, strict=True))
        of_row.append(shapes[shape])
    if len(shapes) == 1:
        (keys,) = shapes.values()
        return {name: [row[key] for row in rows] for name, key in keys.items()}
    return {
        name: [
            row[keys[name]] if name in keys else missing.get(name)
            for row, keys in zip(rows, of_row, strict=True)
        ]
        for name in {name: None for keys in shapes.values() for name in keys}
    }


def _targets(given: Sequence[Any], schema: pa.Schema, relation: str, row: int) -> list[str]:
    """Return the column of the relation that each given name means."""
    known = {name.casefold(): name for name in schema.names}
    found: list[str] = []
    for name in given:
        target = known.get(name.casefold()) if isinstance(name, str) else None
        if target is None:
            raise UnknownColumn(str(name), schema.names)
        if target in found:
            raise RowDoesNotMatch(relation, row, target, reason="it is given twice")
        found.append(target)
    return found


def _of_series(series: pd.Series[Any], field: pa.Field) -> Any:
    """Return a pandas column; its NaN is NULL, except where a column of floats can hold it."""
    holds_nan = pa.types.is_floating(field.type)
    if series.dtype == object:
        values = series.tolist()
        return values if holds_nan else [None if _is_nan(value) else value for value in values]
    if series.dtype.kind == "f" and isinstance(series.dtype, np.dtype):
        return pa.array(series.to_numpy(), from_pandas=not holds_nan)
    return pa.array(series, from_pandas=True)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value


def _array(column: Any, field: pa.Field, relation: str) -> Any:
    """Return a column in the declared type; at once if that is exact, else value by value."""
    if isinstance(column, pa.Array | pa.ChunkedArray):
        array = _cast(column, field.type)
        return _one_by_one(column.to_pylist(), field, relation) if array is None else array
    array = _at_once(column, field.type)
    return _one_by_one(column, field, relation) if array is None else array


def _at_once(values: list[Any], kind: pa.DataType) -> pa.Array | None:
    found = set(map(type, values))
    if not any(applies(kind) and found <= types for applies, types in _AT_ONCE):
        return None
    try:
        array = pa.array(values, type=kind)
    except _ARROW_FAILS:
        return None
    return None if _is_out_of_calendar(array) else array


def _is_out_of_calendar(array: pa.Array) -> bool:
    """Whether a time lies outside the years 1 to 9999, where its zone may have moved it."""
    if not pa.types.is_timestamp(array.type):
        return False
    least, most = pc.min_max(array.cast(pa.int64())).as_py().values()
    return least is not None and (least < _YEAR_1 or most >= _YEAR_10000)


def _one_by_one(values: list[Any], field: pa.Field, relation: str) -> pa.Array:
    found = []
    for place, value in enumerate(values):
        try:
            found.append(exact(value, field.type))
        except Misfit as misfit:
            expected = _SPELLED.get(field.type, str(field.type).upper())
            raise RowDoesNotMatch(
                relation, place + 1, field.name, value, expected, reason=str(misfit)
            ) from None
    return pa.array(found, type=field.type)


def _cast(column: Any, kind: pa.DataType) -> Any:
    """Return an Arrow column in another type, if Arrow is known to do that exactly."""
    source = column.type
    if source == kind:
        return column
    if pa.types.is_dictionary(source):
        return _cast(column.cast(source.value_type), kind)
    if not _casts_exactly(source, kind):
        return None
    try:
        return column.cast(kind)
    except _ARROW_FAILS:
        return None


def _casts_exactly(source: pa.DataType, kind: pa.DataType) -> bool:
    if pa.types.is_null(source):
        return True
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(kind):
        # With a zone into a column without one: which clock is meant is not known.
        return source.tz is None or kind.tz is not None
    return any(before(source) and after(kind) for before, after in _EXACT_CASTS)


_EXACT_CASTS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], bool]], ...] = (
    (pa.types.is_integer, pa.types.is_integer),
    (pa.types.is_integer, pa.types.is_floating),
    (pa.types.is_integer, pa.types.is_decimal),
    (pa.types.is_floating, pa.types.is_integer),
    (pa.types.is_floating, pa.types.is_float64),
    (pa.types.is_decimal, pa.types.is_decimal),
    (pa.types.is_large_string, pa.types.is_string),
    (pa.types.is_string, pa.types.is_large_string),
    (pa.types.is_large_binary, pa.types.is_binary),
    (pa.types.is_binary, pa.types.is_large_binary),
    (pa.types.is_date, pa.types.is_date),
)
"""Pairs of types between which Arrow's checked cast keeps every value, or raises."""
