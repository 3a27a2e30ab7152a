"""From query text to sqlglot's tree."""

from __future__ import annotations

from typing import ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from laminar.plan.reasons import NoRule, Reason
from laminar.sql.keywords import keywords
from laminar.sql.references import readable
from laminar.sql.tokens import Kind, tokenize

_UNDERSTOOD = keywords(
    "COUNT COUNT_IF SUM AVG MIN MAX BOOL_AND BOOL_OR GROUPING GROUPING_ID ARRAYS_ZIP STRUCT"
    " EXPLODE EXPLODE_OUTER POSEXPLODE POSEXPLODE_OUTER INLINE STACK"
)
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


def parse_query(sql: str) -> exp.Expr:
    """Parse a query that Spark accepts; what sqlglot cannot read has no rule."""
    try:
        tree = sqlglot.parse_one(plain_strings(readable(sql)), dialect=AsWritten)
    except SqlglotError as error:
        raise NoRule(Reason.UNKNOWN_CLAUSE, str(error).split("\n")[0]) from error
    if tree.find(exp.Command) is not None:
        raise NoRule(Reason.UNKNOWN_CLAUSE, "part of the query is not understood")
    return tree


def plain_strings(sql: str) -> str:
    """Write strings so that sqlglot and Spark read the same: no doubled quotes, no odd escapes."""
    parts: list[str] = []
    done = 0
    for token in tokenize(sql):
        if token.kind is Kind.STRING and _is_special(token.text):
            escaped = token.value.replace("\\", "\\\\").replace("'", "\\'")
            parts += [sql[done : token.start], f"'{escaped}'"]
            done = token.end
    return "".join([*parts, sql[done:]])


def _is_special(literal: str) -> bool:
    quote = literal[-1]
    return "\\" in literal or quote * 2 in literal[literal.index(quote) + 1 : -1]
