"""GROUP BY: what the aggregate calls need, and the expressions around them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sqlglot import exp

from laminar.plan.aggregate_calls import (
    aggregated,
    determined,
    filtered,
    first_or_last,
    mergeable_parts,
)
from laminar.plan.arrival import in_order
from laminar.plan.context import Context
from laminar.plan.nodes import AggCall, Aggregate, Node, Project, UnionAll
from laminar.plan.reasons import NoRule, Reason
from laminar.plan.same_expression import form
from laminar.plan.scope import Scope, reads, text, unique

ORDER = "__order"
"""Stands for the order of the rows until the plan below is known."""


@dataclass(slots=True)
class Units:
    """The aggregate calls of a SELECT, each once, and the columns that stand for them."""

    only: str | None = None  # a column that says which rows count
    calls: dict[str, AggCall] = field(default_factory=dict)  # text of the call -> call
    arguments: dict[str, str] = field(default_factory=dict)  # expression -> column
    keys: dict[str, str] = field(default_factory=dict)  # key expression -> column
    forms: dict[str, str] = field(default_factory=dict)  # what a key says -> its expression

    def add(self, ctx: Context, unit: exp.Expr) -> None:
        """Register a resolved call; one that is written alike is computed once."""
        written = text(unit)
        if written not in self.calls:
            self.calls[written] = self._call(ctx, unit)

    def _argument(self, ctx: Context, expression: str) -> str:
        if expression not in self.arguments:
            self.arguments[expression] = ctx.fresh()
        return self.arguments[expression]

    def _call(self, ctx: Context, unit: exp.Expr) -> AggCall:
        condition = None
        if self.only is not None:
            unit = filtered(unit, self.only)
        call = unit = determined(unit)
        if isinstance(unit, exp.Filter):
            condition = text(unit.expression.this)
            call = unit.this
        merged = first_or_last(call, ORDER) or mergeable_parts(call)
        if merged is None:
            return self._other(ctx, unit)
        function, args = merged
        if function == "count_star" and condition is not None:
            function, args, condition = "count_if", [condition], None
        if condition is not None:
            # Every mergeable function passes over NULL, so a row that fails the test is a NULL.
            args = [f"CASE WHEN {condition} THEN {each} END" for each in args]
        columns = tuple(self._argument(ctx, each) for each in args)
        name = "COUNT(*)" if function == "count_star" else f"{function}({', '.join(columns)})"
        return AggCall(ctx.fresh(), function, columns, name)

    def _other(self, ctx: Context, unit: exp.Expr) -> AggCall:
        # COUNT(DISTINCT 1) reads no column; its rows have one, as those of all relations.
        read = sorted(reads(unit)) or ["1"]
        columns = {column: self._argument(ctx, column) for column in read}

        def rename(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Column) and node.name in columns:
                return exp.column(columns[node.name])
            return node

        renamed = text(unit.copy().transform(rename))
        return AggCall(ctx.fresh(), "other", tuple(columns.values()), renamed)

    def aggregate(self, ctx: Context, node: Node, keys: list[str]) -> Aggregate:
        """Group a plan by keys (resolved expressions)."""
        for key in keys:
            if key not in self.keys:
                self.keys[key] = ctx.named_after(key)
        node = self._in_order(ctx, node)
        items = (*self.keys.items(), *self.arguments.items())
        calls = tuple(self.calls.values())
        if not calls and not self.keys:  # one group, and nothing to ask of it
            calls = (AggCall(ctx.fresh(), "count_star", (), "COUNT(*)"),)
        return Aggregate(Project(node, items), tuple(self.keys.values()), calls)

    def grouping_sets(
        self, ctx: Context, node: Node, keys: list[str], sets: list[list[str]]
    ) -> tuple[Aggregate, str]:
        """Group once per set: each row stands once for every set, absent keys NULL."""
        for key in keys:
            if key not in self.keys:
                self.keys[key] = ctx.named_after(key)
        node = self._in_order(ctx, node)
        types = ctx.typer.types(Project(node, tuple(self.keys.items())))
        which, number = ctx.fresh(), ctx.fresh()
        ordered = list(self.keys.items())
        parts: list[Node] = []
        for position, chosen in enumerate(sets):
            missing = sum(
                1 << (len(ordered) - 1 - place)
                for place, (key, _) in enumerate(ordered)
                if key not in chosen
            )
            items = [
                (key if key in chosen else f"CAST(NULL AS {types[name]})", name)
                for key, name in ordered
            ]
            items += list(self.arguments.items())
            items += [(f"{missing}L", which), (str(position), number)]
            parts.append(Project(node, tuple(items)))
        united = UnionAll(tuple(parts), parts[0].columns)
        names = (*(name for _, name in ordered), which, number)
        return Aggregate(united, names, tuple(self.calls.values())), which

    def for_each(self, ctx: Context, node: Node, domain: Aggregate, tag: str) -> Aggregate:
        """Aggregate once for each value of a domain, also for those without rows.

        The values themselves stand among the rows, all arguments NULL; only tagged rows count.
        """
        for key in domain.columns:
            self.keys[key] = ctx.named_after(key)
        node = self._in_order(ctx, node)
        tagged = Project(node, (*((name, name) for name in node.columns), ("true", tag)))
        rows = Project(tagged, (*self.keys.items(), *self.arguments.items()))
        types = ctx.typer.types(rows)
        nothing = [(f"CAST(NULL AS {types[name]})", name) for name in self.arguments.values()]
        values = Project(domain, (*self.keys.items(), *nothing))
        both = UnionAll((rows, values), rows.columns)
        return Aggregate(both, tuple(self.keys.values()), tuple(self.calls.values()), True)

    def _in_order(self, ctx: Context, node: Node) -> Node:
        """Say what order means where an argument asks for it."""
        if not any(ORDER in expression for expression in self.arguments):
            return node
        node, order = in_order(ctx, node)
        self.arguments = {
            expression.replace(ORDER, order): column
            for expression, column in self.arguments.items()
        }
        return node

    def key(self, expression: exp.Expr) -> str:
        """Return a resolved expression as the key that says the same is written."""
        written = text(expression)
        if written in self.keys or isinstance(expression, exp.Column) or not self.forms:
            return written
        return self.forms.get(form(expression), written)

    def rewrite(self, expression: exp.Expr) -> exp.Expr:
        """Put columns in place of keys and aggregate calls in a resolved expression."""
        written = text(expression)
        key = self.key(expression)
        if key in self.keys:
            return unique(self.keys[key])
        if written in self.calls:
            return unique(self.calls[written].name)
        copy = expression.copy()
        for child in list(copy.iter_expressions()):
            child.replace(self.rewrite(child))
        return copy


def aggregate_units(
    ctx: Context, scope: Scope, expressions: Iterable[exp.Expr], *, only: str | None = None
) -> Units:
    """Collect the aggregate calls of expressions, resolved in a scope."""
    units = Units(only)
    for expression in expressions:
        for unit in aggregated(expression):
            units.add(ctx, scope.resolve(unit))
    return units


def grouping_call(call: exp.Expr, units: Units, scope: Scope, which: str) -> exp.Expr | None:
    """Rewrite GROUPING(k) and GROUPING_ID(...) over the column that tells the set."""
    keys = list(units.keys)
    if isinstance(call, exp.GroupingId):
        wanted = [units.key(scope.resolve(each)) for each in call.expressions] or keys
        if wanted != keys:
            raise NoRule(Reason.UNKNOWN_CLAUSE, text(call))
        return unique(which)
    if isinstance(call, exp.Grouping):
        key = units.key(scope.resolve(call.expressions[0] if call.expressions else call.this))
        if key not in keys:
            raise NoRule(Reason.UNKNOWN_CLAUSE, text(call))
        shift = len(keys) - 1 - keys.index(key)
        bit: exp.Expr = exp.maybe_parse(
            f"CAST(SHIFTRIGHT({which}, {shift}) & 1 AS TINYINT)", dialect="spark"
        )
        return bit.transform(lambda part: unique(which) if isinstance(part, exp.Column) else part)
    return None
