"""MERGE INTO: a target, a source, a condition, and what to do with rows that match or do not."""

from __future__ import annotations

from laminar.errors.sql import NotSupported
from laminar.model.quoting import backquoted
from laminar.sql.cursor import Cursor, joined
from laminar.sql.keywords import keywords
from laminar.sql.query import refuse_streams
from laminar.sql.statements import Merge, MergeAction, MergeClause, MergeKind
from laminar.sql.table_changes import refuse_changes
from laminar.sql.time_travel import refuse_time_travel
from laminar.sql.tokens import Kind

_A_COLUMN = "the name of a column"
_NOT_AN_ALIAS = keywords("USING ON WHEN AS")
_ALLOWED = {
    MergeKind.MATCHED: (MergeAction.UPDATE, MergeAction.DELETE),
    MergeKind.NOT_MATCHED: (MergeAction.INSERT,),
    MergeKind.NOT_MATCHED_BY_SOURCE: (MergeAction.UPDATE, MergeAction.DELETE),
}


def take_merge(cursor: Cursor) -> Merge:
    """Take MERGE INTO t [AS a] USING s [AS b] ON condition WHEN ... THEN ..."""
    start = cursor.at
    cursor.expect("MERGE", "INTO")
    refuse_time_travel(cursor, start)
    refuse_changes(cursor, start)
    refuse_streams(cursor, start)
    table = cursor.name("the name of a table")
    alias = _alias(cursor)
    cursor.expect("USING")
    source, source_alias = _source(cursor)
    cursor.expect("ON")
    condition = cursor.expression("a condition", "WHEN")
    clauses: list[MergeClause] = []
    while not cursor.done():
        clauses.append(_clause(cursor, alias or table, clauses))
    if not clauses:
        cursor.unexpected("WHEN MATCHED", "WHEN NOT MATCHED")
    return Merge(
        table, alias, source, source_alias, condition, tuple(clauses), **cursor.origin(start)
    )


def _alias(cursor: Cursor) -> str | None:
    if cursor.accept("AS"):
        return cursor.identifier("another name")
    token = cursor.peek()
    is_name = token.kind is Kind.QUOTED or (
        token.kind is Kind.WORD and token.upper not in _NOT_AN_ALIAS
    )
    return cursor.identifier("another name") if is_name else None


def _source(cursor: Cursor) -> tuple[str, str]:
    """Return what is read, as text that can follow FROM, and the name its columns go by."""
    first, start = cursor.peek(), cursor.at
    if cursor.looks_at("VALUES"):
        raise cursor.here(NotSupported("VALUES without brackets", "write USING (VALUES ...) AS s"))
    if cursor.looks_at("("):
        cursor.skip_brackets()
        text = cursor.slice(start, cursor.at)
        alias = _alias(cursor)
        if alias is None:
            hint = "write USING (SELECT ...) AS s"
            cursor.fail("a query in USING needs a name", hint=hint, token=first)
        if cursor.looks_at("("):
            return f"{text} AS {backquoted(alias)} {_column_names(cursor)}", alias
        return text, alias
    name = cursor.name("the name of what is merged in")
    text = cursor.slice(start, cursor.at)
    return text, _alias(cursor) or name.rpartition(".")[2]


def _column_names(cursor: Cursor) -> str:
    """Take `(a, b)` after the name of a query."""
    start = cursor.at
    cursor.expect("(")
    cursor.identifier(_A_COLUMN)
    while cursor.accept(","):
        cursor.identifier(_A_COLUMN)
    cursor.expect(")")
    return cursor.slice(start, cursor.at)


def _clause(cursor: Cursor, target: str, before: list[MergeClause]) -> MergeClause:
    token = cursor.peek()
    kind = _kind(cursor)
    if any(other.kind is kind and other.condition is None for other in before):
        hint = "only the last one of a kind can do without AND"
        cursor.fail(f"a clause before this takes every row that is {kind}", hint=hint, token=token)
    condition = cursor.expression("a condition", "THEN") if cursor.accept("AND") else None
    cursor.expect("THEN")
    action = MergeAction(cursor.one_of(*_ALLOWED[kind]))
    if action is MergeAction.DELETE:
        return MergeClause(kind, action, condition)
    if action is MergeAction.UPDATE:
        cursor.expect("SET")
    if cursor.accept("*"):
        if kind is MergeKind.NOT_MATCHED_BY_SOURCE:
            cursor.fail("there is no row of the source here to take columns from")
        return MergeClause(kind, action, condition, is_star=True)
    pairs = _assignments(cursor, target) if action is MergeAction.UPDATE else _values(cursor)
    return MergeClause(kind, action, condition, pairs)


def _kind(cursor: Cursor) -> MergeKind:
    cursor.expect("WHEN")
    if cursor.accept("MATCHED"):
        return MergeKind.MATCHED
    if not cursor.accept("NOT", "MATCHED"):
        cursor.unexpected("MATCHED", "NOT MATCHED")
    if cursor.accept("BY", "SOURCE"):
        return MergeKind.NOT_MATCHED_BY_SOURCE
    if cursor.looks_at("BY"):
        cursor.expect("BY")
        cursor.one_of("TARGET", "SOURCE")
    return MergeKind.NOT_MATCHED


def _assignments(cursor: Cursor, target: str) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    while True:
        token = cursor.peek()
        column = cursor.identifier(_A_COLUMN)
        owner: list[str] = []
        while cursor.accept("."):
            owner.append(column)
            column = cursor.identifier(_A_COLUMN)
        if owner and not _is_target(joined(owner), target):
            hint = "set a whole column of the target"
            raise cursor.here(NotSupported("a part of a column in SET", hint), token)
        _refuse_second(cursor, column, found, token.text)
        cursor.expect("=")
        found[column] = cursor.expression("an expression", ",", "WHEN")
        if not cursor.accept(","):
            return tuple(found.items())


def _is_target(owner: str, target: str) -> bool:
    """Whether a name is the target's; each may say more of the schema than the other."""
    said, known = f".{owner.casefold()}", f".{target.casefold()}"
    return said.endswith(known) or known.endswith(said)


def _values(cursor: Cursor) -> tuple[tuple[str, str], ...]:
    cursor.expect("(")
    names: dict[str, str] = {}
    while True:
        text = cursor.peek().text
        name = cursor.identifier(_A_COLUMN)
        _refuse_second(cursor, name, names, text)
        names[name] = ""
        if not cursor.accept(","):
            break
    cursor.expect(")", "VALUES", "(")
    values = []
    while True:
        values.append(cursor.expression("an expression", ",", ")"))
        if not cursor.accept(","):
            break
    token = cursor.peek()
    cursor.expect(")")
    if len(values) != len(names):
        cursor.fail(f"{len(values)} values are given for {len(names)} columns", token=token)
    return tuple(zip(names, values, strict=True))


def _refuse_second(cursor: Cursor, name: str, known: dict[str, str], text: str) -> None:
    if any(name.casefold() == each.casefold() for each in known):
        token = cursor.peek(-1)
        cursor.fail(f'column "{text}" is named twice', hint="remove one of them", token=token)
