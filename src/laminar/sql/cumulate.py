"""CUMULATE(ts, step, size): windows that begin together and end a step apart.

Spark has no such function. A row is in several of these windows, so they are rows that a lateral
view makes, after FROM and before WHERE:

    SELECT CUMULATE_END(ts, s, z), COUNT(*) FROM t GROUP BY CUMULATE(ts, s, z)
    SELECT cumulate_1.end, COUNT(*) FROM t LATERAL VIEW EXPLODE(..) cumulate_1 AS cumulate_1
    GROUP BY cumulate_1
"""

from __future__ import annotations

from collections.abc import Sequence

from laminar.errors.sql import SqlSyntaxError
from laminar.sql.calls import Call, calls_of
from laminar.sql.cursor import Cursor
from laminar.sql.intervals import micros
from laminar.sql.tokens import Token, tokenize
from laminar.sql.window_arguments import read_arguments

_FIELDS = {"CUMULATE": "", "CUMULATE_START": ".start", "CUMULATE_END": ".end"}
_AFTER_FROM = [
    "WHERE",
    "GROUP",
    "HAVING",
    "ORDER",
    "SORT",
    "CLUSTER",
    "DISTRIBUTE",
    "LIMIT",
    "OFFSET",
    "WINDOW",
    "QUALIFY",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "MINUS",
]


def rewrite_cumulate(query: str) -> str:
    """Return the query with CUMULATE in words that Spark knows, all else as it was."""
    cursor = Cursor(query, tokenize(query))
    changes: list[tuple[int, int, str]] = []  # from, to, instead
    columns: dict[tuple[int, str], str] = {}  # end of a FROM clause, windows -> column
    for call in calls_of(cursor.tokens, _FIELDS):
        end = _end_of_from(cursor.tokens, call.start)
        windows = _windows(cursor, call)
        name = columns.setdefault((end, windows), f"cumulate_{len(columns) + 1}")
        start, stop = cursor.tokens[call.start].start, cursor.tokens[call.stop - 1].end
        changes.append((start, stop, f"{name}{_FIELDS[call.name]}"))
    for (end, windows), name in columns.items():
        at = cursor.tokens[end - 1].end
        changes.append((at, at, f" LATERAL VIEW EXPLODE({windows}) {name} AS {name}"))
    for start, stop, text in sorted(changes, key=lambda each: each[:2], reverse=True):
        query = query[:start] + text + query[stop:]
    return query


def _windows(cursor: Cursor, call: Call) -> str:
    first, (step_text, size_text) = read_arguments(cursor, call, "(ts, step, size)", 3, 3)
    step, size = micros(step_text), micros(size_text)
    if step <= 0 or size <= 0 or size % step:
        error = SqlSyntaxError(
            f"{call.name} with a size of {size_text} and a step of {step_text}",
            hint="the size must be a multiple of the step",
        )
        raise cursor.here(error, cursor.tokens[call.start])
    time = f"UNIX_MICROS(CAST({cursor.slice(*first)} AS TIMESTAMP))"
    base = f"{time} - PMOD({time}, {size})"
    return (
        f"TRANSFORM(SEQUENCE(PMOD({time}, {size}) DIV {step} + 1, CAST({size // step} AS BIGINT)), "
        f"laminar_n -> NAMED_STRUCT('start', TIMESTAMP_MICROS({base}), "
        f"'end', TIMESTAMP_MICROS({base} + laminar_n * {step})))"
    )


def _end_of_from(tokens: Sequence[Token], place: int) -> int:
    """Return the token before which the FROM clause of the query around a token ends."""
    depth, start = 0, place
    while start > 0:
        start -= 1
        depth += (tokens[start].upper == ")") - (tokens[start].upper == "(")
        if tokens[start].is_word("SELECT") and depth == 0:
            break
        if depth < 0:
            depth = 0  # the call stands in brackets of its own: go on around them
    depth, at, is_from = 0, start, False
    while at < len(tokens):
        token = tokens[at]
        if depth == 0 and (token.upper == ")" or (is_from and token.is_word(*_AFTER_FROM))):
            break
        is_from = is_from or (depth == 0 and token.is_word("FROM"))
        depth += (token.upper == "(") - (token.upper == ")")
        at += 1
    return at
