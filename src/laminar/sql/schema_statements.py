"""CREATE SCHEMA, DROP SCHEMA and USE; DATABASE says the same."""

from __future__ import annotations

from laminar.errors.sql import NotSupported
from laminar.sql.cursor import Cursor
from laminar.sql.statements import CreateSchema, DropSchema, Use
from laminar.sql.with_options import take_text

_A_SCHEMA = "the name of a schema"
_CLAUSES = {
    "LOCATION": "leave it out: all that is in a database is in its folder",
    "MANAGED": "leave it out: all that is in a database is in its folder",
    "WITH": "leave WITH DBPROPERTIES out",
}


def take_schema(cursor: Cursor, start: int) -> CreateSchema:
    """Take what follows CREATE: SCHEMA [IF NOT EXISTS] name [COMMENT 'text']."""
    cursor.one_of("SCHEMA", "DATABASE")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name(_A_SCHEMA)
    comment = take_text(cursor) if cursor.accept("COMMENT") else ""
    word = cursor.peek().upper
    if word in _CLAUSES:
        raise cursor.here(NotSupported(f"{word} of a schema", _CLAUSES[word]))
    cursor.finish()
    return CreateSchema(name, comment, if_not_exists, **cursor.origin(start))


def take_drop_schema(cursor: Cursor, start: int) -> DropSchema:
    """Take what follows DROP: SCHEMA [IF EXISTS] name [RESTRICT | CASCADE]."""
    cursor.one_of("SCHEMA", "DATABASE")
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name(_A_SCHEMA)
    cascade = cursor.accept("CASCADE")
    if not cascade and not cursor.accept("RESTRICT") and not cursor.done():
        cursor.unexpected("RESTRICT", "CASCADE")
    return DropSchema(name, if_exists, cascade, **cursor.origin(start))


def take_use(cursor: Cursor) -> Use:
    """Take USE [SCHEMA | DATABASE] name."""
    start = cursor.at
    cursor.expect("USE")
    if cursor.peek(1).text and not cursor.peek(1).is_symbol("."):
        cursor.one_of("SCHEMA", "DATABASE")
    name = cursor.name(_A_SCHEMA)
    cursor.finish()
    return Use(name, **cursor.origin(start))
