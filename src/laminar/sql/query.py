"""Queries: recognised by how they start, kept as they are written, read no further than needed."""

from __future__ import annotations

from collections.abc import Sequence

from laminar.errors.sql import NotSupported, SqlSyntaxError
from laminar.sql.cursor import Cursor
from laminar.sql.keywords import keywords
from laminar.sql.statements import Query
from laminar.sql.tokens import Kind, Token

STARTS = ("SELECT", "WITH", "VALUES", "TABLE", "(")
"""How a query may start."""

_READS = ("FROM", "JOIN", "TABLE")
_CLAUSES = keywords(
    "FROM JOIN TABLE SELECT WHERE GROUP HAVING ORDER SORT CLUSTER DISTRIBUTE LIMIT OFFSET WINDOW"
    " QUALIFY ON USING UNION EXCEPT INTERSECT MINUS VALUES LATERAL PIVOT UNPIVOT"
)


def take_query(cursor: Cursor) -> Query:
    """Take all that is left as a query of the user."""
    start = cursor.at
    take_query_head(cursor)
    origin = cursor.origin(start)
    epochs = _time_travel(cursor, start)
    if not epochs:
        return Query(**origin)
    text, base = origin["text"], cursor.tokens[start].start
    for first, last, epoch in epochs:
        if epoch != epochs[0][2]:
            raise cursor.here(
                NotSupported("two epochs in one query", "a query reads one epoch of everything"),
                first,
                until=last,
            )
        text = _blanked(text, first.start - base, last.end - base)
    return Query(text=text.rstrip(), location=origin["location"], as_of_epoch=epochs[0][2])


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
    if cursor.looks_at("FROM"):
        raise cursor.here(NotSupported("a query that starts with FROM", "start it with SELECT"))
    cursor.one_of("SELECT", "VALUES", "TABLE")
    refuse_streams(cursor, start)
    cursor.at = len(cursor.tokens)


def starts_query(cursor: Cursor) -> bool:
    """Whether a query comes next, brackets around it or not."""
    ahead = 0
    while cursor.peek(ahead).is_symbol("("):
        ahead += 1
    return cursor.peek(ahead).upper in STARTS


def refuse_time_travel(cursor: Cursor, start: int) -> None:
    """Raise if AS OF EPOCH stands anywhere from a token on: only queries of the user go back."""
    for first, last, _ in _time_travel(cursor, start):
        raise cursor.here(
            NotSupported("AS OF EPOCH here", "only a SELECT of its own can read an older epoch"),
            first,
            until=last,
        )


def refuse_streams(cursor: Cursor, start: int) -> None:
    """Raise at FROM STREAM t, which other parsers take for a table STREAM with an alias."""
    for place in range(start, len(cursor.tokens) - 2):
        before, word, after = cursor.tokens[place : place + 3]
        if not (before.is_word("FROM", "JOIN") and word.is_word("STREAM")):
            continue
        named = after.kind is Kind.QUOTED or after.is_symbol("(")
        if named or (after.kind is Kind.WORD and after.upper not in (*_CLAUSES, "AS")):
            error = NotSupported(
                "FROM STREAM",
                "every view follows the changes of what it reads: leave STREAM out;"
                " a table of that name goes in backquotes",
            )
            raise cursor.here(error, word)


def _skip_ctes(cursor: Cursor) -> None:
    cursor.accept("RECURSIVE")
    while True:
        cursor.identifier("the name of a common table expression")
        if cursor.looks_at("("):
            _skip_brackets(cursor)
        if cursor.accept("MAX", "RECURSION", "LEVEL"):
            cursor.next()
        cursor.accept("AS")
        if not cursor.looks_at("("):
            cursor.unexpected("a query in brackets")
        _skip_brackets(cursor)
        if not cursor.accept(","):
            return


def _skip_brackets(cursor: Cursor) -> None:
    depth = 0
    while not cursor.done():
        token = cursor.next()
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0:
            return


def _time_travel(cursor: Cursor, start: int) -> list[tuple[Token, Token, int]]:
    """Find every AS OF EPOCH n: its first and last token, and the epoch."""
    found = []
    probe = Cursor(cursor.text, cursor.tokens)
    for place in range(start, len(cursor.tokens)):
        probe.at = place
        if not probe.accept("AS", "OF", "EPOCH"):
            continue
        epoch = probe.integer("the number of an epoch")
        first, last = cursor.tokens[place], cursor.tokens[probe.at - 1]
        if not _after_relation(cursor.tokens, start, place):
            error = SqlSyntaxError("AS OF EPOCH stands after the name of what is read")
            raise cursor.here(error, first, until=last)
        found.append((first, last, epoch))
    return found


def _after_relation(tokens: Sequence[Token], start: int, place: int) -> bool:
    if place == start or tokens[place - 1].kind not in (Kind.WORD, Kind.QUOTED):
        return False
    depth = 0
    for token in reversed(tokens[start:place]):
        depth += token.is_symbol(")") - token.is_symbol("(")
        if depth < 0:
            return False
        if depth == 0 and token.upper in _CLAUSES:
            return token.upper in _READS
    return False


def _blanked(text: str, start: int, end: int) -> str:
    inside = "".join("\n" if char == "\n" else " " for char in text[start:end])
    return text[:start] + inside + text[end:]
