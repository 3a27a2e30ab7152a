"""From query text to sqlglot's tree."""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from laminar.plan.reasons import NoRule, Reason
from laminar.sql.references import readable
from laminar.sql.tokens import Kind, tokenize


def parse_query(sql: str) -> exp.Expr:
    """Parse a query that Spark accepts; what sqlglot cannot read has no rule."""
    try:
        tree = sqlglot.parse_one(plain_strings(readable(sql)), dialect="spark")
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
