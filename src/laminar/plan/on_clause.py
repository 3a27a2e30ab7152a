"""Nested queries in the ON of a join, each a column of the plan (`plan/marks.py`).

    A JOIN B ON p AND q            =  σ_q (A JOIN B ON p)                        q holds a query
    A LEFT JOIN B ON p AND q       =  A' LEFT JOIN B ON p AND m     q reads A alone, m is its mark

and so for all outer, semi and anti joins, and for B.

NOT IN is true of NULL in an ON, unless Spark can move it into a filter of one side, where it is
not: only what is moved for certain has a rule.
"""

from __future__ import annotations

from sqlglot import exp

from laminar.plan.context import CommonTables, Context
from laminar.plan.domain import mentioned
from laminar.plan.joins import only, where
from laminar.plan.nodes import Node
from laminar.plan.reasons import NoRule, Reason
from laminar.plan.scope import Scope, conjuncts, is_query, text


def taken_apart(on: exp.Expr | None) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """Return the conditions of ON: those without nested queries, and those with."""
    conditions = conjuncts(on)
    nested = [each for each in conditions if any(is_query(part) for part in each.walk())]
    return [each for each in conditions if each not in nested], nested


def filtered(
    ctx: Context, node: Node, scope: Scope, ctes: CommonTables, nested: list[exp.Expr]
) -> Node:
    """Keep the rows of an inner join that pass conditions with nested queries."""
    wanted = node.columns
    for each in nested:
        if _negates_in(each) and not _is_of_one_side(ctx, each, node, scope):
            raise NoRule(Reason.SUBQUERY_POSITION, text(each))
        wide, replaced = ctx.attach(ctx, node, scope, ctes, each)
        node = only(where(wide, [scope.resolve(replaced)]), wanted)
    return node


def marked(
    ctx: Context,
    sides: tuple[Node, Node],
    scope: Scope,
    ctes: CommonTables,
    nested: list[exp.Expr],
) -> tuple[tuple[Node, Node], list[exp.Expr]]:
    """Add the marks of conditions to the side that they read; return both, and the conditions."""
    left, right = sides
    found: list[exp.Expr] = []
    for each in nested:
        if _negates_in(each):
            raise NoRule(Reason.SUBQUERY_POSITION, text(each))
        if not mentioned(ctx, each, right, scope):
            left, replaced = ctx.attach(ctx, left, scope, ctes, each)
        elif not mentioned(ctx, each, left, scope):
            right, replaced = ctx.attach(ctx, right, scope, ctes, each)
        else:
            raise NoRule(Reason.SUBQUERY_POSITION, text(each))
        found.append(scope.resolve(replaced))
    return (left, right), found


def _negates_in(condition: exp.Expr) -> bool:
    """Whether NOT stands somewhere above an IN of the condition itself."""
    tests = (each for each in condition.find_all(exp.In) if each.args.get("query") is not None)
    return any(_is_negated(each, condition) for each in tests)


def _is_negated(test: exp.Expr, condition: exp.Expr) -> bool:
    node: exp.Expr | None = test
    while node is not None and not isinstance(node, exp.Query):
        if isinstance(node, exp.Not):
            return True
        if node is condition:
            return False
        node = node.parent
    return False


def _is_of_one_side(ctx: Context, condition: exp.Expr, node: Node, scope: Scope) -> bool:
    """Whether a condition is a NOT IN over one relation of FROM."""
    is_plain = isinstance(condition, exp.Not) and isinstance(condition.this.unnest(), exp.In)
    used = set(mentioned(ctx, condition, node, scope))
    return is_plain and any(used <= set(each.columns.values()) for each in scope.bindings)
