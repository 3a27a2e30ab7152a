"""Options in brackets: `(name = value, ...)`."""

from __future__ import annotations

from laminar.sql.cursor import Cursor
from laminar.sql.intervals import take_interval
from laminar.sql.statements import About
from laminar.sql.tokens import Kind, Token

_AN_OPTION = "the name of an option"


def take_options(cursor: Cursor) -> dict[str, str]:
    """Take `(a = 'b', c.d = 5, e = true)`; every value becomes text.

    Names keep their spelling; two that differ only in case are the same option, given twice.
    """
    cursor.expect("(")
    options: dict[str, str] = {}
    seen: set[str] = set()
    while True:
        token = cursor.peek()
        name = _option_name(cursor)
        if name.casefold() in seen:
            cursor.fail(f'option "{name}" is given twice', hint="remove one of them", token=token)
        seen.add(name.casefold())
        cursor.expect("=")
        options[name] = take_value(cursor)
        if not cursor.accept(","):
            break
    if not cursor.accept(")"):
        cursor.unexpected(",", ")")
    return options


def without_connector(options: dict[str, str]) -> tuple[str | None, dict[str, str]]:
    """Return the connector that options name, however they spell that word, and the others."""
    rest = {name: value for name, value in options.items() if name.casefold() != "connector"}
    return next((options[name] for name in options if name not in rest), None), rest


def take_about(cursor: Cursor) -> About:
    """Take `[COMMENT 'text'] [TBLPROPERTIES (a = 'b', ...)]`, in any order."""
    comment, properties = "", dict[str, str]()
    while True:
        if not comment and cursor.accept("COMMENT"):
            comment = take_text(cursor)
        elif not properties and cursor.accept("TBLPROPERTIES"):
            properties = take_options(cursor)
        else:
            return About(comment, tuple(properties.items()))


def take_text(cursor: Cursor) -> str:
    """Take a string."""
    if cursor.peek().kind is not Kind.STRING:
        cursor.unexpected("a text in quotes")
    return cursor.next().value


def take_value(cursor: Cursor) -> str:
    """Take a value: a string, a number, an interval, or words joined by dots or hyphens."""
    if cursor.looks_at("INTERVAL"):
        return take_interval(cursor)
    sign = cursor.next().text if cursor.looks_at("-") or cursor.looks_at("+") else ""
    token = cursor.peek()
    if token.kind is Kind.NUMBER:
        return sign.removeprefix("+") + cursor.next().text
    if sign or token.kind not in (Kind.STRING, Kind.WORD):
        cursor.unexpected("a value, in quotes if it is more than a word")
    if token.kind is Kind.STRING:
        return cursor.next().value
    return _compound(cursor)


def _option_name(cursor: Cursor) -> str:
    if cursor.peek().kind is Kind.STRING:
        return cursor.next().value
    parts = [cursor.identifier(_AN_OPTION)]
    while cursor.accept("."):
        parts.append(cursor.identifier(_AN_OPTION))
    return ".".join(parts)


def _compound(cursor: Cursor) -> str:
    first = last = cursor.next()
    while cursor.peek().text in (".", "-") and _touches(last, cursor.peek(), cursor.peek(1)):
        cursor.next()
        last = cursor.next()
    return cursor.text[first.start : last.end]


def _touches(left: Token, middle: Token, right: Token) -> bool:
    is_part = right.kind in (Kind.WORD, Kind.NUMBER)
    return is_part and left.end == middle.start and middle.end == right.start
