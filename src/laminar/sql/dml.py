"""Statements that change rows: INSERT, DELETE, UPDATE."""

from __future__ import annotations

from laminar.errors.sql import NotSupported
from laminar.sql.cursor import Cursor
from laminar.sql.query import starts_query, take_query_head
from laminar.sql.statements import Delete, Insert, Update
from laminar.sql.table_changes import refuse_changes
from laminar.sql.time_travel import refuse_time_travel

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
