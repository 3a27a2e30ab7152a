"""From a condition in Spark SQL to a test that Arrow decides in the same way, or to none."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date
from decimal import Decimal, InvalidOperation

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from laminar.model.row_test import Among, Compare, Every, Flag, IsNull, Not, RowTest, Some, Value
from laminar.sql.dialect import AsWritten

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_TURNED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_WHOLE = {"tinyint": 8, "smallint": 16, "int": 32, "integer": 32, "bigint": 64}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_EXACT = {"float": 1 << 24, "double": 1 << 53}  # up to here each whole number has a value


def conjuncts(condition: str) -> list[str]:
    """Return conditions that all must hold, if a condition says so; else itself."""
    tree = _parsed(condition)
    if tree is None:
        return [condition]
    parts = list(tree.flatten()) if isinstance(tree, exp.And) else [tree]
    return [part.sql(dialect=AsWritten) for part in parts]


def row_test(
    condition: str, columns: Mapping[str, str], types: Mapping[str, str]
) -> RowTest | None:
    """Return a condition as a test; None if only Spark can decide it.

    Args:
        condition: Spark SQL.
        columns: name in the condition -> column of the relation.
        types: column -> its type.
    """
    tree = _parsed(condition)
    return None if tree is None else _test(tree, columns, types)


def _parsed(condition: str) -> exp.Expr | None:
    try:
        return sqlglot.parse_one(condition, dialect=AsWritten)
    except SqlglotError:
        return None


def _test(tree: exp.Expr, columns: Mapping[str, str], types: Mapping[str, str]) -> RowTest | None:
    match tree:
        case exp.Paren():
            return _test(tree.this, columns, types)
        case exp.Not():
            inner = _test(tree.this, columns, types)
            return None if inner is None else Not(inner)
        case exp.And() | exp.Or():
            left, right = (_test(each, columns, types) for each in (tree.left, tree.right))
            if left is None or right is None:
                return None
            return Every((left, right)) if isinstance(tree, exp.And) else Some((left, right))
        case exp.Is(expression=exp.Null()):
            column = _column(tree.this, columns)
            return None if column is None else IsNull(column)
        case exp.In():
            return _among(tree, columns, types)
        case exp.Column():
            column = _column(tree, columns)
            is_flag = column is not None and types[column].lower() == "boolean"
            return Flag(column) if column is not None and is_flag else None
        case _:
            return _comparison(tree, columns, types)


def _comparison(
    tree: exp.Expr, columns: Mapping[str, str], types: Mapping[str, str]
) -> RowTest | None:
    operator = _OPERATORS.get(type(tree))
    if operator is None:
        return None
    left, right = tree.this, tree.expression
    column = _column(left, columns)
    if column is None:
        left, right, operator = right, left, _TURNED[operator]
        column = _column(left, columns)
    if column is None:
        return None
    value = _value(right, types[column].lower())
    return None if value is None else Compare(column, operator, value)


def _among(tree: exp.In, columns: Mapping[str, str], types: Mapping[str, str]) -> RowTest | None:
    column = _column(tree.this, columns)
    if column is None or not tree.expressions:
        return None
    values = [_value(each, types[column].lower()) for each in tree.expressions]
    known = tuple(each for each in values if each is not None)
    # Spark finds one type for the column and all values; with floats that is not always theirs.
    if len(known) < len(values) or types[column].lower() in _EXACT:
        return None
    return Among(column, known)


def _column(tree: exp.Expr, columns: Mapping[str, str]) -> str | None:
    if isinstance(tree, exp.Column) and not tree.table:
        return columns.get(tree.name)
    return None


def _value(tree: exp.Expr, kind: str) -> Value | None:
    """Return a constant as a value of a column's type; None if Spark might see another one."""
    if isinstance(tree, exp.Boolean):
        return bool(tree.this) if kind == "boolean" else None
    if isinstance(tree, exp.Cast):
        is_date = tree.to.this is exp.DataType.Type.DATE and isinstance(tree.this, exp.Literal)
        return _date(tree.this.name) if is_date and kind == "date" else None
    if isinstance(tree, exp.Literal) and tree.is_string:
        return tree.name if kind == "string" else None
    negative = isinstance(tree, exp.Neg)
    literal = tree.this if negative else tree
    if not isinstance(literal, exp.Literal) or literal.is_string:
        return None
    return _number(("-" if negative else "") + literal.name, kind)


def _number(text: str, kind: str) -> Value | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    is_whole = text.lstrip("-").isdigit()
    if kind in _WHOLE:
        return int(text) if is_whole and abs(int(text)) < 1 << 63 else None
    if kind in _EXACT:
        if is_whole and abs(int(text)) > _EXACT[kind]:
            return None
        value = float(text)
        return value if math.isfinite(value) else None
    found = _DECIMAL.fullmatch(kind)
    if found is None:
        return None
    precision, scale = int(found[1]), int(found[2])
    digits = number.as_tuple()
    exponent = digits.exponent
    fits = isinstance(exponent, int) and -exponent <= scale and "e" not in text.lower()
    return number if fits and len(digits.digits) + scale <= precision else None


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        return None
