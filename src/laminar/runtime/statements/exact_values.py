"""One value for one column, unchanged or refused.

Law: a value is taken if the column can hold exactly that value. Numbers may change their kind,
never their amount; text is never a number and a number never text; a boolean is neither. Text is
a time if it is ISO 8601, and a time without a zone is in UTC. The one loss that is allowed is the
rounding of a fraction to FLOAT, since that is what FLOAT is.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.types import VariantVal

from laminar.model.types import parts_of
from laminar.store.variants import VARIANT

_T = TypeVar("_T")

_TOO_FINE = re.compile(r"[.,]\d{6}\d*[1-9]")
_YEARS = re.compile(r"\binterval year\b(?! to)")
_MONTHS = 12
_MAX_FLOAT32 = float(np.finfo(np.float32).max)
_FAR = 1200  # decimal places; beyond what any float or DECIMAL has


class Misfit(ValueError):
    """A value that its column cannot hold, and why."""


def exact(value: Any, kind: pa.DataType) -> Any:
    """Return the value as `pyarrow` takes it for this type.

    Raises:
        Misfit: the column cannot hold exactly that value.
    """
    if value is None or value is pd.NA or _is_no_time(value):
        return None
    for applies, convert in _RULES:
        if applies(kind):
            return convert(value, kind)
    return _by_arrow(value, kind)


def splits_a_year(value: Any, kind: str) -> bool:
    """Say whether an interval in years, somewhere in a value, has months that make no whole one."""
    if value is None or not _YEARS.search(kind):
        return False
    if _YEARS.fullmatch(kind):
        return bool(value % _MONTHS)
    outer, parts = parts_of(kind)
    if outer == "struct":
        return any(splits_a_year(value[name], part) for name, part in parts)
    kinds = [part for _, part in parts]
    if outer == "map":
        return any(any(map(splits_a_year, pair, kinds)) for pair in value)
    return any(splits_a_year(each, kinds[0]) for each in value)


def required(value: Any, field: pa.Field) -> Any:
    """Return the value of a part of a nested type, which may forbid NULL."""
    found = exact(value, field.type)
    if found is None and not field.nullable:
        raise Misfit(f'NULL in "{field.name}", which is NOT NULL')
    return found


def _is_no_time(value: Any) -> bool:
    """Whether it is what pandas or numpy have for NULL in a column of times."""
    return value is pd.NaT or (isinstance(value, np.datetime64) and bool(np.isnat(value)))


def _boolean(value: Any, _: pa.DataType) -> bool:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise Misfit


def _integer(value: Any, kind: pa.DataType) -> int:
    number = _number(value)
    if number.denominator != 1:
        raise Misfit("it has a fraction")
    signed = pa.types.is_signed_integer(kind)
    low = -(1 << (kind.bit_width - 1)) if signed else 0
    high = (1 << (kind.bit_width - signed)) - 1
    if not low <= number.numerator <= high:
        raise Misfit(f"the type holds {low} to {high}")
    return number.numerator


def _float(value: Any, kind: pa.DataType) -> float:
    single = pa.types.is_float32(kind)
    if isinstance(value, float | np.floating):
        number = float(value)
        if single and np.isfinite(number) and abs(number) > _MAX_FLOAT32:
            raise Misfit("it is too large")
        return number
    if isinstance(value, Decimal) and not value.is_finite():
        return float(value)
    amount = _number(value)
    if abs(amount) > (_MAX_FLOAT32 if single else sys.float_info.max):
        raise Misfit("it is too large")
    number = float(np.float32(float(amount))) if single else float(amount)
    if Fraction(number) != amount:
        raise Misfit("the type cannot hold it exactly")
    return number


def _decimal(value: Any, kind: pa.DataType) -> Decimal:
    unscaled = _number(value) * 10**kind.scale
    if unscaled.denominator != 1:
        raise Misfit(f"it needs more than {kind.scale} decimal places")
    if abs(unscaled.numerator) >= 10**kind.precision:
        raise Misfit(f"it needs more than {kind.precision} digits")
    digits = tuple(map(int, str(abs(unscaled.numerator))))
    return Decimal((int(unscaled < 0), digits, -kind.scale))


def _number(value: Any) -> Fraction:
    """Return exactly the amount of a number of any kind."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return Fraction(int(value))
    if isinstance(value, float | np.floating):
        if not np.isfinite(value):
            raise Misfit("it is not a finite number")
        return Fraction(float(value))
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise Misfit("it is not a finite number")
        if abs(value.adjusted()) > _FAR:
            raise Misfit("its exponent is out of range")
        return Fraction(value)
    raise Misfit


def _text(value: Any, _: pa.DataType) -> str:
    if not isinstance(value, str):
        raise Misfit
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Misfit("it holds half of a character") from None
    return str(value)


def _bytes(value: Any, _: pa.DataType) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise Misfit


def _date(value: Any, _: pa.DataType) -> date:
    if isinstance(value, str):
        return _iso(date.fromisoformat, value)
    moment = _moment(value) if isinstance(value, datetime | np.datetime64) else value
    if isinstance(moment, datetime):
        if moment.tzinfo is not None or moment.time() != time():
            raise Misfit("it has a time of day")
        return moment.date()
    if isinstance(moment, date):
        return moment
    raise Misfit


def _timestamp(value: Any, kind: pa.DataType) -> datetime:
    if isinstance(value, str):
        if _TOO_FINE.search(value):
            raise Misfit("it is finer than a microsecond")
        moment = _iso(datetime.fromisoformat, value)
    elif isinstance(value, datetime | np.datetime64):
        moment = _moment(value)
    elif isinstance(value, date):
        moment = datetime(value.year, value.month, value.day)
    else:
        raise Misfit
    if kind.tz is None:
        if moment.tzinfo is not None:
            raise Misfit("it has a time zone and the column has none")
        return moment
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        raise Misfit("it is out of range") from None


def _moment(value: datetime | np.datetime64) -> datetime:
    if isinstance(value, np.datetime64):
        try:
            value = pd.Timestamp(value)
        except (ValueError, OverflowError):
            raise Misfit("it is out of range") from None
    if not isinstance(value, pd.Timestamp):
        return value
    if value.nanosecond:
        raise Misfit("it is finer than a microsecond")
    return value.to_pydatetime()


def _time(value: Any, _: pa.DataType) -> time:
    found = _iso(time.fromisoformat, value) if isinstance(value, str) else value
    if isinstance(found, time) and found.tzinfo is None:
        return found
    raise Misfit


def _duration(value: Any, _: pa.DataType) -> timedelta:
    if isinstance(value, timedelta):
        return value
    raise Misfit


def _iso(parse: Callable[[str], _T], text: str) -> _T:
    try:
        return parse(text.strip())
    except ValueError:
        raise Misfit("text is taken as a time only if it is ISO 8601") from None


def _list(value: Any, kind: pa.DataType) -> list[Any]:
    if isinstance(value, list | tuple | np.ndarray):
        return [required(each, kind.value_field) for each in value]
    raise Misfit


def _struct(value: Any, kind: pa.DataType) -> dict[str, Any]:
    fields = [kind.field(place) for place in range(kind.num_fields)]
    parts = named(value)
    if isinstance(parts, tuple | list):
        if len(parts) != len(fields):
            raise Misfit(f"it has {len(parts)} values for {len(fields)} fields")
        parts = {field.name: part for field, part in zip(fields, parts, strict=True)}
    if not isinstance(parts, Mapping):
        raise Misfit
    given = {str(name).casefold(): part for name, part in parts.items()}
    unknown = given.keys() - {field.name.casefold() for field in fields}
    if unknown or len(given) < len(parts):
        raise Misfit(f"its fields are {', '.join(map(str, parts))}")
    return {field.name: required(given.get(field.name.casefold()), field) for field in fields}


def _variant(value: Any, _: pa.DataType) -> dict[str, bytes]:
    """Return a variant's parts: of one, or of what PARSE_JSON makes of a value written as JSON."""
    made = value
    if not isinstance(value, VariantVal):
        try:
            made = VariantVal.parseJson(json.dumps(value, allow_nan=False, default=_as_number))
        except (TypeError, ValueError, PySparkException) as error:
            raise Misfit(f"it cannot be written as JSON: {error}") from None
    return {"value": bytes(made.value), "metadata": bytes(made.metadata)}


def _as_number(value: Any) -> Any:
    """Return what JSON has for a value that `json` does not know."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} is nothing that JSON has")


def _map(value: Any, kind: pa.DataType) -> list[tuple[Any, Any]]:
    pairs = list(value.items()) if isinstance(value, Mapping) else value
    if not isinstance(pairs, list | tuple) or not all(_is_pair(pair) for pair in pairs):
        raise Misfit
    found = [(exact(key, kind.key_type), required(part, kind.item_field)) for key, part in pairs]
    if any(key is None for key, _ in found):
        raise Misfit("a key is NULL")
    return found


def _is_pair(pair: object) -> bool:
    return isinstance(pair, tuple | list) and len(pair) == 2


def named(row: Any) -> Any:
    """Return a row with names (a namedtuple, Spark's Row) as a dict, any other as it is."""
    if isinstance(row, tuple):
        if hasattr(row, "_asdict"):
            return row._asdict()
        if hasattr(row, "__fields__") and hasattr(row, "asDict"):
            return row.asDict()
    return row


def _by_arrow(value: Any, kind: pa.DataType) -> Any:
    try:
        return pa.scalar(value, type=kind).as_py()
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise Misfit(str(error).split("\n")[0]) from None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


_RULES: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.DataType], Any]], ...] = (
    (pa.types.is_boolean, _boolean),
    (pa.types.is_integer, _integer),
    (pa.types.is_floating, _float),
    (pa.types.is_decimal, _decimal),
    (_is_text, _text),
    (_is_bytes, _bytes),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_date, _date),
    (pa.types.is_time, _time),
    (pa.types.is_duration, _duration),
    (_is_list, _list),
    (lambda kind: bool(kind == VARIANT), _variant),
    (pa.types.is_struct, _struct),
    (pa.types.is_map, _map),
)
"""Kind of type -> how a value gets there."""
