"""Windows over event time, in words that Spark knows.

TUMBLE(ts, size)          = window(ts, size)
TUMBLE(ts, size, offset)  = window(ts, size, size, offset)
HOP(ts, slide, size)      = window(ts, size, slide)
SESSION(ts, gap)          = session_window(ts, gap)
CUMULATE(ts, step, size)  = a column that a lateral view makes (see `cumulate`)
and _START, _END are the fields `.start` and `.end` of these.
"""

from __future__ import annotations

from collections.abc import Callable

from laminar.sql.calls import Call, calls_of
from laminar.sql.cumulate import rewrite_cumulate
from laminar.sql.cursor import Cursor
from laminar.sql.tokens import tokenize
from laminar.sql.window_arguments import read_arguments

_FIELDS = {"": "", "_START": ".start", "_END": ".end"}


def rewrite_windows(query: str) -> str:
    """Return the query with our window functions in Spark's words, all else as it was."""
    query = rewrite_cumulate(query)
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
    time, size, *offset = arguments_of(cursor, call, "(ts, size[, offset])", 2, 3)
    return f"window({', '.join([time, size, size, *offset] if offset else [time, size])})"


def _hop(cursor: Cursor, call: Call) -> str:
    time, slide, size = arguments_of(cursor, call, "(ts, slide, size)", 3, 3)
    return f"window({time}, {size}, {slide})"


def _session(cursor: Cursor, call: Call) -> str:
    time, gap = arguments_of(cursor, call, "(ts, gap)", 2, 2)
    return f"session_window({time}, {gap})"


_WINDOWS: dict[str, Callable[[Cursor, Call], str]] = {
    f"{stem}{field}": rewrite
    for stem, rewrite in (
        ("TUMBLE", _tumble),
        ("HOP", _hop),
        ("SESSION", _session),
    )
    for field in _FIELDS
}


def arguments_of(cursor: Cursor, call: Call, shape: str, least: int, most: int) -> list[str]:
    """Return the arguments of a call: an expression, rewritten, and intervals."""
    first, others = read_arguments(cursor, call, shape, least, most)
    return [_rewritten(cursor, *first), *(f"'{each}'" for each in others)]
