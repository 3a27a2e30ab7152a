"""Nested queries in conditions and expressions, turned into joins.

A nested query that reads columns of the query around it must do so through equalities; those
become join keys. Whatever does not fit raises NoRule, and the view is recomputed in full.
"""

from __future__ import annotations

from sqlglot import exp

from laminar.plan.aggregation import aggregate_units, has_aggregates
from laminar.plan.context import CommonTables, Context
from laminar.plan.joins import inner_join, semi_join, where
from laminar.plan.nodes import AggCall, Aggregate, Filter, Join, Node, Project
from laminar.plan.reasons import NoRule, Reason
from laminar.plan.scope import Scope, conjuncts, is_query, text, unique


def has_subquery(expression: exp.Expr) -> bool:
    """Whether a query is nested anywhere in the expression."""
    return any(is_query(node) for node in expression.walk())


def apply_condition(
    ctx: Context, node: Node, scope: Scope, ctes: CommonTables, condition: exp.Expr
) -> Node:
    """Filter by one conjunct that holds a nested query."""
    negated = False
    while isinstance(condition, exp.Not | exp.Paren):
        negated ^= isinstance(condition, exp.Not)
        condition = condition.this
    if isinstance(condition, exp.Exists) and is_query(condition):
        return _exists(ctx, node, scope, ctes, condition.this, negated)
    if isinstance(condition, exp.In) and condition.args.get("query") is not None:
        return _in(ctx, node, scope, ctes, condition, negated)
    wanted = node.columns
    node, replaced = replace_scalars(ctx, node, scope, ctes, condition)
    resolved = scope.resolve(replaced)
    kept = where(node, [exp.not_(resolved) if negated else resolved])
    return Project(kept, tuple((column, column) for column in wanted))


def _plain_select(query: exp.Expr) -> exp.Select:
    """Unwrap a nested query that is a simple SELECT ... FROM ... WHERE."""
    while isinstance(query, exp.Subquery) and not query.args.get("with_"):
        query = query.this
    extras = ("group", "having", "limit", "offset", "distinct", "with_", "qualify")
    simple = isinstance(query, exp.Select) and query.args.get("from_") is not None
    if not simple or any(query.args.get(each) for each in extras):
        raise NoRule(Reason.CORRELATION, text(query))
    assert isinstance(query, exp.Select)
    return query


class _Inner:
    """The FROM and WHERE of a correlated query, its correlations taken out as key pairs."""

    def __init__(self, ctx: Context, select: exp.Select, outer: Scope, ctes: CommonTables) -> None:
        from laminar.plan.select import from_clause  # the two recurse into each other

        self.scope = Scope(parent=outer)
        self.node = from_clause(ctx, select, self.scope, ctes)
        self.pairs: list[tuple[str, str]] = []
        local: list[exp.Expr] = []
        clause = select.args.get("where")
        for each in conjuncts(clause.this if clause else None):
            if has_subquery(each):
                if self.scope.reaches_out(each):
                    raise NoRule(Reason.CORRELATION, text(each))
                self.node = apply_condition(ctx, self.node, self.scope, ctes, each)
            elif self.scope.is_local(each):
                local.append(self.scope.resolve(each))
            else:
                self.pairs.append(self._pair(outer, each))
        self.node = where(self.node, local)

    def _pair(self, outer: Scope, condition: exp.Expr) -> tuple[str, str]:
        if isinstance(condition, exp.EQ):
            for ours, theirs in (
                (condition.left, condition.right),
                (condition.right, condition.left),
            ):
                if self.scope.is_local(ours) and self.scope.is_outer(theirs):
                    return text(outer.resolve(theirs)), text(self.scope.resolve(ours))
        raise NoRule(Reason.CORRELATION, text(condition))


def _correlated(ctx: Context, query: exp.Expr, ctes: CommonTables) -> bool:
    """Whether a nested query reads columns of the query around it."""
    try:
        ctx.query(query, None, ctes)
    except NoRule as problem:
        if problem.reason is Reason.UNRESOLVED_NAME:
            return True
        raise
    return False


def _exists(
    ctx: Context, node: Node, scope: Scope, ctes: CommonTables, query: exp.Expr, negated: bool
) -> Node:
    select = _plain_select(query)
    if has_aggregates(select.expressions):
        raise NoRule(Reason.CORRELATION, text(query))
    inner = _Inner(ctx, select, scope, ctes)
    # Without a correlation the key is a constant: the set is empty or has one member.
    return semi_join(ctx, node, inner.node, inner.pairs or [("1", "1")], anti=negated)


def _in(
    ctx: Context, node: Node, scope: Scope, ctes: CommonTables, condition: exp.In, negated: bool
) -> Node:
    query = condition.args["query"]
    tested = condition.this
    sides = list(tested.expressions) if isinstance(tested, exp.Tuple) else [tested]
    outer = [text(scope.resolve(each)) for each in sides]
    if not _correlated(ctx, query, ctes):
        inner = ctx.query(query, None, ctes).node
        pairs = list(zip(outer, inner.columns, strict=True))
        if negated:
            return _not_in(ctx, node, inner, pairs)
        return semi_join(ctx, node, inner, pairs, anti=False)
    if negated:
        raise NoRule(Reason.CORRELATION, "NOT IN with a correlated query; use NOT EXISTS")
    select = _plain_select(query)
    found = _Inner(ctx, select, scope, ctes)
    items = [each.unalias() for each in select.expressions]
    pairs = [
        (ours, text(found.scope.resolve(theirs))) for ours, theirs in zip(outer, items, strict=True)
    ]
    return semi_join(ctx, node, found.node, pairs + found.pairs, anti=False)


def _not_in(ctx: Context, node: Node, inner: Node, pairs: list[tuple[str, str]]) -> Node:
    """X NOT IN B: true if B is empty, or x is not NULL, not in B, and B holds no NULL."""
    if len(pairs) != 1:
        raise NoRule(Reason.CORRELATION, "NOT IN over several columns; use NOT EXISTS")
    tested, member = pairs[0]
    rows, nulls, empty, spoiled = (ctx.fresh() for _ in range(4))
    counts = Aggregate(
        Project(inner, ((member, member), (f"{member} IS NULL", nulls))),
        (),
        (
            AggCall(rows, "count_star", (), "COUNT(*)"),
            AggCall(spoiled, "count_if", (nulls,), f"COUNT_IF({nulls})"),
        ),
    )
    # A set of one row: it changes only when one of the two answers does, not with every count.
    has_null = ctx.fresh()
    answers = Aggregate(
        Project(counts, ((f"{rows} = 0", empty), (f"{spoiled} > 0", has_null))),
        (empty, has_null),
        (),
    )
    wanted = node.columns
    asked = Filter(
        Join((node, answers), ()), f"{empty} OR (NOT {has_null} AND ({tested}) IS NOT NULL)"
    )
    allowed = Project(asked, tuple((column, column) for column in wanted))
    return semi_join(ctx, allowed, inner, pairs, anti=True)


def replace_scalars(
    ctx: Context, node: Node, scope: Scope, ctes: CommonTables, expression: exp.Expr
) -> tuple[Node, exp.Expr]:
    """Join each scalar subquery of an expression to the plan and put a column in its place."""
    expression = expression.copy()
    for query in list(expression.find_all(exp.Subquery)):
        if query.find_ancestor(exp.Query) is not None:
            continue  # part of a nested query that is lowered as a whole
        node, column = _scalar(ctx, node, scope, ctes, query)
        replacement = unique(column)
        if query is expression:
            expression = replacement
        else:
            query.replace(replacement)
    return node, expression


def lift_scalars(
    ctx: Context, ctes: CommonTables, expression: exp.Expr, single: list[Node]
) -> exp.Expr:
    """Put columns in place of the scalar subqueries beside aggregate calls.

    Each is a plan of one row; those are collected, to be joined to the groups.
    """
    expression = expression.copy()
    for query in list(expression.find_all(exp.Subquery)):
        if query.find_ancestor(exp.Query) is not None:
            continue
        if query.find_ancestor(exp.AggFunc) is not None or _correlated(ctx, query, ctes):
            raise NoRule(Reason.SUBQUERY_POSITION, text(query))
        inner = ctx.query(query, None, ctes).node
        if not _one_row(inner):
            raise NoRule(Reason.SCALAR_CARDINALITY, text(query))
        single.append(inner)
        replacement = unique(inner.columns[0])
        if query is expression:
            expression = replacement
        else:
            query.replace(replacement)
    return expression


def _scalar(
    ctx: Context, node: Node, scope: Scope, ctes: CommonTables, query: exp.Subquery
) -> tuple[Node, str]:
    if not _correlated(ctx, query, ctes):
        inner = ctx.query(query, None, ctes).node
        if not _one_row(inner):
            raise NoRule(Reason.SCALAR_CARDINALITY, text(query))
        return inner_join(node, inner, []), inner.columns[0]
    select = _plain_select(query)
    item = select.expressions[0].unalias()
    if len(select.expressions) != 1 or not has_aggregates([item]):
        raise NoRule(Reason.SCALAR_CARDINALITY, text(query))
    return _correlated_aggregate(ctx, node, scope, ctes, select, item)


def _one_row(node: Node) -> bool:
    """Whether a plan always yields exactly one row."""
    while isinstance(node, Project):
        node = node.input
    return isinstance(node, Aggregate) and not node.keys


_NULL_OF_NOTHING = frozenset(
    [
        "SUM",
        "AVG",
        "STDDEV",
        "STDDEV_SAMP",
        "STDDEV_POP",
        "VARIANCE",
        "VAR_SAMP",
        "VAR_POP",
        "VARIANCE_POP",
        "CORR",
        "COVAR_POP",
        "COVAR_SAMP",
        "PERCENTILE",
        "MEDIAN",
    ]
)


def _is_count_of_nothing(call: AggCall) -> bool:
    """Whether a call yields 0 of no rows; other calls must yield NULL of them."""
    name = call.sql.split("(")[0].strip().upper()
    if call.function in ("count", "count_star", "count_if") or name == "COUNT":
        return True
    if call.function == "other" and name not in _NULL_OF_NOTHING:
        raise NoRule(Reason.CORRELATION, f"{name} of no rows is not known to be NULL")
    return False


def _correlated_aggregate(
    ctx: Context,
    node: Node,
    scope: Scope,
    ctes: CommonTables,
    select: exp.Select,
    item: exp.Expr,
) -> tuple[Node, str]:
    """(SELECT agg FROM b WHERE b.k = a.k): group b by k, left join, zero counts where absent."""
    from laminar.plan.joins import keyed_join

    inner = _Inner(ctx, select, scope, ctes)
    if not inner.pairs:
        raise NoRule(Reason.CORRELATION, text(select))
    units = aggregate_units(ctx, inner.scope, [item])
    grouped = units.aggregate(ctx, inner.node, [pair[1] for pair in inner.pairs])
    wide, outer_keys = ctx.extend(node, [pair[0] for pair in inner.pairs])
    equal = [
        exp.EQ(this=exp.column(ours), expression=exp.column(theirs))
        for ours, theirs in zip(outer_keys, grouped.keys, strict=True)
    ]
    joined = keyed_join(ctx, wide, grouped, list(equal), "LEFT")
    counts = {call.name for call in grouped.calls if _is_count_of_nothing(call)}

    def absent_is_zero(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column) and part.name in counts:
            return exp.Coalesce(this=part.copy(), expressions=[exp.Literal.number(0)])
        return part

    value = units.rewrite(inner.scope.resolve(item)).transform(absent_is_zero)
    name = ctx.fresh()
    kept = tuple((column, column) for column in node.columns)
    return Project(joined, (*kept, (text(value), name))), name
