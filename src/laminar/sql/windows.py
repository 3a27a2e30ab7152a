"""Windows over event time: TUMBLE and HOP, in the words of Spark's `window`.

TUMBLE(ts, size)          = window(ts, size)
TUMBLE(ts, size, offset)  = window(ts, size, size, offset)
HOP(ts, slide, size)      = window(ts, size, slide)
and _START, _END are the fields `.start` and `.end` of these.
"""

from __future__ import annotations

from collections.abc import Callable

from laminar.errors.sql import NotSupported, SqlSyntaxError
from laminar.sql.calls import Call, calls_of
from laminar.sql.cursor import Cursor
from laminar.sql.intervals import interval_of, take_interval
from laminar.sql.tokens import Kind, tokenize

_FIELDS = {"": "", "_START": ".start", "_END": ".end"}


def rewrite_windows(query: str) -> str:
    """Return the query with our window functions in Spark's words, all else as it was."""
    cursor = Cursor(query, tokenize(query))
    return _rewritten(cursor, 0, len(cursor.tokens), whole=True)


def _rewritten(cursor: Cursor, start: int, stop: int, *, whole: bool = False) -> str:
    """Return the text of some tokens, rewritten; `whole` also keeps what is around them."""
    text = cursor.text
    at = 0 if whole else cursor.tokens[start].start
    end = len(text) if whole else cursor.tokens[stop - 1].end
    kept = []
    for call in calls_of(cursor.tokens, _WINDOWS):
        # A call inside the one before it was rewritten with that one.
        if not start <= call.start < stop or cursor.tokens[call.start].start < at:
            continue
        kept += [text[at : cursor.tokens[call.start].start], _window(cursor, call)]
        at = cursor.tokens[call.stop - 1].end
    return "".join([*kept, text[at:end]])


def _window(cursor: Cursor, call: Call) -> str:
    stem = call.name.removesuffix("_START").removesuffix("_END")
    return _WINDOWS[call.name](cursor, call) + _FIELDS[call.name.removeprefix(stem)]


def _tumble(cursor: Cursor, call: Call) -> str:
    time, size, *offset = _arguments(cursor, call, "(ts, size[, offset])", 2, 3)
    return f"window({', '.join([time, size, size, *offset] if offset else [time, size])})"


def _hop(cursor: Cursor, call: Call) -> str:
    time, slide, size = _arguments(cursor, call, "(ts, slide, size)", 3, 3)
    return f"window({time}, {size}, {slide})"


def _not_yet(cursor: Cursor, call: Call) -> str:
    hint = "use TUMBLE or HOP"
    if call.name.startswith("SESSION"):
        hint = "use TUMBLE, HOP or Spark's session_window(ts, gap)"
    raise cursor.here(NotSupported(call.name, hint), cursor.tokens[call.start])


_WINDOWS: dict[str, Callable[[Cursor, Call], str]] = {
    f"{stem}{field}": rewrite
    for stem, rewrite in (
        ("TUMBLE", _tumble),
        ("HOP", _hop),
        ("SESSION", _not_yet),
        ("CUMULATE", _not_yet),
    )
    for field in _FIELDS
}


def _arguments(cursor: Cursor, call: Call, shape: str, least: int, most: int) -> list[str]:
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
    return [_rewritten(cursor, *first), *(_interval(cursor, call, each) for each in others)]


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
    return f"'{text}'"
