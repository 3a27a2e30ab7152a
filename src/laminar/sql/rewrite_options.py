"""The text of CREATE MATERIALIZED VIEW, or of CREATE SOURCE, with other options."""

from __future__ import annotations

from collections.abc import Mapping

from laminar.model.quoting import string_literal
from laminar.sql.cursor import Cursor
from laminar.sql.tokens import tokenize
from laminar.sql.with_options import take_about, take_options


def with_options(statement: str, options: Mapping[str, str]) -> str:
    """Return the statement with options changed or added; the rest stays as it was written."""
    cursor = Cursor(statement, tokenize(statement))
    cursor.expect("CREATE")
    cursor.accept("OR", "REPLACE")
    cursor.expect("MATERIALIZED", "VIEW")
    cursor.accept("IF", "NOT", "EXISTS")
    cursor.name("the name of a view")
    take_about(cursor)
    end = cursor.peek(-1).end
    given: dict[str, str] = {}
    if cursor.accept("WITH"):
        given = {name.lower(): value for name, value in take_options(cursor).items()}
    rest = statement[cursor.peek().start :]
    return f"{statement[:end]} WITH ({_listed({**given, **options})}) {rest}"


def with_source_options(statement: str, options: Mapping[str, str]) -> str:
    """Return CREATE SOURCE with these options and its connector; they stand behind the columns."""
    cursor = Cursor(statement, tokenize(statement))
    depth, end = 0, len(statement)
    while not cursor.done() and not (depth == 0 and cursor.looks_at("WITH")):
        token = cursor.next()
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        end = token.end
    given = take_options(cursor) if cursor.accept("WITH") else {}
    kept = {name: value for name, value in given.items() if name.lower() == "connector"}
    return f"{statement[:end]} WITH ({_listed({**kept, **options})})"


def _listed(options: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {string_literal(value)}" for name, value in options.items())
