"""The arguments of window functions: a time, then intervals."""

from __future__ import annotations

from laminar.errors.sql import NotSupported, SqlSyntaxError
from laminar.sql.calls import Call
from laminar.sql.cursor import Cursor
from laminar.sql.intervals import interval_of, take_interval
from laminar.sql.tokens import Kind


def read_arguments(
    cursor: Cursor, call: Call, shape: str, least: int, most: int
) -> tuple[tuple[int, int], list[str]]:
    """Return where the first argument stands, and the others as intervals."""
    name = cursor.tokens[call.start]
    if not least <= len(call.arguments) <= most:
        error = SqlSyntaxError(
            f"{call.name} with {len(call.arguments)} arguments", hint=f"write {call.name}{shape}"
        )
        raise cursor.here(error, name)
    first, *others = call.arguments
    if first[0] < first[1] and cursor.tokens[first[0]].is_word("TABLE"):
        hint = f"group by {call.name}{shape}"
        raise cursor.here(NotSupported(f"{call.name} over a table", hint), name)
    if first[0] >= first[1]:
        cursor.fail(f"an argument of {call.name} is empty", hint=f"write {shape}", token=name)
    return first, [_interval(cursor, call, each) for each in others]


def _interval(cursor: Cursor, call: Call, argument: tuple[int, int]) -> str:
    inside = Cursor(cursor.text, cursor.tokens[: argument[1]])
    inside.at = argument[0]
    token = inside.peek()
    if token.kind is Kind.STRING:
        text = interval_of(inside, inside.next())
    elif token.is_word("INTERVAL"):
        text = take_interval(inside)
    else:
        inside.unexpected(f"an interval, as in {call.name}(ts, INTERVAL '1' MINUTE)")
    inside.finish()
    return text
