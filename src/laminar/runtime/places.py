"""Where in a script an error belongs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from laminar.errors import SqlError
from laminar.sql.statements import CreateView, Explain, Insert, Statement
from laminar.sql.tokens import tokenize


def placed(error: SqlError, statement: Statement) -> SqlError:
    """Make an error of a statement say where in the script it is.

    One that points into the statement's query is moved to where that stands. One that points
    nowhere is put at the first word it is about, or else where the statement starts.
    """
    if isinstance(statement, Explain) and isinstance(statement.target, Statement):
        statement = statement.target
    if error.line is None:
        error.at(statement.text, *_about(error, statement.text))
        origin = statement.location
    elif isinstance(statement, CreateView | Insert):
        origin = statement.query_location
    else:
        origin = statement.location
    return error.within(origin.line, origin.column)


def _about(error: SqlError, text: str) -> tuple[int, int]:
    tokens = tokenize(text)
    for word in _words(error):
        for token in tokens:
            if token.value.casefold() == word.casefold():
                return token.start, token.end - token.start
    first = tokens[0]
    return first.start, first.end - first.start


def _words(error: SqlError) -> Iterator[str]:
    """Yield what an error is about, as it may stand in the text."""
    for field in ("value", "option", "function", "name"):
        found = getattr(error, field, None)
        if isinstance(found, str):
            yield found
    what = getattr(error, "what", "")
    yield from re.findall(r'"([^"]+)"', what)
    yield from what.split()[:1]
