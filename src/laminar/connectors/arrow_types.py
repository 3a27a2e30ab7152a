"""Spark's types and values in Arrow, for readers that work without Spark.

Where the two read the same text differently, it is noticed. Law: what passes `from_text` and
`declared` is, value for value, what Spark's own reader makes of the same text. What does not pass
is left to Spark, whether it is wrong or merely unusual.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from laminar.model.schema import Schema
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
_DECIMAL_TYPE = re.compile(r"decimal\((\d+),(\d+)\)$")
_GENERIC = re.compile(r"(array|map|struct)<(.*)>$", re.DOTALL)

_ZONE = r"(?:Z|[+-](?:0\d|1[0-7]):?[0-5]\d)"
# Arrow alone also takes a zone after minutes, and offsets beyond 18 hours.
_CLOCK = r"^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?" + _ZONE + "?)?$"
# Times of which each digit may be any other; not so in an offset.
_ANY_DIGITS = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?Z?)?"
_DATE = r"^\d{4}-\d\d-\d\d$"
# Arrow alone takes hexadecimal digits, and blanks around them.
_INTEGER = r"^-?\d+$"
_DECIMAL = r"^[+-]?(?:\d+\.?\d*|\.\d+)$"
_BOOLEAN = "^(?:true|false)$"

_SPELLINGS: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_timestamp, _CLOCK),
    (pa.types.is_date, _DATE),
    (pa.types.is_integer, _INTEGER),
    (pa.types.is_decimal, _DECIMAL),
    (pa.types.is_boolean, _BOOLEAN),
)
"""Types, and the texts for them that Spark and Arrow read alike."""
_ZERO, _NINE = b"09"


def arrow_type(text: str) -> pa.DataType | None:
    """Return the Arrow type of a type in Spark's spelling; None if it has none here."""
    if text in _PLAIN:
        return _PLAIN[text]
    decimal = _DECIMAL_TYPE.match(text)
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


# Texts and numbers that both read alike


def is_clock_type(kind: pa.DataType) -> bool:
    """Whether the type is a date or a timestamp."""
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def has_spelling(kind: pa.DataType) -> bool:
    """Whether `from_text` can make values of this type."""
    return any(applies(kind) for applies, _ in _SPELLINGS)


def from_text(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | None:
    """Make texts what they stand for; a time without a zone is UTC. None if Spark must decide."""
    spelling = next(text for applies, text in _SPELLINGS if applies(kind))
    if not _all_spelled(column, spelling):
        return None
    try:
        if kind == INSTANT and not _has_zone(column):
            return column.cast(WALL_CLOCK).cast(INSTANT)
        # A column of which some texts have a zone and some have none is refused by either cast.
        return column.cast(kind)
    except pa.ArrowInvalid:
        return None


def _all_spelled(column: pa.ChunkedArray, spelling: str) -> bool:
    first = next((text.as_py() for text in column if text.is_valid), "")
    usual = re.fullmatch(_ANY_DIGITS, first) and re.fullmatch(spelling, first)
    if usual and all(_look_like(first, each) for each in column.chunks):
        return True
    # None is what there is to say about no texts at all.
    return pc.all(pc.match_substring_regex(column, spelling)).as_py() is not False


def _look_like(first: str, array: pa.Array) -> bool:
    """Whether all texts are the first one with other digits: seen at once, unlike a pattern."""
    letters = np.frombuffer(first.encode(), np.uint8)
    if array.type != pa.string() or array.null_count or len(array) == 0:
        return len(array) == 0
    _, places, texts = array.buffers()
    ends = np.frombuffer(places, np.int32)[array.offset : array.offset + len(array) + 1]
    if not (np.diff(ends) == letters.size).all():
        return False
    grid = np.frombuffer(texts, np.uint8)[ends[0] : ends[-1]].reshape(-1, letters.size)
    low, high = grid.min(axis=0), grid.max(axis=0)
    is_digit = (letters >= _ZERO) & (letters <= _NINE)
    same = (low == letters) & (high == letters)
    return bool((same | (is_digit & (low >= _ZERO) & (high <= _NINE))).all())


def declared(
    table: pa.Table, schema: pa.Schema, as_text: Callable[[pa.DataType], bool]
) -> pa.Table | None:
    """Return the table as declared, where columns of some types were read as text."""
    columns = []
    for field in schema:
        column = table[field.name]
        if as_text(field.type):
            column = from_text(column, field.type)
            if column is None:
                return None
        columns.append(column)
    result = pa.table(columns, schema=schema)
    return result if numbers_are_plain(result) else None


def numbers_are_plain(table: pa.Table) -> bool:
    """Whether all floats are finite and not a negative zero, and all decimals fit their type.

    Spark reads the JSON number `-0` as 0.0, Arrow as -0.0, and they know different words for
    infinity. Arrow lets 123456789 be a DECIMAL(10,2).
    """
    return all(
        _plain(leaf)
        for column in table.columns
        for chunk in column.chunks
        for leaf in _leaves(chunk)
    )


def _has_zone(column: pa.ChunkedArray) -> bool:
    first = next((text for text in column if text.is_valid), None)
    return first is not None and bool(pc.match_substring_regex(first, _ZONE + "$").as_py())


def _leaves(array: pa.Array) -> Iterator[pa.Array]:
    if pa.types.is_struct(array.type):
        for index in range(array.type.num_fields):
            yield from _leaves(array.field(index))
    elif pa.types.is_list(array.type):
        yield from _leaves(array.flatten())
    else:
        yield array


def _plain(array: pa.Array) -> bool:
    if pa.types.is_decimal(array.type):
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            return False
    if not pa.types.is_floating(array.type):
        return True
    values = array.drop_null().to_numpy()
    negative_zero = (values == 0) & np.signbit(values)
    return bool(np.isfinite(values).all() and not negative_zero.any())
