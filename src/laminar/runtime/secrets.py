"""Options that only their owner should know: never shown, neither as values nor in SQL text."""

from __future__ import annotations

import re
from collections.abc import Mapping

from laminar.errors import SqlError
from laminar.sql.tokens import Kind, Token, tokenize

_SECRET = re.compile(r"password|secret|token|credential|(api|access|private).?key", re.IGNORECASE)
_HIDDEN = "***"


def shown_options(options: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return options as pairs, without the values of secret ones."""
    return [
        (name, _HIDDEN if _SECRET.search(name) else value)
        for name, value in sorted(options.items())
    ]


def shown_sql(sql: str) -> str:
    """Return the text of a CREATE SOURCE or CREATE SINK without the values of secret options."""
    try:
        tokens = tokenize(sql)
    except SqlError:
        return _HIDDEN  # a text that cannot be read may hold anything
    kept, at = [], 0
    for place, token in enumerate(tokens):
        if place >= 2 and tokens[place - 1].is_symbol("=") and _is_secret(tokens, place - 2):
            kept += [sql[at : token.start], f"'{_HIDDEN}'"]
            at = token.end
    return "".join([*kept, sql[at:]])


def _is_secret(tokens: tuple[Token, ...], last: int) -> bool:
    """Whether the name that ends here, such as `sasl.password`, is a secret's."""
    first = last
    while first >= 2 and tokens[first - 1].is_symbol("."):
        first -= 2
    parts = (each.value for each in tokens[first : last + 1] if each.kind is not Kind.SYMBOL)
    return _SECRET.search(".".join(parts)) is not None
