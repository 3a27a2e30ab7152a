"""Nested queries inside expressions: each becomes a column of the plan.

    EXISTS q       x is marked if it is in the set of outer values for which q has a row
    x IN q         EXISTS (q and x = item)
    NOT (x IN q)   NOT EXISTS (q and (x = item or that is NULL))

The mark is never NULL, as in Spark, where a truth value of IN is that of an existence join; but for
NULL itself IN a query that has rows, which Spark finds to be NULL. A mark joins at most one row to
each outer row, so it changes no counts. Scalar queries: `plan/scalars.py`.
"""

from __future__ import annotations

from sqlglot import exp

from laminar.plan.context import CommonTables, Context
from laminar.plan.domain import nested
from laminar.plan.equal_keys import Pair
from laminar.plan.joins import KeyedCondition, inner_join, key_set, keyed_join
from laminar.plan.nodes import Node, Project
from laminar.plan.reasons import NoRule, Reason
from laminar.plan.scalars import scalar
from laminar.plan.scope import Scope, is_query, text, unique
from laminar.plan.subqueries import answers, equalities, maybe, simple_form
from laminar.plan.theta import partnered


def attach(
    ctx: Context, node: Node, scope: Scope, ctes: CommonTables, expression: exp.Expr
) -> tuple[Node, exp.Expr]:
    """Join every nested query of an expression to the plan and put a column in its place."""
    if isinstance(expression, exp.Not) and _is_in(expression.this):
        node, marked = _in(ctx, node, scope, ctes, expression.this, negated=True)
        return node, exp.Not(this=marked)
    if _is_in(expression):
        return _in(ctx, node, scope, ctes, expression, negated=False)
    if isinstance(expression, exp.Exists) and is_query(expression):
        return _exists(ctx, node, scope, ctes, expression.this)
    if isinstance(expression, exp.Query):
        node, column = scalar(ctx, node, scope, ctes, expression)
        ctx.chars.pop(column, None)  # a value is no column
        return node, unique(column)
    expression = expression.copy()
    for child in list(expression.iter_expressions()):
        if any(is_query(part) for part in child.walk()):
            node, replacement = attach(ctx, node, scope, ctes, child)
            child.replace(replacement)
    return node, expression


def _is_in(node: exp.Expr) -> bool:
    while isinstance(node, exp.Paren):
        node = node.this
    return isinstance(node, exp.In) and node.args.get("query") is not None


def _exists(
    ctx: Context, node: Node, scope: Scope, ctes: CommonTables, query: exp.Expr
) -> tuple[Node, exp.Expr]:
    inner = simple_form(ctx, query, scope, ctes, rows=True)
    if inner is not None:
        return _marked(ctx, node, inner.node, inner.conditions)
    found = nested(ctx, query, node, scope, ctes)
    keys: list[exp.Expr] = [*found.equalities()]
    return _marked(ctx, node, found.node, keys)


def _in(
    ctx: Context, node: Node, scope: Scope, ctes: CommonTables, given: exp.Expr, *, negated: bool
) -> tuple[Node, exp.Expr]:
    while isinstance(given, exp.Paren):
        given = given.this
    node, tested = attach(ctx, node, scope, ctes, given.this)
    sides = list(tested.expressions) if isinstance(tested, exp.Tuple) else [tested]
    if len(sides) == 1 and _is_null(sides[0]):  # the only IN of Spark's that may be NULL
        raise NoRule(Reason.SUBQUERY_POSITION, text(given))
    outer = [scope.resolve(each) for each in sides]
    found = nested(ctx, given.args["query"], node, scope, ctes)
    equal = equalities(ctx, node, outer, found.node, found.own)
    keys: list[exp.Expr] = [*found.equalities()]
    if not negated:
        return _marked(ctx, node, found.node, [*keys, *equal])
    if found.domain is None and len(outer) == 1:
        tested = equal[0].this
        said, empty, has_null = answers(ctx, found.node, text(equal[0].expression))
        node, marked = _marked(ctx, inner_join(node, said, []), found.node, [*equal])
        null = exp.Is(this=tested.copy(), expression=exp.Null())
        nothing_known = exp.and_(exp.Not(this=unique(empty)), null)
        return node, exp.Paren(this=exp.or_(marked, unique(has_null), nothing_known))
    return _marked(ctx, node, found.node, [*keys, maybe(equal)])


def _is_null(value: exp.Expr) -> bool:
    """Whether a value is NULL as it is written."""
    while isinstance(value, exp.Paren | exp.Cast):
        value = value.this
    return isinstance(value, exp.Null)


def _marked(
    ctx: Context, node: Node, rows: Node, conditions: list[exp.Expr]
) -> tuple[Node, exp.Expr]:
    """Add a column that tells whether a row of the plan has a partner."""
    parts = KeyedCondition.of(ctx, node, rows, conditions)
    mark = ctx.fresh()
    if parts.mixed:
        found = partnered(ctx, node, rows, conditions)
        members: Node = found.node
        pairs = [Pair(text(code), name, "<=>") for code, name in found.codes()]
    else:
        wanted = parts.keys()
        rows, keys = ctx.extend(rows, [pair.right for pair in wanted])
        members = key_set(ctx, rows, keys)
        named = zip(wanted, members.columns, strict=True)
        pairs = [Pair(pair.left, name, pair.operator) for pair, name in named]
    kept = tuple((column, column) for column in members.columns)
    marked = Project(members, (*kept, ("true", mark)))
    wide, lefts = ctx.extend(node, [pair.left for pair in pairs])
    tests: list[exp.Expr] = []
    for left, pair in zip(lefts, pairs, strict=True):
        kind = exp.EQ if pair.operator == "=" else exp.NullSafeEQ
        tests.append(kind(this=unique(left), expression=unique(pair.right)))
    joined = keyed_join(ctx, wide, marked, tests, "LEFT")
    test = exp.Not(this=exp.Is(this=unique(mark), expression=exp.Null()))
    return joined, exp.Paren(this=test)
