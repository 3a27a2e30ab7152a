"""Intervals of fixed length, in the ways users write them, as the string Spark takes."""

from __future__ import annotations

import re
from decimal import Decimal

from laminar.errors import nearest
from laminar.errors.sql import NotSupported, SqlSyntaxError
from laminar.sql.cursor import Cursor
from laminar.sql.tokens import Kind, Token

FIXED = ("microsecond", "millisecond", "second", "minute", "hour", "day", "week")
"""Units that are always equally long."""

_CALENDAR = ("month", "quarter", "year")
_PART = re.compile(r"\s*([+-]?\s*\d+(?:\.\d+)?)\s*([A-Za-z]+)")
_AMOUNT = re.compile(r"\s*[+-]?\s*\d+(?:\.\d+)?\s*$")


def take_interval(cursor: Cursor) -> str:
    """Take `INTERVAL '1' MINUTE`, `INTERVAL '1 minute'` or `INTERVAL 1 MINUTE`.

    Returns it as `1 minute`, unit in the singular and lower case.
    """
    cursor.expect("INTERVAL")
    token = cursor.peek()
    if token.kind is Kind.STRING and not _AMOUNT.match(token.value):
        cursor.next()
        text = interval_of(cursor, token)
        _refuse_units(cursor)
        return text
    sign = "-" if cursor.accept("-") else ""
    amount = cursor.peek()
    if amount.kind not in (Kind.STRING, Kind.NUMBER) or not _AMOUNT.match(amount.value):
        cursor.unexpected("an amount, as in INTERVAL '5' SECOND")
    cursor.next()
    parts = [f"{sign}{_tight(amount.value)} {_unit(cursor, cursor.next())}"]
    while cursor.peek().kind is Kind.NUMBER and cursor.peek(1).kind is Kind.WORD:
        parts.append(f"{cursor.next().text} {_unit(cursor, cursor.next())}")
    _refuse_units(cursor)
    return " ".join(parts)


def interval_of(cursor: Cursor, token: Token) -> str:
    """Return what a string such as '1 hour 30 minutes' says, in one spelling."""
    text, at, parts = token.value, 0, []
    while found := _PART.match(text, at):
        parts.append(f"{_tight(found.group(1))} {_unit_name(cursor, found.group(2), token)}")
        at = found.end()
    if not parts or text[at:].strip():
        cursor.fail(f"{token.text} is not an interval", hint="write it as '5 seconds'", token=token)
    return " ".join(parts)


def _unit(cursor: Cursor, token: Token) -> str:
    if token.kind is not Kind.WORD:
        cursor.fail("an interval has no unit", hint="write it as INTERVAL '5' SECOND", token=token)
    return _unit_name(cursor, token.text, token)


def _unit_name(cursor: Cursor, written: str, token: Token) -> str:
    unit = written.lower()
    singular = unit.removesuffix("s")
    if singular in FIXED:
        return singular
    if singular in _CALENDAR:
        error = NotSupported(f"an interval in {singular}s", "use days: months differ in length")
        raise cursor.here(error, token)
    meant = nearest(singular, FIXED)
    hint = f"did you mean {meant}?" if meant else f"units are {', '.join(FIXED)}"
    raise cursor.here(SqlSyntaxError(f'"{written}" is not a unit of time', hint=hint), token)


def _refuse_units(cursor: Cursor) -> None:
    if cursor.looks_at("TO"):
        raise cursor.here(
            NotSupported("an interval from one unit TO another", "write it as '1 hour 30 minutes'")
        )


def _tight(amount: str) -> str:
    return "".join(amount.split()).removeprefix("+")


_MICROS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}


def micros(text: str) -> int:
    """Return the length of an interval in microseconds; the text is as `take_interval` gives it.

    Raises ValueError for a text that is none, or that has units of no fixed length.
    """
    total, at = Decimal(0), 0
    while found := _PART.match(text, at):
        total += Decimal(_tight(found.group(1))) * _MICROS[found.group(2).lower().removesuffix("s")]
        at = found.end()
    if at == 0 or text[at:].strip():
        raise ValueError(f"{text!r} is not an interval")
    return int(total)
