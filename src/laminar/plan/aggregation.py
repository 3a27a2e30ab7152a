"""GROUP BY: which calls aggregate, what they need, and the expressions around them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from laminar.plan.context import Context
from laminar.plan.nodes import AggCall, Aggregate, Node, Project, UnionAll
from laminar.plan.reasons import NoRule, Reason
from laminar.plan.scope import Scope, reads, text, unique

_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)

# Aggregates that sqlglot knows by name only.
_BY_NAME = frozenset(
    [
        "every",
        "some",
        "any",
        "bit_and",
        "bit_or",
        "bit_xor",
        "mode",
        "percentile_approx",
        "approx_percentile",
        "regr_slope",
        "regr_intercept",
        "regr_count",
        "regr_r2",
        "kurtosis",
        "skewness",
        "collect_set",
        "collect_list",
        "array_agg",
        "listagg",
        "string_agg",
        "try_sum",
        "try_avg",
        "histogram_numeric",
        "count_min_sketch",
        "approx_count_distinct",
        "max_by",
        "min_by",
        "first",
        "last",
        "first_value",
        "last_value",
    ]
)

_MERGEABLE: dict[type[exp.Expr], str] = {
    exp.Count: "count",
    exp.CountIf: "count_if",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.Any: "bool_or",
    exp.ArgMin: "min_by",
    exp.ArgMax: "max_by",
}
_MERGEABLE_BY_NAME = {"every": "bool_and", "some": "bool_or", "any": "bool_or"}


def is_aggregate(node: exp.Expr) -> bool:
    """Whether the node itself is an aggregate call."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower() in _BY_NAME
    if isinstance(node, exp.Any):
        return node.arg_key != "expression"  # that is LIKE ANY and the like
    return isinstance(node, exp.AggFunc) and not isinstance(node, exp.Grouping | exp.GroupingId)


def _units(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the outermost aggregate calls, with FILTER and the like around them."""
    if isinstance(node, exp.Query):
        return
    if isinstance(node, exp.Window):
        function = node.this
        parts = list(function.iter_expressions()) if is_aggregate(function) else [function]
        parts += list(node.args.get("partition_by") or [])
        order = node.args.get("order")
        parts += [order] if order is not None else []
        for part in parts:
            yield from _units(part)
        return
    if is_aggregate(node) or (isinstance(node, _WRAPPERS) and is_aggregate(_inside(node))):
        yield node
        return
    for child in node.iter_expressions():
        yield from _units(child)


def _inside(node: exp.Expr) -> exp.Expr:
    while isinstance(node, _WRAPPERS):
        node = node.this
    return node


def has_aggregates(expressions: Iterable[exp.Expr]) -> bool:
    """Whether any expression aggregates."""
    return any(True for each in expressions for _ in _units(each))


@dataclass(slots=True)
class Units:
    """The aggregate calls of a SELECT, each once, and the columns that stand for them."""

    calls: dict[str, AggCall] = field(default_factory=dict)  # text of the call -> call
    arguments: dict[str, str] = field(default_factory=dict)  # expression -> column
    keys: dict[str, str] = field(default_factory=dict)  # key expression -> column

    def add(self, ctx: Context, unit: exp.Expr) -> None:
        """Register a resolved call."""
        written = text(unit)
        if written not in self.calls:
            self.calls[written] = self._call(ctx, unit)

    def _argument(self, ctx: Context, expression: str) -> str:
        if expression not in self.arguments:
            self.arguments[expression] = ctx.fresh()
        return self.arguments[expression]

    def _call(self, ctx: Context, unit: exp.Expr) -> AggCall:
        condition = None
        call = unit
        if isinstance(unit, exp.Filter):
            condition = text(unit.expression.this)
            call = unit.this
        if _depends_on_order(call):
            raise NoRule(Reason.NON_DETERMINISTIC, f"{text(_inside(call))} in no order")
        merged = _mergeable(call)
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
        columns = {column: self._argument(ctx, column) for column in sorted(reads(unit))}

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
                self.keys[key] = ctx.fresh()
        items = (*self.keys.items(), *self.arguments.items())
        calls = tuple(self.calls.values())
        return Aggregate(Project(node, items), tuple(self.keys.values()), calls)

    def grouping_sets(
        self, ctx: Context, node: Node, keys: list[str], sets: list[list[str]]
    ) -> tuple[Aggregate, str]:
        """Group once per set: each row stands once for every set, absent keys NULL."""
        for key in keys:
            if key not in self.keys:
                self.keys[key] = ctx.fresh()
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

    def rewrite(self, expression: exp.Expr) -> exp.Expr:
        """Put columns in place of keys and aggregate calls in a resolved expression."""
        written = text(expression)
        if written in self.keys:
            return exp.column(self.keys[written])
        if written in self.calls:
            return exp.column(self.calls[written].name)
        copy = expression.copy()
        for child in list(copy.iter_expressions()):
            child.replace(self.rewrite(child))
        return copy


def _depends_on_order(call: exp.Expr) -> bool:
    """Whether an aggregate takes whichever row comes first."""
    inner = _inside(call)
    if isinstance(inner, exp.Anonymous):
        return str(inner.this).lower() in ("first", "last", "first_value", "last_value")
    return isinstance(inner, exp.First | exp.Last | exp.FirstValue | exp.LastValue | exp.AnyValue)


def _mergeable(call: exp.Expr) -> tuple[str, list[str]] | None:
    """Return function and arguments of a call whose partial results can be merged."""
    if isinstance(call, exp.Anonymous):
        function = _MERGEABLE_BY_NAME.get(str(call.this).lower())
        return (function, [text(each) for each in call.expressions]) if function else None
    function = _MERGEABLE.get(type(call))
    if function is None or isinstance(call.this, exp.Distinct):
        return None
    if function == "count":
        if call.expressions:
            return None  # COUNT(a, b) counts rows without any NULL
        if isinstance(call.this, exp.Star | exp.Literal):
            return "count_star", []
    args = [call.this]
    if function in ("min_by", "max_by"):
        args.append(call.expression)
        if call.args.get("count") is not None:
            return None
    return function, [text(each) for each in args]


def aggregate_units(ctx: Context, scope: Scope, expressions: Iterable[exp.Expr]) -> Units:
    """Collect the aggregate calls of expressions, resolved in a scope."""
    units = Units()
    for expression in expressions:
        for unit in _units(expression):
            units.add(ctx, scope.resolve(unit))
    return units


def grouping_call(call: exp.Expr, units: Units, scope: Scope, which: str) -> exp.Expr | None:
    """Rewrite GROUPING(k) and GROUPING_ID(...) over the column that tells the set."""
    keys = list(units.keys)
    if isinstance(call, exp.GroupingId):
        wanted = [text(scope.resolve(each)) for each in call.expressions] or keys
        if wanted != keys:
            raise NoRule(Reason.UNKNOWN_CLAUSE, text(call))
        return unique(which)
    if isinstance(call, exp.Grouping):
        key = text(scope.resolve(call.expressions[0] if call.expressions else call.this))
        shift = len(keys) - 1 - keys.index(key)
        bit: exp.Expr = exp.maybe_parse(
            f"CAST(SHIFTRIGHT({which}, {shift}) & 1 AS TINYINT)", dialect="spark"
        )
        return bit.transform(lambda part: unique(which) if isinstance(part, exp.Column) else part)
    return None
