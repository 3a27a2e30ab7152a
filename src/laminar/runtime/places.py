"""Where in a script an error belongs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from laminar.errors import (
    BadOption,
    LaminarError,
    MissingOption,
    MvError,
    SqlError,
    UnknownConnector,
    UnknownOption,
)
from laminar.sql.statements import CreateView, Explain, Insert, Statement
from laminar.sql.tokens import Token, tokenize

_NAMING = (BadOption, MissingOption, MvError, UnknownConnector, UnknownOption)
"""Errors that are about a word of the statement, though not the front end's own."""


def placed(error: LaminarError, statement: Statement) -> LaminarError:
    """Make an error of a statement say where in the script it is.

    One that points into the statement's query is moved to where that stands. One that points
    nowhere is put at the first word it is about, or else where the statement starts. Errors about
    rows belong to no place in the script.
    """
    if isinstance(statement, Explain) and isinstance(statement.target, Statement):
        statement = statement.target
    if not isinstance(error, SqlError):
        return _annotated(error, statement) if isinstance(error, _NAMING) else error
    if error.line is None:
        error.at(statement.text, *_about(error, statement.text))
        origin = statement.location
    elif isinstance(statement, CreateView | Insert):
        origin = statement.query_location
    else:
        origin = statement.location
    return error.within(origin.line, origin.column)


def _annotated(error: LaminarError, statement: Statement) -> LaminarError:
    """Add the place to the detail of an error that other parts of the system raise too."""
    place = SqlError("").at(statement.text, *_about(error, statement.text))
    place.within(statement.location.line, statement.location.column)
    error.detail = f"{error.detail}\n  {place.detail}" if error.detail else place.detail
    return error


def _about(error: LaminarError, text: str) -> tuple[int, int]:
    tokens = tokenize(text)
    for word in _words(error):
        for place in range(len(tokens)):
            end = _reaches(tokens, place, word.casefold())
            if end is not None:
                return tokens[place].start, end - tokens[place].start
    first = tokens[0]
    return first.start, first.end - first.start


def _reaches(tokens: tuple[Token, ...], place: int, word: str) -> int | None:
    """Return where a word ends that starts at a token; it may have several parts with dots."""
    spelled = ""
    while place < len(tokens):
        spelled += tokens[place].value.casefold()
        if spelled == word:
            return tokens[place].end
        place += 1
        if not word.startswith(spelled):
            return None
    return None


def _words(error: LaminarError) -> Iterator[str]:
    """Yield what an error is about, as it may stand in the text."""
    for field in ("value", "option", "function", "name"):
        found = getattr(error, field, None)
        if isinstance(found, str):
            yield found
    what = getattr(error, "what", "")
    yield from re.findall(r'"([^"]+)"', what)
    yield from what.split()[:1]
