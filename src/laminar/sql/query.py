"""Queries: recognised by how they start, kept as they are written, read no further than needed."""

from __future__ import annotations

from laminar.errors.sql import NotSupported
from laminar.sql.cursor import Cursor
from laminar.sql.statements import Query
from laminar.sql.time_travel import CLAUSES, take_epochs
from laminar.sql.tokens import Kind

STARTS = ("SELECT", "WITH", "VALUES", "TABLE", "FROM", "(")
"""How a query may start."""


def take_query(cursor: Cursor) -> Query:
    """Take all that is left as a query of the user."""
    start = cursor.at
    take_query_head(cursor)
    text, epoch, pasts = take_epochs(cursor, start)
    location = cursor.origin(start)["location"]
    return Query(text=text, location=location, as_of_epoch=epoch, pasts=pasts)


def take_query_head(cursor: Cursor) -> None:
    """Check that what is left is a query, and move to its end.

    A WITH that ends in anything but a query, such as an INSERT, is not one: Spark would run it.
    """
    start = cursor.at
    while cursor.accept("("):
        pass
    if cursor.accept("WITH"):
        _skip_ctes(cursor)
        while cursor.accept("("):
            pass
    cursor.one_of("SELECT", "VALUES", "TABLE", "FROM")
    _refuse_inserts(cursor)
    refuse_streams(cursor, start)
    cursor.at = len(cursor.tokens)


def starts_query(cursor: Cursor) -> bool:
    """Whether a query comes next, brackets around it or not."""
    ahead = 0
    while cursor.peek(ahead).is_symbol("("):
        ahead += 1
    return cursor.peek(ahead).upper in STARTS


def refuse_streams(cursor: Cursor, start: int) -> None:
    """Raise at FROM STREAM t, which other parsers take for a table STREAM with an alias."""
    for place in range(start, len(cursor.tokens) - 2):
        before, word, after = cursor.tokens[place : place + 3]
        if not (before.is_word("FROM", "JOIN") and word.is_word("STREAM")):
            continue
        named = after.kind is Kind.QUOTED or after.is_symbol("(")
        if named or (after.kind is Kind.WORD and after.upper not in (*CLAUSES, "AS")):
            error = NotSupported(
                "FROM STREAM",
                "every view follows the changes of what it reads: leave STREAM out;"
                " a table of that name goes in backquotes",
            )
            raise cursor.here(error, word)


def _refuse_inserts(cursor: Cursor) -> None:
    """Raise at FROM t INSERT INTO ..., which is no query: Spark would run it."""
    depth = 0
    for place in range(cursor.at, len(cursor.tokens)):
        token = cursor.tokens[place]
        depth += token.is_symbol("(") - token.is_symbol(")")
        follows = cursor.peek(place + 1 - cursor.at)
        if depth == 0 and token.is_word("INSERT") and follows.is_word("INTO", "OVERWRITE"):
            hint = "write INSERT INTO t SELECT ... for each"
            raise cursor.here(NotSupported("INSERT after FROM", hint), token)


def _skip_ctes(cursor: Cursor) -> None:
    cursor.accept("RECURSIVE")
    while True:
        cursor.identifier("the name of a common table expression")
        if cursor.looks_at("("):
            cursor.skip_brackets()
        if cursor.accept("MAX", "RECURSION", "LEVEL"):
            cursor.next()
        cursor.accept("AS")
        if not cursor.looks_at("("):
            cursor.unexpected("a query in brackets")
        cursor.skip_brackets()
        if not cursor.accept(","):
            return
