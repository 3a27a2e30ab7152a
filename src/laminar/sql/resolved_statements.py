"""Statements in which every name is an identity, so that the schema of the moment has no say later.

What a user wrote is kept beside: errors point into it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from laminar.errors.base import LaminarError
from laminar.errors.qualified_names import UnknownSchema
from laminar.errors.sql import NotSupported, SqlError
from laminar.model.quoting import backquoted
from laminar.sql import statements as s
from laminar.sql.create import take_create
from laminar.sql.cursor import Cursor
from laminar.sql.manage import OF_A_SCHEMA
from laminar.sql.resolved_names import (
    Edit,
    Given,
    Rewritten,
    query_in_full,
    resolved_query,
)
from laminar.sql.schemas import CATALOG, DEFAULT, Names, last_of, parts_of, written_in_full
from laminar.sql.system import SYSTEM
from laminar.sql.tokens import tokenize

_E = TypeVar("_E", bound=LaminarError)


@dataclass(frozen=True, slots=True)
class Resolved:
    """A statement to run, and its query as it was written."""

    statement: s.Statement
    query: Rewritten | None = None

    def pointed(self, error: _E) -> _E:
        """Make an error that points into the query point into what the user wrote."""
        return error if self.query is None else self.query.pointed(error)


def resolved(statement: s.Statement, names: Names) -> Resolved:
    """Return a statement whose names are identities.

    Raises:
        UnknownSchema: a name is in a schema that does not exist.
    """
    special = _SPECIAL.get(type(statement))
    if special is not None:
        return special(statement, names)
    if isinstance(statement, _NAMED):
        return Resolved(replace(statement, name=names.identity(statement.name)))
    return Resolved(statement)


def in_full(text: str, names: Names) -> str:
    """Return the text of a CREATE statement that means the same whatever the current schema is."""
    cursor = Cursor(text, tokenize(text))
    made = take_create(cursor)
    spans = [(cursor.tokens[a].start, cursor.tokens[b - 1].end) for a, b in cursor.named]
    edits = [
        Edit(start, stop, written_in_full(names.identity(text[start:stop])))
        for start, stop in spans
    ]
    if isinstance(made, s.CreateView):
        at = made.query_location.offset
        inside = query_in_full(made.query, names)
        edits += [Edit(each.start + at, each.stop + at, each.text) for each in inside]
    return Rewritten.by(text, edits).text


def _function_name(name: str) -> str:
    """Return the name of a function, which are those of the database and of no schema.

    Raises:
        NotSupported: it is in a schema other than `default`.
    """
    *owner, last = parts_of(name)
    if [each.lower() for each in owner] not in ([], [DEFAULT], [CATALOG, DEFAULT]):
        hint = f"functions are known in all schemas: call it {last}"
        raise NotSupported(f'the function "{name}" in a schema', hint)
    return last if owner else name


def _create_table(statement: s.CreateTable, names: Names) -> Resolved:
    def local(text: str | None) -> str | None:
        return None if text is None else resolved_query(text, names, session=False).text

    columns = tuple(
        replace(each, default=local(each.default), generated=local(each.generated))
        for each in statement.columns
    )
    checks = tuple(
        replace(each, condition=resolved_query(each.condition, names, session=False).text)
        for each in statement.checks
    )
    name = names.identity(statement.name)
    return Resolved(replace(statement, name=name, columns=columns, checks=checks))


def _create_view(statement: s.CreateView, names: Names) -> Resolved:
    query = resolved_query(statement.query, names, session=False)
    late = statement.late_data_to
    made = replace(
        statement,
        name=names.identity(statement.name),
        query=query.text,
        late_data_to=None if late is None else names.identity(late),
    )
    return Resolved(made, query)


def _create_sink(statement: s.CreateSink, names: Names) -> Resolved:
    name, source = names.identity(statement.name), names.identity(statement.source)
    return Resolved(replace(statement, name=name, source=source))


def _create_function(statement: s.CreateFunction, names: Names) -> Resolved:
    body = resolved_query(statement.body, names, session=False).text
    return Resolved(replace(statement, name=_function_name(statement.name), body=body))


def _drop_function(statement: s.DropFunction, _: Names) -> Resolved:
    return Resolved(replace(statement, name=_function_name(statement.name)))


def _describe(statement: s.Describe, names: Names) -> Resolved:
    if statement.is_function:
        return Resolved(replace(statement, name=_function_name(statement.name)))
    if statement.is_schema:
        return Resolved(replace(statement, name=names.schema(statement.name)))
    return Resolved(replace(statement, name=names.identity(statement.name)))


def _show(statement: s.Show, names: Names) -> Resolved:
    if statement.what is s.ShowKind.CREATE_FUNCTION:
        return Resolved(replace(statement, name=_function_name(statement.name or "")))
    if statement.name is not None:
        return Resolved(replace(statement, name=names.identity(statement.name)))
    if statement.what not in OF_A_SCHEMA:
        return Resolved(statement)
    asked = statement.schema or backquoted(names.current)
    return Resolved(replace(statement, schema=names.schema(asked)))


def _drop(statement: s.Drop, names: Names) -> Resolved:
    try:
        name = names.identity(statement.name)
    except UnknownSchema:
        if not statement.if_exists:
            raise
        name = statement.name  # of a schema that does not exist either: it is gone already
    return Resolved(replace(statement, name=name))


def _drop_schema(statement: s.DropSchema, names: Names) -> Resolved:
    try:
        name = names.schema(statement.name)
    except UnknownSchema:
        if not statement.if_exists:
            raise
        return Resolved(replace(statement, name=""))
    if name in (DEFAULT, SYSTEM):
        raise NotSupported(f"dropping the schema {name}", "every database has it")
    return Resolved(replace(statement, name=name))


def _use(statement: s.Use, names: Names) -> Resolved:
    parts = parts_of(statement.schema)
    is_catalog = len(parts) == 1 and parts[0].lower() == CATALOG
    schema = DEFAULT if is_catalog else names.schema(statement.schema)
    if schema == SYSTEM:
        raise NotSupported(f"USE {SYSTEM}", "write it before each name")
    return Resolved(replace(statement, schema=schema))


def _insert(statement: s.Insert, names: Names) -> Resolved:
    query = resolved_query(statement.query, names)
    made = replace(statement, table=names.identity(statement.table), query=query.text)
    return Resolved(made, query)


def _among(names: Names, given: Sequence[Given]) -> Callable[[str | None], Any]:
    """Return what resolves the names of an expression over some relations."""

    def local(text: str | None) -> str | None:
        try:
            return None if text is None else resolved_query(text, names, given=given).text
        except SqlError as error:
            raise error.anywhere() from None  # where in the statement it is, is not known here

    return local


def _delete(statement: s.Delete, names: Names) -> Resolved:
    table = names.identity(statement.table)
    where = _among(names, [Given(table, table)])(statement.where)
    return Resolved(replace(statement, table=table, where=where))


def _update(statement: s.Update, names: Names) -> Resolved:
    table = names.identity(statement.table)
    local = _among(names, [Given(table, table)])
    assignments = tuple((column, local(value)) for column, value in statement.assignments)
    where = local(statement.where)
    return Resolved(replace(statement, table=table, assignments=assignments, where=where))


def _merge(statement: s.Merge, names: Names) -> Resolved:
    table, alias = names.identity(statement.table), statement.source_alias
    given = [] if statement.alias is not None else [Given(table, table)]
    if statement.source.startswith("("):
        source = _among(names, [])(statement.source)
    else:
        identity = names.known(parts_of(statement.source))
        source = backquoted(identity) if not identity.startswith(f"{SYSTEM}.") else identity
        if alias.lower() == last_of(identity).lower():
            alias = identity if given and alias.lower() == last_of(table).lower() else alias
            given.append(Given(identity, alias))
    local = _among(names, given)
    clauses = tuple(
        replace(
            each,
            condition=local(each.condition),
            values=tuple((column, local(value)) for column, value in each.values),
        )
        for each in statement.clauses
    )
    made = replace(
        statement,
        table=table,
        source=source,
        source_alias=alias,
        on=local(statement.on),
        clauses=clauses,
    )
    return Resolved(made)


def _query(statement: s.Query, names: Names) -> Resolved:
    pasts = tuple(
        replace(each, relation=names.known(parts_of(each.relation))) for each in statement.pasts
    )
    own = [each.bound for each in statement.pasts]
    query = resolved_query(statement.text, names, own)
    return Resolved(replace(statement, text=query.text, pasts=pasts), query)


def _explain(statement: s.Explain, names: Names) -> Resolved:
    target = statement.target
    if isinstance(target, str):
        return Resolved(replace(statement, target=names.identity(target)))
    if isinstance(target, s.CreateView | s.Query):
        inside = resolved(target, names)
        assert isinstance(inside.statement, s.CreateView | s.Query)
        return Resolved(replace(statement, target=inside.statement), inside.query)
    return Resolved(statement)


_NAMED = (s.AlterView, s.AlterSink, s.AlterSource, s.Pause, s.Resume, s.Refresh)
_SPECIAL: Mapping[type[s.Statement], Callable[[Any, Names], Resolved]] = {
    s.CreateTable: _create_table,
    s.CreateView: _create_view,
    s.CreateSink: _create_sink,
    s.CreateFunction: _create_function,
    s.DropFunction: _drop_function,
    s.Describe: _describe,
    s.Show: _show,
    s.Drop: _drop,
    s.DropSchema: _drop_schema,
    s.Use: _use,
    s.Insert: _insert,
    s.Delete: _delete,
    s.Update: _update,
    s.Merge: _merge,
    s.Query: _query,
    s.Explain: _explain,
}
