"""ASOF JOIN: each row with the nearest one before it, or after it.

    a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.k = b.k

Spark has no such join. For checking names and types it is read as a left join with a mark in its
condition, by which the planner knows it again; it never runs like that.
"""

from __future__ import annotations

from typing import NoReturn

from laminar.errors.sql import NotSupported
from laminar.sql.cursor import Cursor
from laminar.sql.tokens import tokenize

MARK = "laminar asof"
"""A text that is not NULL, in the condition of a join that is an ASOF JOIN."""

_FORM = "write a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.k = b.k"


def has_asof(query: str) -> bool:
    """Whether a query has an ASOF JOIN."""
    tokens = tokenize(query)
    return any(
        token.is_word("ASOF") and tokens[place + 1].is_word("JOIN")
        for place, token in enumerate(tokens[:-1])
    )


def rewrite_asof(query: str) -> str:
    """Return the query with ASOF JOIN in words that Spark can check."""
    cursor = Cursor(query, tokenize(query))
    tokens = cursor.tokens
    changes: list[tuple[int, int, str]] = []
    for place in range(len(tokens) - 1):
        if not (tokens[place].is_word("ASOF") and tokens[place + 1].is_word("JOIN")):
            continue
        match = _find(cursor, place + 2, "MATCH_CONDITION")
        opening = match + 1
        if opening >= len(tokens) or not tokens[opening].is_symbol("("):
            _refuse(cursor, place, "MATCH_CONDITION")
        closing = _closing(cursor, opening)
        if closing + 1 >= len(tokens) or not tokens[closing + 1].is_word("ON"):
            _refuse(cursor, place, "ON")
        condition = cursor.slice(opening, closing + 1)
        changes.append((tokens[place].start, tokens[place + 1].end, "LEFT JOIN"))
        instead = f"ON {condition} AND '{MARK}' IS NOT NULL AND"
        changes.append((tokens[match].start, tokens[closing + 1].end, instead))
    for start, stop, text in sorted(changes, reverse=True):
        query = query[:start] + text + query[stop:]
    return query


def _refuse(cursor: Cursor, place: int, missing: str) -> NoReturn:
    raise cursor.here(NotSupported(f"ASOF JOIN without {missing}", _FORM), cursor.tokens[place])


def _find(cursor: Cursor, place: int, word: str) -> int:
    depth = 0
    for at in range(place, len(cursor.tokens)):
        token = cursor.tokens[at]
        if depth == 0 and token.is_word(word):
            return at
        depth += (token.upper == "(") - (token.upper == ")")
        if depth < 0 or token.is_word("WHERE", "GROUP", "JOIN"):
            break
    _refuse(cursor, place - 2, word)


def _closing(cursor: Cursor, opening: int) -> int:
    depth = 0
    for at in range(opening, len(cursor.tokens)):
        depth += (cursor.tokens[at].upper == "(") - (cursor.tokens[at].upper == ")")
        if depth == 0:
            return at
    raise AssertionError("brackets are balanced")
