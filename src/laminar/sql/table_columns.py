"""The bracket of CREATE TABLE and CREATE SOURCE: columns, primary key, checks, watermark."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from laminar.errors import nearest
from laminar.errors.dag import InvalidSchema
from laminar.errors.sql import NotSupported, SqlSyntaxError, UnknownColumn
from laminar.model.types import normalise_type
from laminar.sql.cursor import Cursor
from laminar.sql.keywords import keywords
from laminar.sql.statements import Check, ColumnDef, Watermark
from laminar.sql.tokens import Kind, Token
from laminar.sql.with_options import take_text

_TYPES = keywords(
    "ARRAY BIGINT BINARY BOOLEAN BYTE CHAR DATE DECIMAL DOUBLE FLOAT INT INTEGER LONG MAP NUMERIC"
    " REAL SHORT SMALLINT STRING STRUCT TEXT TIMESTAMP TIMESTAMP_NTZ TINYINT VARCHAR"
)
_NOT_YET = keywords("COLLATE REFERENCES UNIQUE FOREIGN")
_CLAUSES = keywords("CHECK COMMENT CONSTRAINT DEFAULT GENERATED")
_AFTER_TYPE = (
    _NOT_YET | _CLAUSES | keywords("NOT NULL PRIMARY RETURN LANGUAGE DETERMINISTIC CONTAINS")
)
_ENDS = _NOT_YET | _CLAUSES | keywords("PRIMARY")
_OPENING, _CLOSING = ("(", "[", "CASE"), (")", "]", "END")
_TEXT_OF_ANY_LENGTH = ("CHAR", "TEXT", "VARCHAR")


@dataclass(slots=True)
class Declared:
    """What the bracket declares, while it is read."""

    columns: list[ColumnDef] = field(default_factory=list)
    key: list[str] = field(default_factory=list)
    watermark: Watermark | None = None
    watermark_token: Token | None = None
    checks: list[Check] = field(default_factory=list)

    def column(self, cursor: Cursor, name: str, token: Token) -> str:
        """Return the name as the column was declared; raise at the token if there is none."""
        known = [column.name for column in self.columns]
        for candidate in known:
            if candidate.casefold() == name.casefold():
                return candidate
        raise cursor.here(UnknownColumn(name, known), token)


def take_columns(cursor: Cursor) -> Declared:
    """Take `(name TYPE [NOT NULL] [DEFAULT ...] ..., [PRIMARY KEY (..)], [CHECK (..)], ...)`."""
    declared = Declared()
    opening = cursor.peek()
    cursor.expect("(")
    later: list[tuple[str, int]] = []
    while True:
        if cursor.looks_at("PRIMARY", "KEY") or cursor.looks_at("WATERMARK", "FOR"):
            later.append((cursor.peek().upper, cursor.at))
            cursor.expression("a key or a watermark", ",", ")")
        elif _starts_check(cursor):
            _check(cursor, declared)
        else:
            _column(cursor, declared)
        if not cursor.accept(","):
            break
    if not cursor.accept(")"):
        cursor.unexpected(",", ")")
    # Keys and watermarks name columns, which may stand after them.
    end = cursor.at
    for kind, place in later:
        cursor.at = place
        (_primary_key if kind == "PRIMARY" else _watermark)(cursor, declared)
        if cursor.peek().upper not in (",", ")"):
            cursor.unexpected(",", ")")
    cursor.at = end
    declared.columns = [
        replace(column, not_null=True) if column.name in declared.key else column
        for column in declared.columns
    ]
    if not declared.columns:
        cursor.fail("no columns are declared", hint="declare at least one", token=opening)
    return declared


def _column(cursor: Cursor, declared: Declared) -> None:
    token = cursor.peek()
    if token.is_word(*_NOT_YET) and cursor.peek(1).upper in ("(", "KEY"):
        raise cursor.here(NotSupported(f"{token.upper} in a table", "leave it out"))
    name = cursor.identifier("the name of a column")
    if any(column.name.casefold() == name.casefold() for column in declared.columns):
        cursor.fail(f'column "{name}" is declared twice', hint="remove one of them", token=token)
    kind = take_type(cursor)
    column = ColumnDef(name, kind)
    while cursor.peek().upper not in (",", ")"):
        column = _clause(cursor, declared, column, token)
    declared.columns.append(column)


def _clause(cursor: Cursor, declared: Declared, column: ColumnDef, token: Token) -> ColumnDef:
    """Take one clause of a column; each may stand once, but for checks."""
    has_value = column.default is not None or column.generated is not None
    if not column.not_null and cursor.accept("NOT", "NULL"):
        return replace(column, not_null=True)
    if column.name not in declared.key and cursor.accept("PRIMARY", "KEY"):
        _require_no_key(cursor, declared, token)
        declared.key.append(column.name)
        return column
    if not has_value and cursor.accept("DEFAULT"):
        return replace(column, default=_expression(cursor))
    if not has_value and cursor.accept("GENERATED", "ALWAYS", "AS"):
        if cursor.looks_at("IDENTITY"):
            raise cursor.here(NotSupported("an IDENTITY column", "hand in numbers of your own"))
        return replace(column, generated=_in_brackets(cursor))
    if column.comment is None and cursor.accept("COMMENT"):
        return replace(column, comment=take_text(cursor))
    if _starts_check(cursor):
        _check(cursor, declared)
        return column
    if not cursor.peek().is_word(*_NOT_YET):
        cursor.unexpected("NOT NULL", "DEFAULT", "CHECK", "PRIMARY KEY", ",", ")")
    raise cursor.here(NotSupported(f"{cursor.peek().upper} of a column", "leave it out"))


def _expression(cursor: Cursor) -> str:
    """Take an expression up to the next clause of its column."""
    start, depth = cursor.at, 0
    while not cursor.done() and (depth or cursor.peek().upper not in (",", ")")):
        is_not_null = cursor.looks_at("NOT", "NULL") and not cursor.peek(-1).is_word("IS")
        if not depth and cursor.at > start and (is_not_null or cursor.peek().upper in _ENDS):
            break
        token = cursor.next().upper
        depth += (token in _OPENING) - (token in _CLOSING)
    if cursor.at == start:
        cursor.unexpected("an expression")
    return cursor.slice(start, cursor.at)


def _in_brackets(cursor: Cursor) -> str:
    """Take what stands in brackets."""
    if not cursor.looks_at("("):
        cursor.unexpected("(")
    start = cursor.at
    cursor.skip_brackets()
    if cursor.at - start < 3:
        cursor.fail("an expression is missing in the brackets", token=cursor.tokens[start])
    return cursor.slice(start + 1, cursor.at - 1)


def _starts_check(cursor: Cursor) -> bool:
    named = cursor.looks_at("CONSTRAINT") and cursor.peek(2).is_word("CHECK")
    return named or cursor.looks_at("CHECK", "(")


def _check(cursor: Cursor, declared: Declared) -> None:
    """Take `[CONSTRAINT name] CHECK (condition) [ENFORCED] [NORELY]`."""
    token = cursor.peek()
    name = f"check_{len(declared.checks) + 1}"
    if cursor.accept("CONSTRAINT"):
        name = cursor.identifier("the name of a constraint")
    if any(each.name.casefold() == name.casefold() for each in declared.checks):
        cursor.fail(f'constraint "{name}" is declared twice', token=token)
    cursor.expect("CHECK")
    declared.checks.append(Check(name, _in_brackets(cursor)))
    if cursor.looks_at("NOT", "ENFORCED"):
        raise cursor.here(NotSupported("a CHECK that is NOT ENFORCED", "leave it out"))
    cursor.accept("ENFORCED")
    if cursor.looks_at("RELY"):
        raise cursor.here(NotSupported("RELY", "leave it out: every CHECK is enforced"))
    cursor.accept("NORELY")


def take_type(cursor: Cursor) -> str:
    """Take a type, in words that Spark knows."""
    start, depth = cursor.at, 0
    while not cursor.done():
        token = cursor.peek()
        if depth == 0 and (token.upper in (",", ")", ">") or token.upper in _AFTER_TYPE):
            break
        depth += (token.upper in ("<", "(")) - (token.upper in (">", ")"))
        cursor.next()
    if cursor.at == start:
        cursor.unexpected("a type")
    if cursor.at == start + 1 and cursor.tokens[start].is_word("STRING"):
        _collation(cursor)
    kind = _in_words_of_spark(cursor, start)
    try:
        normalise_type(kind)
    except InvalidSchema as wrong:
        first, last = cursor.tokens[start], cursor.tokens[cursor.at - 1]
        meant = nearest(first.text, sorted(_TYPES))
        is_typo = meant is not None and meant != first.upper
        hint = f"did you mean {meant}?" if is_typo else "write a type of Spark SQL"
        raise cursor.here(SqlSyntaxError(wrong.message, hint=hint), first, until=last) from None
    return kind


def _collation(cursor: Cursor) -> None:
    if cursor.accept("COLLATE"):
        cursor.identifier("the name of a collation")


def _in_words_of_spark(cursor: Cursor, start: int) -> str:
    """Return the type's text; a bare VARCHAR, which Spark would refuse, becomes STRING."""
    inside = Cursor(cursor.text, cursor.tokens[: cursor.at])
    inside.at = start
    kept, at = [], inside.peek().start
    while not inside.done():
        token, follows = inside.next(), inside.peek()
        is_field = follows.kind in (Kind.WORD, Kind.QUOTED) or follows.is_symbol(":")
        if token.is_word(*_TEXT_OF_ANY_LENGTH) and not is_field and not follows.is_symbol("("):
            kept += [cursor.text[at : token.start], "STRING"]
            at = token.end
    return "".join([*kept, cursor.text[at : inside.peek().end]])


def _primary_key(cursor: Cursor, declared: Declared) -> None:
    _require_no_key(cursor, declared, cursor.peek())
    cursor.expect("PRIMARY", "KEY", "(")
    while True:
        token = cursor.peek()
        name = declared.column(cursor, cursor.identifier("the name of a column"), token)
        if name in declared.key:
            cursor.fail(f'column "{name}" is in the key twice', token=token)
        declared.key.append(name)
        if not cursor.accept(","):
            break
    cursor.expect(")")


def _require_no_key(cursor: Cursor, declared: Declared, token: Token) -> None:
    if declared.key:
        cursor.fail(
            "a second primary key",
            hint="write a key of several columns as PRIMARY KEY (a, b)",
            token=token,
        )


def _watermark(cursor: Cursor, declared: Declared) -> None:
    if declared.watermark is not None:
        cursor.fail("a second watermark", hint="a source has one column of event time")
    declared.watermark_token = cursor.peek()
    cursor.expect("WATERMARK", "FOR")
    token = cursor.peek()
    column = declared.column(cursor, cursor.identifier("the name of a column"), token)
    cursor.expect("AS")
    delayed = cursor.expression("an expression, such as ts - INTERVAL '5' SECOND", ",", ")")
    declared.watermark = Watermark(column, delayed)
