"""From query text to sqlglot's tree."""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from laminar.plan.reasons import NoRule, Reason


def parse_query(sql: str) -> exp.Expr:
    """Parse a query that Spark accepts; what sqlglot cannot read has no rule."""
    try:
        tree = sqlglot.parse_one(sql, dialect="spark")
    except SqlglotError as error:
        raise NoRule(Reason.UNKNOWN_CLAUSE, str(error).split("\n")[0]) from error
    if tree.find(exp.Command) is not None:
        raise NoRule(Reason.UNKNOWN_CLAUSE, "part of the query is not understood")
    return tree
