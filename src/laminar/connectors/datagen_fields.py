"""What a generated column holds: per kind, an expression over the row's number.

Law: a value is a pure function of (seed, column, row number), so any split of the rows into
batches gives the same rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias

from laminar.connectors.options import Options
from laminar.connectors.spark_functions import f
from laminar.model.schema import Field

if TYPE_CHECKING:
    from pyspark.sql import Column

Generator: TypeAlias = "Callable[[Column], Column]"
"""Row number -> value."""

_INTEGERS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)$")
_BUCKETS = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_START = "2024-01-01"
_YES_NO = {"true": True, "false": False}
_NUMBERS = (*_INTEGERS, "float", "double", "decimal")

Literal: TypeAlias = "str | int | float | bool | Decimal | date | datetime"

KINDS: dict[str, tuple[str, ...]] = {
    "sequence": (*_NUMBERS, "string", "date"),
    "random": (*_NUMBERS, "string", "date", "boolean", "timestamp"),
    "choice": (*_NUMBERS, "string", "date", "boolean", "timestamp"),
    "timestamp": ("timestamp",),
}
"""Kind -> the types of columns it can fill."""


def generator(field: Field, *, first: bool, seed: int, options: Options) -> Generator:
    """Build what fills a column; it reads the options `fields.<column>.*`."""
    column = _Column(field, seed, options)
    allowed = [kind for kind, types in KINDS.items() if column.base in types]
    if not allowed:
        raise options.bad(
            f"fields.{field.name}.kind", f"no kind: datagen cannot fill a column of {field.type}"
        )
    kind = column.choice("kind", allowed, _default_kind(column.base, first=first))
    return column.with_nulls(_BUILDERS[kind](column))


def _default_kind(base: str, *, first: bool) -> str:
    if base == "timestamp":
        return "timestamp"
    if base == "string":
        return "choice"
    return "sequence" if first and base in _INTEGERS else "random"


class _Column:
    """One column and its part of the options."""

    def __init__(self, field: Field, seed: int, options: Options) -> None:
        self.field = field
        self.base = field.type.partition("(")[0]
        self.seed = seed
        self.options = options
        decimal = _DECIMAL.match(field.type)
        self.scale = int(decimal[2]) if decimal else 2
        self.digits = int(decimal[1]) if decimal else 15

    def key(self, name: str) -> str:
        return f"fields.{self.field.name}.{name}"

    def choice(self, name: str, among: list[str], default: str) -> str:
        return self.options.choice(self.key(name), among, default)

    def decimal(self, name: str, default: Decimal | str | int) -> Decimal:
        return self.options.decimal(self.key(name), default)

    def integer(self, name: str, default: int, *, at_least: int | None = None) -> int:
        return self.options.integer(self.key(name), default, at_least=at_least)

    def day(self, name: str, default: str) -> date:
        return self.instant(name, default).date()

    def instant(self, name: str, default: str) -> datetime:
        try:
            return _instant(self.options.text(self.key(name), default))
        except ValueError:
            raise self.options.bad(self.key(name), "a date or time such as 2024-01-31") from None

    def literal(self, name: str, text: str) -> Literal:
        """Read one value of the column's type."""
        try:
            return _READERS[self.base](text)
        except (ValueError, KeyError, ArithmeticError):
            raise self.options.bad(self.key(name), f"values of type {self.field.type}") from None

    def constant(self, value: Literal) -> Column:
        """Return the value as Spark has it, whatever the time zone of the session."""
        if isinstance(value, datetime):
            return f.timestamp_micros(f.lit(_micros(value)))
        return self.typed(f.lit(value.isoformat() if isinstance(value, date) else value))

    def hashed(self, row: Column, use: str = "value") -> Column:
        """Return a number that looks random and is not."""
        return f.xxhash64(f.lit(self.seed), f.lit(f"{self.field.name}/{use}"), row)

    def below(self, row: Column, width: int, use: str = "value") -> Column:
        """Return a whole number from 0 to `width` - 1."""
        return f.pmod(self.hashed(row, use), f.lit(width).cast("bigint"))

    def typed(self, value: Column) -> Column:
        return value.cast(self.field.type)

    def unscaled(self, number: Decimal, name: str) -> int:
        """Return the number in units of its last digit."""
        units = number.scaleb(self.scale)
        if units != int(units) or abs(units) > 10 ** min(self.digits, 18):
            raise self.options.bad(self.key(name), f"a number that fits {self.field.type}")
        return int(units)

    def scaled(self, units: Column) -> Column:
        """Turn units of the last digit into the number."""
        if self.base == "decimal":
            unit = f.lit(Decimal(1).scaleb(-self.scale))
            return self.typed(units.cast("decimal(19,0)") * unit)
        return self.typed(units.cast("double") / f.lit(float(10**self.scale)))

    def with_nulls(self, generate: Generator) -> Generator:
        share = self.decimal("nulls", 0)
        if not 0 <= share <= 1 or (share and not self.field.nullable):
            raise self.options.bad(self.key("nulls"), "a share from 0 to 1; 0 if it is NOT NULL")
        if not share:
            return generate
        bound = int(share * _BUCKETS)
        return lambda row: f.when(self.below(row, _BUCKETS, "null") >= bound, generate(row))


def _sequence(column: _Column) -> Generator:
    if column.base == "string":
        prefix = column.options.text(column.key("prefix"), f"{column.field.name}-")
        return lambda row: f.concat(f.lit(prefix), row.cast("string"))
    if column.base == "date":
        day, days = column.day("start", _START), column.integer("step", 1)
        return lambda row: f.date_add(column.constant(day), (row * days).cast("int"))
    if column.base in _INTEGERS:
        first, by = column.integer("start", 0), column.integer("step", 1)
        return lambda row: column.typed(row * by + first)
    start = column.unscaled(column.decimal("start", 0), "start")
    step = column.unscaled(column.decimal("step", 1), "step")
    return lambda row: column.scaled(row * step + start)


def _random(column: _Column) -> Generator:
    if column.base == "boolean":
        return lambda row: column.below(row, 2) == 1
    if column.base == "string":
        length = column.integer("length", 8, at_least=1)
        if length > 32:
            raise column.options.bad(column.key("length"), "a length from 1 to 32")
        return lambda row: f.substring(f.md5(column.hashed(row).cast("string")), 1, length)
    if column.base == "date":
        day, last = column.day("min", _START), column.day("max", "2024-12-31")
        days = _width(column, (last - day).days + 1)
        return lambda row: f.date_add(column.constant(day), column.below(row, days).cast("int"))
    if column.base == "timestamp":
        start, end = column.instant("min", _START), column.instant("max", "2025-01-01")
        micros = _width(column, (end - start) // timedelta(microseconds=1))
        return lambda row: f.timestamp_micros(column.below(row, micros) + _micros(start))
    return _random_number(column)


def _random_number(column: _Column) -> Generator:
    if column.base in _INTEGERS:
        bound = 1 << _INTEGERS[column.base]
        low = column.integer("min", 0, at_least=-bound)
        high = column.integer("max", min(999_999, bound - 1))
        if high >= bound:
            raise column.options.bad(column.key("max"), f"a number that fits {column.field.type}")
        width = _width(column, high - low + 1)
        return lambda row: column.typed(column.below(row, width) + low)
    column.scale = column.integer("decimals", column.scale, at_least=0)
    # Digits before the point decide what fits: DECIMAL(4,2) ends at 99.99, so below 100.
    most = Decimal(10) ** min(3, max(column.digits - column.scale, 0))
    start = column.unscaled(column.decimal("min", 0), "min")
    end = column.unscaled(column.decimal("max", most), "max")
    units = _width(column, end - start)
    return lambda row: column.scaled(column.below(row, units) + start)


def _choice(column: _Column) -> Generator:
    name = column.field.name
    defaults = {
        "string": ",".join(f"{name}_{number}" for number in range(10)),
        "boolean": "true,false",
    }
    key = column.key("values")
    text = (
        column.options.text(key, defaults[column.base])
        if column.base in defaults
        else column.options.required(key, "values with commas between them")
    )
    values = [column.literal("values", value.strip()) for value in text.split(",")]

    def pick(row: Column) -> Column:
        candidates = f.array(*(column.constant(value) for value in values))
        return f.element_at(candidates, (column.below(row, len(values)) + 1).cast("int"))

    return pick


def _timestamp(column: _Column) -> Generator:
    start = column.instant("start", _START)
    step = column.options.duration(column.key("step"), timedelta(seconds=1))
    micros = step // timedelta(microseconds=1)
    return lambda row: f.timestamp_micros(row * micros + _micros(start))


def _instant(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _width(column: _Column, width: int) -> int:
    if not 1 <= width < 1 << 63:
        raise column.options.bad(column.key("max"), "more than min, by less than 2^63")
    return width


_BUILDERS: dict[str, Callable[[_Column], Generator]] = {
    "sequence": _sequence,
    "random": _random,
    "choice": _choice,
    "timestamp": _timestamp,
}

_READERS: dict[str, Callable[[str], Literal]] = {
    **dict.fromkeys(_INTEGERS, int),
    "float": float,
    "double": float,
    "decimal": Decimal,
    "string": str,
    "date": date.fromisoformat,
    "boolean": lambda text: _YES_NO[text.lower()],
    "timestamp": _instant,
}
"""Type -> how one of its values is read."""
