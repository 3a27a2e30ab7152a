"""From query text to sqlglot's tree."""

from __future__ import annotations

import re
from typing import ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from laminar.model.quoting import string_literal
from laminar.plan.reasons import NoRule, Reason
from laminar.sql.keywords import keywords
from laminar.sql.references import readable
from laminar.sql.tokens import Kind, tokenize

_UNDERSTOOD = keywords(
    "COUNT COUNT_IF SUM AVG MIN MAX BOOL_AND BOOL_OR GROUPING GROUPING_ID ARRAYS_ZIP STRUCT"
    " EXPLODE EXPLODE_OUTER POSEXPLODE POSEXPLODE_OUTER INLINE STACK"
)
_PLAN_COLUMN = re.compile(r"c\d+", re.IGNORECASE)
_WITH_WORDS = keywords("CAST TRY_CAST EXTRACT TRIM SUBSTRING SUBSTR POSITION OVERLAY CEIL FLOOR")


class AsWritten(Spark):
    """Spark's dialect, its function calls left alone.

    sqlglot translates between dialects and rewrites calls on the way, even from Spark to Spark:
    TO_CHAR(x, f) loses its format, PERCENTILE_CONT becomes an approximation. Only calls that the
    planner looks into are parsed as what they are, and those written with words between arguments.
    """

    class Parser(Spark.Parser):  # type: ignore[valid-type,misc]
        """All other calls are a name and arguments."""

        FUNCTIONS: ClassVar = {
            name: made for name, made in Spark.Parser.FUNCTIONS.items() if name in _UNDERSTOOD
        }
        FUNCTION_PARSERS: ClassVar = {
            name: parse
            for name, parse in Spark.Parser.FUNCTION_PARSERS.items()
            if name in _WITH_WORDS
        }

    class Generator(Spark.Generator):  # type: ignore[valid-type,misc]
        """Spark has a type for the time of day by now, with a number of digits."""

        def datatype_sql(self, expression: exp.DataType) -> str:
            """Write TIME as Spark does, and all other types as sqlglot does."""
            if expression.is_type(exp.DataType.Type.TIME):
                digits = "".join(each.sql() for each in expression.expressions)
                return f"TIME({digits})" if digits else "TIME"
            return str(super().datatype_sql(expression))


def parse_query(sql: str) -> exp.Expr:
    """Parse a query that Spark accepts; what sqlglot cannot read has no rule."""
    if any(token.text == "|>" for token in tokenize(sql)):
        # sqlglot adds what follows to the query before, where it may take effect too early.
        raise NoRule(Reason.UNKNOWN_CLAUSE, "|>")
    try:
        tree = sqlglot.parse_one(plain_strings(readable(sql)), dialect=AsWritten)
    except SqlglotError as error:
        raise NoRule(Reason.UNKNOWN_CLAUSE, str(error).split("\n")[0]) from error
    if tree.find(exp.Command) is not None:
        raise NoRule(Reason.UNKNOWN_CLAUSE, "part of the query is not understood")
    _set_names_apart(tree)
    _sign_literals(tree)
    return tree


def _sign_literals(tree: exp.Expr) -> None:
    """Put the sign of a typed literal inside: -128Y is a TINYINT, 128Y is none."""
    for node in list(tree.find_all(exp.Neg)):
        cast = node.this
        if isinstance(cast, exp.Cast) and isinstance(cast.this, exp.Literal):
            number = cast.this
            if not number.is_string:
                cast.set("this", exp.Neg(this=number.copy()))
                node.replace(cast)


def _set_names_apart(tree: exp.Expr) -> None:
    """Keep names that are given inside expressions from being read as columns of the plan.

    The plan calls its columns c1, c2, ...: a field `c1` of a struct would be taken for one of them,
    and a lambda's parameter `c1` would hide one.
    """
    for each in tree.find_all(exp.Identifier):
        if _PLAN_COLUMN.fullmatch(each.name):
            each.set("quoted", True)
    for function in tree.find_all(exp.Lambda):
        names = {each.name for each in function.expressions}
        lowered = {name.lower() for name in names}
        if any(each.parts[0].name.lower() in lowered for each in function.find_all(exp.Column)):
            raise NoRule(Reason.UNKNOWN_CLAUSE, "a parameter is written in two ways")
        for each in function.find_all(exp.Identifier):
            if each.name in names and _PLAN_COLUMN.fullmatch(each.name) and _is_operand(each):
                each.set("this", f"__{each.name}")


def _is_operand(name: exp.Identifier) -> bool:
    """Whether a name stands for a value, and not for a field or a part of a column."""
    match name.parent:
        case exp.Column() | exp.ColumnDef():
            return False
        case exp.PropertyEQ():
            return name.arg_key == "expression"
        case exp.Dot():
            return name.arg_key == "this"
        case _:
            return True


def plain_strings(sql: str) -> str:
    """Write strings so that sqlglot and Spark read the same: no doubled quotes, no odd escapes."""
    parts: list[str] = []
    done = 0
    for token in tokenize(sql):
        if token.kind is Kind.STRING and _is_special(token.text):
            parts += [sql[done : token.start], string_literal(token.value)]
            done = token.end
    return "".join([*parts, sql[done:]])


def _is_special(literal: str) -> bool:
    quote = literal[-1]
    return "\\" in literal or quote * 2 in literal[literal.index(quote) + 1 : -1]
