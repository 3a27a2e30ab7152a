"""Names of the system's own relations in a query: `laminar_system.something`."""

from __future__ import annotations

from collections.abc import Iterable

from laminar.sql.tokens import Kind, Token, tokenize

SYSTEM = "laminar_system"
"""The schema of all relations that describe the system itself."""


def system_table(name: str) -> str | None:
    """Return what follows the schema, in lower case; None for a relation of the user's."""
    schema, dot, rest = name.partition(".")
    return rest.lower() if dot and schema.lower() == SYSTEM else None


def name_system_tables(query: str, tables: Iterable[str]) -> tuple[str, dict[str, str]]:
    """Return the query with every system relation under a name of one part, and those names.

    Spark binds a frame to a name without a schema. That name is the relation's own, so that a
    column can be qualified by it, unless something else in the query is called that: then it is
    the full name, with its dot, as one part.
    """
    tokens = tokenize(query)
    names = {
        table: f"{SYSTEM}.{table}" if _stands_alone(tokens, table) else table for table in tables
    }
    kept, at = [], 0
    for place in range(len(tokens) - 2):
        table = _named_at(tokens, place)
        if table in names:
            kept += [query[at : tokens[place].start], f"`{names[table]}`"]
            at = tokens[place + 2].end
    return "".join([*kept, query[at:]]), names


def _named_at(tokens: tuple[Token, ...], place: int) -> str:
    schema, dot, table = tokens[place : place + 3]
    is_schema = schema.kind in (Kind.WORD, Kind.QUOTED) and schema.value.lower() == SYSTEM
    return table.value.lower() if is_schema and dot.is_symbol(".") else ""


def _stands_alone(tokens: tuple[Token, ...], table: str) -> bool:
    """Whether the word is used without the schema, and not to qualify a column."""
    for place, token in enumerate(tokens):
        if token.kind not in (Kind.WORD, Kind.QUOTED) or token.value.lower() != table:
            continue
        if place >= 2 and _named_at(tokens, place - 2) == table:
            continue
        after = tokens[place + 1] if place + 1 < len(tokens) else None
        if after is None or not after.is_symbol("."):
            return True
    return False
