"""Scalar subqueries: a query that stands for one value.

    (SELECT agg(..) FROM ..)   has one row always: joined as it is
    (SELECT x FROM ..)         no row is NULL, one row is its value, more are an error

The second is an aggregate too, count and greatest value, and fails where a row that needs the value
meets a count above one. Only the values of the domain are counted, so that no count above one is
ever committed: the terms of a delta read old counts too, and must not fail over them.

A correlated aggregate over plain equalities is grouped by them and joined; of the groups that are
not there COUNT is 0 and the others are NULL. All else goes by the domain.
"""

from __future__ import annotations

from sqlglot import exp

from laminar.plan.aggregate_calls import has_aggregates
from laminar.plan.aggregation import aggregate_units
from laminar.plan.context import CommonTables, Context
from laminar.plan.domain import Nested, nested
from laminar.plan.equal_keys import Pair
from laminar.plan.joins import inner_join, keyed_join
from laminar.plan.nodes import AggCall, Aggregate, Node, Project
from laminar.plan.scope import Scope, text, unique
from laminar.plan.subqueries import simple_form
from laminar.sql.keywords import keywords

TOO_MANY = (
    "[SCALAR_SUBQUERY_TOO_MANY_ROWS] "
    "More than one row returned by a subquery used as an expression."
)


def scalar(
    ctx: Context, node: Node, scope: Scope, ctes: CommonTables, query: exp.Expr
) -> tuple[Node, str]:
    """Join a scalar subquery to a plan; return the column that holds its value."""
    found = _grouped(ctx, node, scope, ctes, query)
    if found is not None:
        return found
    inner = nested(ctx, query, node, scope, ctes)
    if inner.domain is None:
        if _one_row(inner.node):
            return inner_join(node, inner.node, []), inner.own[0]
        counted, value = _counted(ctx, inner.node, (), inner.own[0])
        return _checked(ctx, node.columns, inner_join(node, counted, []), *value)
    if _one_row(inner.node):
        keys: list[exp.Expr] = [*inner.equalities()]
        return inner_join(node, inner.node, keys), inner.own[0]
    return _looked_up(ctx, node, inner)


def _one_row(node: Node) -> bool:
    """Whether a plan always yields exactly one row (for each value of its domain)."""
    while isinstance(node, Project):
        node = node.input
    return isinstance(node, Aggregate) and node.total


def _grouped(
    ctx: Context, node: Node, scope: Scope, ctes: CommonTables, query: exp.Expr
) -> tuple[Node, str] | None:
    """Plan an aggregate that is correlated by equalities alone."""
    inner = simple_form(ctx, query, scope, ctes, rows=False)
    if inner is None or not inner.conditions or len(inner.select.expressions) != 1:
        return None
    item = inner.select.expressions[0].unalias()
    pairs = inner.pairs(node)
    if pairs is None or not has_aggregates([item]) or not inner.scope.is_local(item):
        return None
    units = aggregate_units(ctx, inner.scope, [item])
    grouped = units.aggregate(ctx, inner.node, [pair.right for pair in pairs])
    if not all(_is_known_of_nothing(call) for call in grouped.calls):
        return None
    joined = _left_join(ctx, node, grouped, pairs, grouped.keys)
    counts = {call.name for call in grouped.calls if _is_count(call)}

    def absent_is_zero(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column) and part.name in counts:
            return exp.Coalesce(this=part.copy(), expressions=[exp.Literal.number(0)])
        return part

    value = units.rewrite(inner.scope.resolve(item)).transform(absent_is_zero)
    name = ctx.fresh()
    kept = tuple((column, column) for column in node.columns)
    return Project(joined, (*kept, (text(value), name))), name


def _looked_up(ctx: Context, node: Node, inner: Nested) -> tuple[Node, str]:
    counted, found = _counted(ctx, inner.node, inner.carried, inner.own[0])
    joined = _left_join(ctx, node, counted, inner.pairs(), counted.keys)
    return _checked(ctx, node.columns, joined, *found)


def _left_join(
    ctx: Context, node: Node, groups: Aggregate, pairs: list[Pair], keys: tuple[str, ...]
) -> Node:
    wide, lefts = ctx.extend(node, [pair.left for pair in pairs])
    tests: list[exp.Expr] = []
    for left, pair, key in zip(lefts, pairs, keys, strict=True):
        kind = exp.EQ if pair.operator == "=" else exp.NullSafeEQ
        tests.append(kind(this=unique(left), expression=unique(key)))
    return keyed_join(ctx, wide, groups, tests, "LEFT")


def _counted(
    ctx: Context, node: Node, keys: tuple[str, ...], value: str
) -> tuple[Aggregate, tuple[str, str]]:
    """Group rows by keys: how many there are, and the value if there is one."""
    items = [(key, ctx.fresh()) for key in keys]
    given, rows, greatest = ctx.fresh(), ctx.fresh(), ctx.fresh()
    plain = Project(node, (*items, (value, given)))
    calls = (
        AggCall(rows, "count_star", (), "COUNT(*)"),
        AggCall(greatest, "max", (given,), f"MAX({given})"),
    )
    return Aggregate(plain, tuple(name for _, name in items), calls), (rows, greatest)


def _checked(
    ctx: Context, wanted: tuple[str, ...], node: Node, rows: str, value: str
) -> tuple[Node, str]:
    name = ctx.fresh()
    check = f"IF({rows} > 1, RAISE_ERROR('{TOO_MANY}'), {value})"
    kept = tuple((column, column) for column in wanted)
    return Project(node, (*kept, (check, name))), name


_NULL_OF_NOTHING = keywords(
    "SUM AVG STDDEV STDDEV_SAMP STDDEV_POP VARIANCE VAR_SAMP VAR_POP VARIANCE_POP CORR"
    " COVAR_POP COVAR_SAMP PERCENTILE MEDIAN"
)


def _function(call: AggCall) -> str:
    return call.sql.split("(")[0].strip().upper()


def _is_count(call: AggCall) -> bool:
    return call.function in ("count", "count_star", "count_if") or _function(call) == "COUNT"


def _is_known_of_nothing(call: AggCall) -> bool:
    return _is_count(call) or call.function != "other" or _function(call) in _NULL_OF_NOTHING
