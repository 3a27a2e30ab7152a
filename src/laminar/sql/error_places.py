"""Where in a script an error belongs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeVar

from laminar.errors import (
    BadOption,
    InvalidSchema,
    LaminarError,
    MissingOption,
    MvError,
    SqlError,
    UnknownConnector,
    UnknownOption,
    UnknownRelation,
)
from laminar.sql.keywords import keywords
from laminar.sql.schemas import last_of
from laminar.sql.statements import CreateView, Explain, Insert, Statement
from laminar.sql.time_travel import reads_relations
from laminar.sql.tokens import Kind, Token, tokenize

_E = TypeVar("_E", bound=LaminarError)

ABOUT_A_STATEMENT = (
    SqlError,
    MvError,
    InvalidSchema,
    UnknownConnector,
    UnknownOption,
    MissingOption,
    BadOption,
)
"""Errors about what a statement says; all others are about what happened while it ran."""

_BEFORE_RELATION = keywords(
    "FROM JOIN INTO UPDATE TABLE VIEW SOURCE SINK FOR CREATE DESCRIBE DESC EXISTS USING"
)


def placed(error: _E, statement: Statement) -> _E:
    """Make an error of a statement say where in the script it is.

    One that points into the statement's query is moved to where that stands. One that points
    nowhere is put at the first word it is about, or else where the statement starts. Errors about
    rows belong to no place in the script.
    """
    if isinstance(statement, Explain) and isinstance(statement.target, Statement):
        statement = statement.target
    if error.span is None:
        error.at(statement.text, *_about(error, statement.text))
    elif isinstance(statement, CreateView | Insert):
        offset, length = error.span
        offset += statement.query_location.offset - statement.location.offset
        error.at(statement.text, offset, length)
    return error.within(statement.location.line, statement.location.column)


def _about(error: LaminarError, text: str) -> tuple[int, int]:
    tokens = tokenize(text)
    for word in _words(error):
        found = [
            (first, last)
            for first, last in _names(tokens, word.count("."))
            if _spelled(tokens[first : last + 1]) == word.replace("`", "").casefold()
        ]
        if isinstance(error, UnknownRelation):
            # A column may be called the same, and stand before.
            found.sort(key=lambda place: _doubt(tokens, place[0]))
        if found:
            first, last = found[0]
            return tokens[first].start, tokens[last].end - tokens[first].start
    return tokens[0].start, tokens[0].end - tokens[0].start


def _names(tokens: Sequence[Token], dots: int) -> Iterator[tuple[int, int]]:
    """Yield the first and last token of every name with so many dots, and of every single word."""
    for first in range(len(tokens)):
        last = first + 2 * dots
        between = tokens[first + 1 : last : 2]
        if dots and last < len(tokens) and all(each.is_symbol(".") for each in between):
            yield first, last
        yield first, first


def _spelled(tokens: Sequence[Token]) -> str:
    return "".join(token.value for token in tokens).replace("`", "").casefold()


def _doubt(tokens: Sequence[Token], place: int) -> int:
    """Return how doubtful it is that a relation is named here; a list may be one of columns."""
    before = tokens[place - 1] if place else None
    if before is not None and before.kind is Kind.WORD and before.upper in _BEFORE_RELATION:
        return 0
    if before is None or not before.is_symbol(","):
        return 3
    return 1 if reads_relations(tokens[:place]) else 2


def _words(error: LaminarError) -> Iterator[str]:
    """Yield what an error is about, as it may stand in the text."""
    for field in ("value", "option", "function", "name", "connector"):
        found = getattr(error, field, None)
        if isinstance(found, str):
            yield found
            yield last_of(found)  # an identity says more than what was written
    what = getattr(error, "what", "")
    yield from re.findall(r'"([^"]+)"', what)
    yield from what.split()[:1]
