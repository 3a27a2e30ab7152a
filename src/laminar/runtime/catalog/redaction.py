"""Options that only their owner should know: never shown, neither as values nor in SQL text."""

from __future__ import annotations

from collections.abc import Mapping

from laminar.errors import SqlError
from laminar.errors.secrets import HIDDEN, is_secret
from laminar.runtime.catalog.definitions import Definition, TableDefinition
from laminar.sql.tokens import Kind, Token, tokenize


def shown_options(options: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return options as pairs, without the values of secret ones."""
    return [(name, HIDDEN if is_secret(name) else value) for name, value in sorted(options.items())]


def shown_definition(definition: Definition) -> str:
    """Return the statement that defined a relation as anybody may see it; empty if none did.

    A condition of a view such as `token = 'x'` is no option.
    """
    is_table = isinstance(definition, TableDefinition)
    return shown_sql(definition.sql) if is_table else definition.sql


def shown_sql(sql: str) -> str:
    """Return the text of a CREATE SOURCE or CREATE SINK without the values of secret options."""
    try:
        tokens = tokenize(sql)
    except SqlError:
        return HIDDEN  # a text that cannot be read may hold anything
    kept, at = [], 0
    for place, token in enumerate(tokens):
        if place >= 2 and tokens[place - 1].is_symbol("=") and _is_secret(tokens, place - 2):
            kept += [sql[at : token.start], f"'{HIDDEN}'"]
            at = token.end
    return "".join([*kept, sql[at:]])


def _is_secret(tokens: tuple[Token, ...], last: int) -> bool:
    """Whether the name that ends here, such as `sasl.password`, is a secret's."""
    first = last
    while first >= 2 and tokens[first - 1].is_symbol("."):
        first -= 2
    parts = (each.value for each in tokens[first : last + 1] if each.kind is not Kind.SYMBOL)
    return is_secret(".".join(parts))
