"""ASOF JOIN: each row with the nearest one before it, or after it.

    a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.k = b.k

Spark has no such join that is on by itself. From 4.3 on `spark.sql.join.asofJoin.enabled` turns one
on that leaves out rows that find none; then ASOF JOIN is Spark's, and runs as it is written.
Otherwise, in a view it is read, for checking names and types, as a left join with a mark in its
condition, by which the planner knows it again; it never runs like that. In a query it
becomes a subquery per row, which Spark turns into a join:

    a JOIN LATERAL (the greatest of the rows of b at the nearest time) AS b
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from laminar.errors.sql import NotSupported
from laminar.sql.cursor import Cursor
from laminar.sql.keywords import keywords
from laminar.sql.tokens import Kind, Token, tokenize

MARK = "laminar asof"
"""A text that is not NULL, in the condition of a join that is an ASOF JOIN."""

_NEAREST = {">=": "MAX_BY", ">": "MAX_BY", "<=": "MIN_BY", "<": "MIN_BY"}
_FLIPPED = {">=": "<=", ">": "<", "<=": ">=", "<": ">"}
_ENDS = keywords(
    "JOIN LEFT RIGHT FULL INNER CROSS NATURAL ASOF SEMI ANTI LATERAL WHERE GROUP HAVING ORDER SORT"
    " CLUSTER DISTRIBUTE LIMIT OFFSET WINDOW QUALIFY UNION EXCEPT INTERSECT MINUS PIVOT UNPIVOT ;"
)
"""What may follow the condition of a join."""

_FORM = "write a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.k = b.k"


def has_asof(query: str) -> bool:
    """Whether a query has an ASOF JOIN."""
    return bool(_places(tokenize(query)))


def rewrite_asof(query: str) -> str:
    """Return the query with ASOF JOIN in words that Spark can check."""
    cursor = Cursor(query, tokenize(query))
    tokens = cursor.tokens
    changes: list[tuple[int, int, str]] = []
    for place in _places(tokens):
        match, opening, closing = _condition(cursor, place)
        condition = cursor.slice(opening, closing + 1)
        changes.append((tokens[place].start, tokens[place + 1].end, "LEFT JOIN"))
        instead = f"ON {condition} AND '{MARK}' IS NOT NULL AND"
        changes.append((tokens[match].start, tokens[closing + 1].end, instead))
    for start, stop, text in sorted(changes, reverse=True):
        query = query[:start] + text + query[stop:]
    return query


def as_joins(query: str) -> str:
    """Return the query with every ASOF JOIN, in any form, as a join of the same relations."""
    cursor = Cursor(query, tokenize(query))
    tokens = cursor.tokens
    changes: list[tuple[int, int, str]] = []
    for place in _places(tokens):
        match, opening, closing = _match(cursor, place)
        condition = cursor.slice(opening, closing + 1)
        follows = tokens[closing + 1].upper if closing + 1 < len(tokens) else ""
        end = tokens[closing + (follows == "ON")].end
        instead = {"ON": f"ON {condition} AND", "USING": ""}.get(follows, f"ON {condition}")
        changes += [
            (tokens[place].start, tokens[place].end, ""),
            (tokens[match].start, end, instead),
        ]
    for start, stop, text in sorted(changes, reverse=True):
        query = query[:start] + text + query[stop:]
    return query


def spell_out(query: str) -> str:
    """Return a query with every ASOF JOIN in words that Spark can run."""
    while True:
        cursor = Cursor(query, tokenize(query))
        places = _places(cursor.tokens)
        if not places:
            return query
        # The last one first: one that is inside another comes after it.
        query = _spelled_out(cursor, places[-1])


def _places(tokens: Sequence[Token]) -> list[int]:
    """Return where ASOF JOIN stands."""
    return [
        place
        for place, token in enumerate(tokens[:-1])
        if token.is_word("ASOF") and tokens[place + 1].is_word("JOIN")
    ]


def _condition(cursor: Cursor, place: int) -> tuple[int, int, int]:
    """Return where MATCH_CONDITION stands, its opening and its closing bracket; ON follows."""
    tokens = cursor.tokens
    before = tokens[place - 1] if place else None
    if before is not None and before.is_word("LEFT", "OUTER", "INNER"):
        raise cursor.here(NotSupported(f"{before.upper} ASOF JOIN", _FORM), before)
    match, opening, closing = _match(cursor, place)
    if closing + 1 >= len(tokens) or not tokens[closing + 1].is_word("ON"):
        _refuse(cursor, place, "ON")
    return match, opening, closing


def _match(cursor: Cursor, place: int) -> tuple[int, int, int]:
    tokens = cursor.tokens
    match = _find(cursor, place + 2, "MATCH_CONDITION")
    opening = match + 1
    if opening >= len(tokens) or not tokens[opening].is_symbol("("):
        _refuse(cursor, place, "MATCH_CONDITION")
    return match, opening, _closing(cursor, opening)


def _spelled_out(cursor: Cursor, place: int) -> str:
    tokens = cursor.tokens
    match, opening, closing = _condition(cursor, place)
    stop = _end_of_condition(cursor, closing + 2)
    alias = tokens[match - 1]
    if alias.kind not in (Kind.WORD, Kind.QUOTED):
        _refuse(cursor, place, "a name for what it joins")
    time, call = _right_time(cursor, opening, closing, alias.value)
    matched, equal = cursor.slice(opening, closing + 1), cursor.slice(closing + 2, stop)
    rows = cursor.slice(place + 2, match)
    name = alias.text
    at_one_time = (
        f"SELECT {time} AS __t, MAX(STRUCT({name}.*)) AS __g FROM {rows} "
        f"WHERE {matched} AND ({equal}) GROUP BY {time}"
    )
    nearest = f"SELECT {call}(__g, __t) AS __m FROM ({at_one_time})"
    instead = f"JOIN LATERAL (SELECT __m.* FROM ({nearest})) AS {name}"
    end = tokens[stop - 1].end
    return cursor.text[: tokens[place].start] + instead + cursor.text[end:]


def _right_time(cursor: Cursor, opening: int, closing: int, alias: str) -> tuple[str, str]:
    """Return the time of the joined rows, and the aggregate that finds the nearest of them."""
    for at in range(opening + 1, closing):
        sign, then = cursor.tokens[at].text, at + 1
        if sign == ">" and cursor.tokens[then].is_symbol("="):
            sign, then = ">=", then + 1  # one that may close a type is a token of its own
        if sign in _NEAREST:
            left, right = cursor.slice(opening + 1, at), cursor.slice(then, closing)
            if _mentions(cursor, then, closing, alias):
                return right, _NEAREST[sign]
            if _mentions(cursor, opening + 1, at, alias):
                return left, _NEAREST[_FLIPPED[sign]]
    raise cursor.here(
        NotSupported("this MATCH_CONDITION", f"{_FORM}, with the names of both before the dots"),
        cursor.tokens[opening],
    )


def _mentions(cursor: Cursor, start: int, stop: int, alias: str) -> bool:
    return any(
        cursor.tokens[at].value.lower() == alias.lower() and cursor.tokens[at + 1].is_symbol(".")
        for at in range(start, stop - 1)
    )


def _end_of_condition(cursor: Cursor, start: int) -> int:
    depth = 0
    for at in range(start, len(cursor.tokens)):
        token = cursor.tokens[at]
        is_call = at + 1 < len(cursor.tokens) and cursor.tokens[at + 1].is_symbol("(")
        if depth == 0 and (token.is_symbol(",") or (token.upper in _ENDS and not is_call)):
            return at
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth < 0:
            return at
    return len(cursor.tokens)


def _refuse(cursor: Cursor, place: int, missing: str) -> NoReturn:
    raise cursor.here(NotSupported(f"ASOF JOIN without {missing}", _FORM), cursor.tokens[place])


def _find(cursor: Cursor, place: int, word: str) -> int:
    depth = 0
    for at in range(place, len(cursor.tokens)):
        token = cursor.tokens[at]
        if depth == 0 and token.is_word(word):
            return at
        depth += (token.upper == "(") - (token.upper == ")")
        if depth < 0 or (depth == 0 and token.is_word("WHERE", "GROUP", "JOIN")):
            break
    _refuse(cursor, place - 2, word)


def _closing(cursor: Cursor, opening: int) -> int:
    depth = 0
    for at in range(opening, len(cursor.tokens)):
        depth += (cursor.tokens[at].upper == "(") - (cursor.tokens[at].upper == ")")
        if depth == 0:
            return at
    raise AssertionError("brackets are balanced")
