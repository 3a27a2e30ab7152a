"""The text of CREATE MATERIALIZED VIEW with other options."""

from __future__ import annotations

from collections.abc import Mapping

from laminar.sql.cursor import Cursor
from laminar.sql.options import take_options
from laminar.sql.tokens import tokenize


def with_options(statement: str, options: Mapping[str, str]) -> str:
    """Return the statement with options changed or added; the rest stays as it was written."""
    cursor = Cursor(statement, tokenize(statement))
    cursor.expect("CREATE")
    cursor.accept("OR", "REPLACE")
    cursor.expect("MATERIALIZED", "VIEW")
    cursor.accept("IF", "NOT", "EXISTS")
    cursor.name("the name of a view")
    end = cursor.peek(-1).end
    given: dict[str, str] = {}
    if cursor.accept("WITH"):
        given = {name.lower(): value for name, value in take_options(cursor).items()}
    rest = statement[cursor.peek().start :]
    listed = ", ".join(
        f"{name} = {_literal(value)}" for name, value in {**given, **options}.items()
    )
    return f"{statement[:end]} WITH ({listed}) {rest}"


def _literal(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
