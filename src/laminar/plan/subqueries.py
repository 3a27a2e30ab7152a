"""Nested queries in conditions, turned into joins.

EXISTS is a semi join, IN one that compares values too, their negations are anti joins. The simple
form, SELECT ... FROM ... WHERE, is taken apart: what its WHERE says about outer columns becomes the
join condition. Any other form is planned for the domain of the outer columns it reads
(`plan/domain.py`). Where a truth value is needed, not a filter, see `plan/marks.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from laminar.plan.aggregate_calls import has_aggregates
from laminar.plan.context import CommonTables, Context
from laminar.plan.domain import nested
from laminar.plan.equal_keys import Pair, comparable
from laminar.plan.from_clause import from_clause
from laminar.plan.joins import KeyedCondition, keyed_join, only, semi_join, where
from laminar.plan.nodes import AggCall, Aggregate, Filter, Join, Node, Project
from laminar.plan.reasons import NoRule, Reason
from laminar.plan.scope import Scope, conjuncts, is_query, text, unique


def has_subquery(expression: exp.Expr) -> bool:
    """Whether a query is nested anywhere in the expression."""
    return any(is_query(node) for node in expression.walk())


def push_not(condition: exp.Expr) -> exp.Expr:
    """Move NOT inward, to where it stands before a single test."""

    def pushed(node: exp.Expr, negated: bool) -> exp.Expr:
        match node:
            case exp.Paren():
                inner = pushed(node.this, negated)
                return inner if isinstance(inner, exp.And) else exp.Paren(this=inner)
            case exp.Not():
                return pushed(node.this, not negated)
            case exp.And() | exp.Or():
                kind = type(node)
                if negated:
                    kind = exp.Or if isinstance(node, exp.And) else exp.And
                parts = (_grouped(pushed(each, negated)) for each in (node.left, node.right))
                left, right = parts
                return kind(this=left, expression=right)
            case _:
                return exp.Not(this=_grouped(node.copy())) if negated else node.copy()

    found = pushed(condition, False)
    while isinstance(found, exp.Paren):
        found = found.this
    return found


def _grouped(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node) if isinstance(node, exp.And | exp.Or) else node


def apply_condition(
    ctx: Context, node: Node, scope: Scope, ctes: CommonTables, condition: exp.Expr
) -> Node:
    """Filter by one conjunct that holds a nested query."""
    pushed = push_not(condition)
    if len(conjuncts(pushed)) > 1:  # NOT (a OR b)
        for each in conjuncts(pushed):
            if has_subquery(each):
                node = apply_condition(ctx, node, scope, ctes, each)
            else:
                node = where(node, [scope.resolve(each)])
        return node
    negated = isinstance(pushed, exp.Not)
    inner = pushed.this if negated else pushed
    if isinstance(inner, exp.Exists) and is_query(inner):
        return _exists(ctx, node, scope, ctes, inner.this, negated)
    if isinstance(inner, exp.In) and inner.args.get("query") is not None:
        tested = inner.this
        if not has_subquery(tested):
            return _in(ctx, node, scope, ctes, inner, negated)
    wanted = node.columns
    node, replaced = ctx.attach(ctx, node, scope, ctes, pushed)
    return only(where(node, [scope.resolve(replaced)]), wanted)


class Inner:
    """A correlated query in its simple form: FROM, its own conditions, and the join condition.

    Raises NoRule if it has another form, or reads outer columns anywhere but in its WHERE.
    """

    def __init__(self, ctx: Context, query: exp.Expr, outer: Scope, ctes: CommonTables) -> None:
        self.ctx = ctx
        self.select = _plain_select(query)
        self.scope = Scope(parent=outer, chars=ctx.chars)
        self.node = from_clause(ctx, self.select, self.scope, ctes)
        self.conditions: list[exp.Expr] = []
        local: list[exp.Expr] = []
        clause = self.select.args.get("where")
        for each in conjuncts(clause.this if clause else None):
            if has_subquery(each):
                if self.scope.reaches_out(each):
                    raise NoRule(Reason.CORRELATION, text(each))
                self.node = apply_condition(ctx, self.node, self.scope, ctes, each)
            elif self.scope.is_local(each):
                local.append(self.scope.resolve(each))
            else:
                self.conditions.append(self._correlation(each))
        self.node = where(self.node, local)

    def _correlation(self, condition: exp.Expr) -> exp.Expr:
        resolved = self.scope.resolve(condition, through=True)
        if self.scope.parent is not None and self.scope.parent.grouped is not None:
            return self.scope.parent.grouped(resolved)
        return resolved

    def items(self) -> list[exp.Expr]:
        """Return the select list over the query's own columns."""
        return [self.scope.resolve(each.unalias()) for each in self.select.expressions]

    def pairs(self, outer: Node) -> list[Pair] | None:
        """Return the join condition as pairs of keys, if that is all it is."""
        parts = KeyedCondition.of(self.ctx, outer, self.node, self.conditions)
        return None if parts.mixed else parts.keys()


def _plain_select(query: exp.Expr) -> exp.Select:
    """Unwrap a nested query that is a simple SELECT ... FROM ... WHERE."""
    extras = ("group", "having", "limit", "offset", "distinct", "with_", "qualify")
    while isinstance(query, exp.Subquery) and not any(query.args.get(each) for each in extras):
        query = query.this
    simple = isinstance(query, exp.Select) and query.args.get("from_") is not None
    if not simple or any(query.args.get(each) for each in extras):
        raise NoRule(Reason.CORRELATION, text(query))
    assert isinstance(query, exp.Select)
    return query


def simple_form(
    ctx: Context, query: exp.Expr, outer: Scope, ctes: CommonTables, *, rows: bool
) -> Inner | None:
    """Take a nested query apart if it is simple; `rows`: and does not aggregate."""
    try:
        inner = Inner(ctx, query, outer, ctes)
    except NoRule as problem:
        if problem.reason in (Reason.CORRELATION, Reason.UNRESOLVED_NAME):
            return None
        raise
    return None if rows and has_aggregates(inner.select.expressions) else inner


def _exists(
    ctx: Context, node: Node, scope: Scope, ctes: CommonTables, query: exp.Expr, negated: bool
) -> Node:
    inner = simple_form(ctx, query, scope, ctes, rows=True)
    if inner is not None:
        kind = "LEFT ANTI" if negated else "LEFT SEMI"
        return keyed_join(ctx, node, inner.node, inner.conditions, kind)
    found = nested(ctx, query, node, scope, ctes)
    # Without a correlation the key is a constant: the set is empty or has one member.
    pairs = found.pairs() or [Pair("1", "1")]
    return semi_join(ctx, node, found.node, pairs, anti=negated)


def _in(
    ctx: Context, node: Node, scope: Scope, ctes: CommonTables, condition: exp.In, negated: bool
) -> Node:
    tested = condition.this
    sides = list(tested.expressions) if isinstance(tested, exp.Tuple) else [tested]
    outer = [scope.resolve(each) for each in sides]
    kind = "LEFT ANTI" if negated else "LEFT SEMI"
    inner = simple_form(ctx, condition.args["query"], scope, ctes, rows=True)
    if inner is not None and inner.conditions and _selects_own(inner):
        rows, items = ctx.extend(inner.node, [text(each) for each in inner.items()])
        equal = equalities(ctx, node, outer, rows, items)
        conditions = [*inner.conditions, *([maybe(equal)] if negated else equal)]
        return keyed_join(ctx, node, rows, conditions, kind)
    found = nested(ctx, condition.args["query"], node, scope, ctes)
    equal = equalities(ctx, node, outer, found.node, found.own)
    if negated and found.domain is None and len(outer) == 1:
        return _not_in(ctx, node, found.node, equal[0])
    conditions = [*found.equalities(), *([maybe(equal)] if negated else equal)]
    return keyed_join(ctx, node, found.node, conditions, kind)


def _selects_own(inner: Inner) -> bool:
    return all(inner.scope.is_local(each) for each in inner.select.expressions)


def equalities(
    ctx: Context, node: Node, tested: list[exp.Expr], rows: Node, columns: tuple[str, ...]
) -> list[exp.EQ]:
    """Compare what IN tests with the columns of its query, as IN does."""
    given = [(each, unique(column)) for each, column in zip(tested, columns, strict=True)]
    found = comparable(ctx, node, rows, given, ["IN"] * len(given))
    return [exp.EQ(this=one.copy(), expression=other) for one, other in found]


def maybe(conditions: Sequence[exp.Expr]) -> exp.Expr:
    """True if the conditions hold or may hold: NOT IN is false of both."""
    whole = exp.and_(*(each.copy() for each in conditions))
    return exp.Coalesce(this=whole, expressions=[exp.true()])


def answers(ctx: Context, inner: Node, member: str) -> tuple[Aggregate, str, str]:
    """Return a set of one row that says whether a plan has no rows, and whether one is NULL.

    It changes only when one of the two answers does, not with every row. `member` is what is
    looked for in the plan, an expression over its columns.
    """
    rows, nulls, empty, spoiled, has_null = (ctx.fresh() for _ in range(5))
    counts = Aggregate(
        Project(inner, ((f"({member}) IS NULL", nulls),)),
        (),
        (
            AggCall(rows, "count_star", (), "COUNT(*)"),
            AggCall(spoiled, "count_if", (nulls,), f"COUNT_IF({nulls})"),
        ),
    )
    both = Project(counts, ((f"{rows} = 0", empty), (f"{spoiled} > 0", has_null)))
    return Aggregate(both, (empty, has_null), ()), empty, has_null


def _not_in(ctx: Context, node: Node, inner: Node, equal: exp.EQ) -> Node:
    """X NOT IN B: true if B is empty, or x is not NULL, not in B, and B holds no NULL."""
    tested, member = text(equal.this), text(equal.expression)
    said, empty, has_null = answers(ctx, inner, member)
    wanted = node.columns
    asked = Filter(
        Join((node, said), ()), f"{empty} OR (NOT {has_null} AND ({tested}) IS NOT NULL)"
    )
    return semi_join(ctx, only(asked, wanted), inner, [Pair(tested, member)], anti=True)
