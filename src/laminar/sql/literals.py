"""Python's values as literals of Spark's SQL, of the type that PySpark gives them."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from laminar.model.quoting import string_literal

_INT, _LONG = 1 << 31, 1 << 63
_DIGITS = 38
"""As many as a DECIMAL has."""


def literal(value: Any) -> str:
    """Return a value as text that Spark reads as exactly this value.

    Raises ValueError, with the reason, for what is none.
    """
    if value is None:
        return "NULL"
    for kind, written in _KINDS:
        if isinstance(value, kind):
            return written(value)
    if callable(getattr(value, "tolist", None)):  # of NumPy
        return literal(value.tolist())
    raise ValueError(f"it is a {type(value).__name__}")


def _integer(value: int) -> str:
    if -_INT <= value < _INT:
        return _signed(str(value))
    if -_LONG <= value < _LONG:
        return _signed(f"{value}L")
    return _decimal(Decimal(value))


def _double(value: float) -> str:
    if math.isfinite(value):
        return _signed(f"{value!r}D")
    name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return f"CAST('{name}' AS DOUBLE)"


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise ValueError(f"{value} is no DECIMAL")
    digits = format(value, "f")
    if sum(map(str.isdigit, digits.lstrip("-0."))) > _DIGITS:
        raise ValueError(f"it has more than {_DIGITS} digits")
    return _signed(f"{digits}BD")


def _signed(text: str) -> str:
    """Put a sign into brackets: after another one it would begin a comment."""
    return f"({text})" if text.startswith("-") else text


def _timestamp(value: datetime) -> str:
    # One without a zone is read in that of the database, as text is.
    return f"TIMESTAMP_LTZ '{value.isoformat(sep=' ')}'"


def _interval(value: timedelta) -> str:
    sign, size = ("-", -value) if value < timedelta(0) else ("", value)
    hours, seconds = divmod(size.seconds, 3600)
    clock = f"{hours:02}:{seconds // 60:02}:{seconds % 60:02}.{size.microseconds:06}"
    return f"INTERVAL '{sign}{size.days} {clock}' DAY TO SECOND"


def _map(value: dict[Any, Any]) -> str:
    parts = (literal(each) for pair in value.items() for each in pair)
    return f"MAP({', '.join(parts)})"


_KINDS: tuple[tuple[type | tuple[type, ...], Callable[[Any], str]], ...] = (
    (bool, lambda value: "TRUE" if value else "FALSE"),
    (int, _integer),
    (float, _double),
    (Decimal, _decimal),
    (str, string_literal),
    ((bytes, bytearray), lambda value: f"X'{value.hex()}'"),
    (datetime, _timestamp),
    (date, lambda value: f"DATE '{value.isoformat()}'"),
    (time, lambda value: f"TIME '{value.isoformat()}'"),
    (timedelta, _interval),
    ((list, tuple), lambda value: f"ARRAY({', '.join(map(literal, value))})"),
    (dict, _map),
)
"""The first kind that fits counts: a bool is an int, and a datetime a date."""
