"""CREATE TABLE, SOURCE, MATERIALIZED VIEW and SINK."""

from __future__ import annotations

from laminar.errors.sql import NotSupported
from laminar.sql.create_function import take_function
from laminar.sql.cursor import Cursor
from laminar.sql.parameters import refuse_parameters
from laminar.sql.query import take_query_head
from laminar.sql.schema_statements import take_schema
from laminar.sql.statements import (
    CreateSink,
    CreateTable,
    CreateView,
    RelationKind,
    Statement,
)
from laminar.sql.table_changes import refuse_changes
from laminar.sql.table_columns import take_columns
from laminar.sql.time_travel import refuse_time_travel
from laminar.sql.trailing import find_trailing, take_trailing
from laminar.sql.with_options import take_about, take_options

_NOT_YET = {
    "VIEW": "create a MATERIALIZED VIEW",
    "TEMPORARY": "leave TEMPORARY out: what is created lasts",
    "TEMP": "leave TEMP out: what is created lasts",
    "EXTERNAL": "create a SOURCE with a connector",
    "INDEX": "",
    "STREAMING": "create a SOURCE",
}
_NOT_YET_IN_TABLES = {
    "AS": "create the table, then INSERT INTO it, or create a MATERIALIZED VIEW",
    "USING": "name a connector: CREATE SOURCE ... WITH (connector = ...)",
    "LIKE": "declare the columns",
    "PARTITIONED": "leave it out",
    "CLUSTERED": "leave it out",
    "LOCATION": "leave it out",
    "OPTIONS": "give options as WITH (name = value)",
}


def take_create(cursor: Cursor) -> Statement:
    """Take a statement that starts with CREATE."""
    start = cursor.at
    cursor.expect("CREATE")
    replace = cursor.peek()
    or_replace = cursor.accept("OR", "REPLACE")
    if cursor.looks_at("MATERIALIZED"):
        return _view(cursor, start, or_replace=or_replace)
    if cursor.looks_at("FUNCTION"):
        return take_function(cursor, start, or_replace=or_replace)
    if cursor.peek().is_word("SCHEMA", "DATABASE") and not or_replace:
        return take_schema(cursor, start)
    if or_replace:
        what = f"CREATE OR REPLACE {cursor.peek().upper}".rstrip()
        hint = "only a MATERIALIZED VIEW or a FUNCTION can be replaced; DROP it first"
        raise cursor.here(NotSupported(what, hint), replace, until=cursor.peek(-1))
    if cursor.peek().upper in _NOT_YET:
        word = cursor.peek().upper
        raise cursor.here(NotSupported(f"CREATE {word}", _NOT_YET[word]))
    kind = cursor.one_of("TABLE", "SOURCE", "MATERIALIZED", "SINK")
    return _sink(cursor, start) if kind == "SINK" else _table(cursor, start, RelationKind(kind))


def _table(cursor: Cursor, start: int, kind: RelationKind) -> CreateTable:
    if kind is RelationKind.SOURCE:
        cursor.accept("TABLE")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name(f"the name of a {kind.lower()}")
    _refuse_table_clause(cursor)
    declared = take_columns(cursor)
    watermark = declared.watermark
    if watermark is not None and kind is RelationKind.TABLE:
        hint = "declare a SOURCE, or leave the watermark out"
        raise cursor.here(NotSupported("a WATERMARK of a table", hint), declared.watermark_token)
    about = take_about(cursor)
    options = take_options(cursor) if cursor.accept("WITH") else {}
    _refuse_table_clause(cursor)
    cursor.finish()
    return CreateTable(
        name,
        tuple(declared.columns),
        kind,
        tuple(declared.key),
        watermark,
        options,
        if_not_exists,
        tuple(declared.checks),
        about,
        **cursor.origin(start),
    )


def _refuse_table_clause(cursor: Cursor) -> None:
    word = cursor.peek().upper
    if word in _NOT_YET_IN_TABLES:
        raise cursor.here(NotSupported(f"{word} in a table", _NOT_YET_IN_TABLES[word]))


def _view(cursor: Cursor, start: int, *, or_replace: bool) -> CreateView:
    cursor.expect("MATERIALIZED", "VIEW")
    token = cursor.peek()
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    if if_not_exists and or_replace:
        cursor.fail("OR REPLACE and IF NOT EXISTS exclude each other", token=token)
    name = cursor.name("the name of a view")
    if cursor.looks_at("("):
        hint = "name the columns in the query, with AS"
        raise cursor.here(NotSupported("a list of columns before the query", hint))
    about = take_about(cursor)
    options = take_options(cursor) if cursor.accept("WITH") else {}
    cursor.expect("AS")
    query_location = cursor.location()
    first = cursor.at
    clauses = find_trailing(cursor, first)
    query = _view_query(cursor, first, clauses)
    cursor.at = clauses
    trailing = take_trailing(cursor)
    return CreateView(
        name,
        query,
        options,
        or_replace,
        if_not_exists,
        trailing.emit,
        trailing.lateness,
        trailing.late_data_to,
        about,
        query_location=query_location,
        **cursor.origin(start),
    )


def _view_query(cursor: Cursor, start: int, stop: int) -> str:
    """Return the query between two tokens; raise if it is none, or not one for a view."""
    inside = Cursor(cursor.text, cursor.tokens[:stop])
    inside.at = start
    take_query_head(inside)
    refuse_time_travel(inside, start)
    refuse_changes(inside, start)
    refuse_parameters(cursor, start, stop)
    return cursor.slice(start, stop)


def _sink(cursor: Cursor, start: int) -> CreateSink:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name("the name of a sink")
    cursor.expect("FROM")
    source = cursor.name("the name of what it publishes")
    cursor.expect("WITH")
    options = take_options(cursor)
    cursor.finish()
    return CreateSink(name, source, options, if_not_exists, **cursor.origin(start))
