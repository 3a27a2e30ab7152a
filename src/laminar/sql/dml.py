"""Statements that change rows: INSERT, DELETE, UPDATE."""

from __future__ import annotations

from collections.abc import Callable

from laminar.errors.sql import NotSupported
from laminar.sql.cursor import Cursor
from laminar.sql.query import starts_query, take_query_head
from laminar.sql.statements import Delete, Insert, Update
from laminar.sql.table_changes import refuse_changes
from laminar.sql.time_travel import refuse_time_travel
from laminar.sql.tokens import tokenize

_A_TABLE = "the name of a table"
_A_COLUMN = "the name of a column"


def take_insert(cursor: Cursor) -> Insert:
    """Take INSERT INTO t [(columns)] query."""
    start = cursor.at
    cursor.expect("INSERT")
    if cursor.looks_at("OVERWRITE"):
        raise cursor.here(NotSupported("INSERT OVERWRITE", "DELETE first, then INSERT INTO"))
    cursor.expect("INTO")
    cursor.accept("TABLE")
    table = cursor.name(_A_TABLE)
    for clause in (("BY", "NAME"), ("PARTITION",), ("REPLACE",)):
        if cursor.looks_at(*clause):
            raise cursor.here(NotSupported(" ".join(clause), "name the columns in brackets"))
    columns = () if starts_query(cursor) or not cursor.looks_at("(") else _columns(cursor)
    if not starts_query(cursor):
        cursor.unexpected("VALUES", "SELECT")
    location, first = cursor.location(), cursor.at
    take_query_head(cursor)
    refuse_time_travel(cursor, first)
    query = cursor.slice(first, cursor.at)
    return Insert(table, columns, query, query_location=location, **cursor.origin(start))


def take_delete(cursor: Cursor) -> Delete:
    """Take DELETE FROM t [WHERE condition]."""
    start = cursor.at
    cursor.expect("DELETE", "FROM")
    table = cursor.name(_A_TABLE)
    where = _where(cursor)
    return Delete(table, where, **cursor.origin(start))


def take_update(cursor: Cursor) -> Update:
    """Take UPDATE t SET column = expression, ... [WHERE condition]."""
    start = cursor.at
    cursor.expect("UPDATE")
    table = cursor.name(_A_TABLE)
    cursor.expect("SET")
    assignments: dict[str, str] = {}
    while True:
        token = cursor.peek()
        column = cursor.identifier(_A_COLUMN)
        if cursor.looks_at("."):
            hint = "set a whole column of this table"
            raise cursor.here(NotSupported("a part of a column in SET", hint), token)
        if any(column.casefold() == known.casefold() for known in assignments):
            cursor.fail(f'column "{column}" is set twice', hint="remove one of them", token=token)
        cursor.expect("=")
        assignments[column] = cursor.expression("an expression", ",", "WHERE")
        if not cursor.accept(","):
            break
    where = _where(cursor)
    return Update(table, tuple(assignments.items()), where, **cursor.origin(start))


def _columns(cursor: Cursor) -> tuple[str, ...]:
    cursor.expect("(")
    names: list[str] = []
    while True:
        token = cursor.peek()
        name = cursor.identifier(_A_COLUMN)
        if any(name.casefold() == known.casefold() for known in names):
            cursor.fail(f'column "{name}" is named twice', hint="remove one of them", token=token)
        names.append(name)
        if not cursor.accept(","):
            break
    if not cursor.accept(")"):
        cursor.unexpected(",", ")")
    return tuple(names)


def _where(cursor: Cursor) -> str | None:
    if cursor.done():
        return None
    if not cursor.accept("WHERE"):
        cursor.unexpected("WHERE")
    refuse_time_travel(cursor, cursor.at)
    refuse_changes(cursor, cursor.at)
    return cursor.rest("a condition")


def with_defaults(query: str, default: Callable[[int], str]) -> str:
    """Return VALUES with every DEFAULT that is a value of its own replaced.

    Args:
        query: what is inserted; one that is not VALUES stays as it is.
        default: what it stands for, by its place in the row.
    """
    tokens = tokenize(query)
    if not tokens or not tokens[0].is_word("VALUES"):
        return query
    made: list[str] = []
    at = depth = place = 0
    for before, token, after in zip(tokens, tokens[1:], (*tokens[2:], None), strict=False):
        depth += token.is_symbol("(") - token.is_symbol(")")
        place = place + 1 if depth == 1 and token.is_symbol(",") else place if depth else 0
        is_first = before.upper in (",", "(", "VALUES") and depth <= 1
        is_last = after is None or after.upper in (",", ")")
        if token.is_word("DEFAULT") and is_first and is_last:
            made += [query[at : token.start], default(place)]
            at = token.end
    return "".join([*made, query[at:]])
