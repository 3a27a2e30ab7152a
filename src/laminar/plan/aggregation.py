"""GROUP BY: which calls aggregate, what they need, and the expressions around them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from laminar.plan.context import Context
from laminar.plan.nodes import AggCall, Aggregate, Node, Project, UnionAll
from laminar.plan.reasons import NoRule, Reason
from laminar.plan.scope import Scope, reads, text, unique
from laminar.sql.keywords import keywords

_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)

# Spark's aggregates, but for those that are parsed as what they are.
_BY_NAME = keywords(
    "any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate"
    " approx_top_k_combine array_agg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg"
    " bitmap_or_agg collect_list collect_set collect_union corr count_min_sketch covar_pop"
    " covar_samp every first first_value histogram_numeric hll_sketch_agg hll_union_agg"
    " kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint"
    " kll_sketch_agg_double kll_sketch_agg_float kurtosis last last_value listagg max_by mean"
    " median min_by mode percentile percentile_approx percentile_cont percentile_disc regr_avgx"
    " regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness"
    " some std stddev stddev_pop stddev_samp string_agg theta_intersection_agg theta_sketch_agg"
    " theta_union_agg try_avg try_sum tuple_intersection_agg_double"
    " tuple_intersection_agg_integer tuple_sketch_agg_double tuple_sketch_agg_integer"
    " tuple_union_agg_double tuple_union_agg_integer var_pop var_samp variance"
)
_ANY_ROW = keywords("any_value first first_value last last_value")

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
}
_MERGEABLE_BY_NAME = {  # function and number of arguments -> accumulators
    ("every", 1): "bool_and",
    ("some", 1): "bool_or",
    ("any", 1): "bool_or",
    ("mean", 1): "avg",
    ("min_by", 2): "min_by",
    ("max_by", 2): "max_by",
}


def _name(node: exp.Expr) -> str:
    """Return the name of a call that is just a name and arguments."""
    return str(node.this).lower() if isinstance(node, exp.Anonymous) else ""


def is_aggregate(node: exp.Expr) -> bool:
    """Whether the node itself is an aggregate call."""
    if isinstance(node, exp.Anonymous):
        return _name(node) in _BY_NAME
    if isinstance(node, exp.Any):
        return node.arg_key != "expression"  # that is LIKE ANY and the like
    return isinstance(node, exp.AggFunc) and not isinstance(node, exp.Grouping | exp.GroupingId)


def aggregated(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the outermost aggregate calls, with FILTER and the like around them."""
    if isinstance(node, exp.Query):
        return
    if isinstance(node, exp.Window):
        function = node.this
        parts: list[exp.Expr] = []
        while isinstance(function, _WRAPPERS):  # COUNT(*) FILTER (WHERE x) OVER (...)
            parts += [each for each in function.iter_expressions() if each is not function.this]
            function = function.this
        parts += list(function.iter_expressions()) if is_aggregate(function) else [function]
        parts += list(node.args.get("partition_by") or [])
        order = node.args.get("order")
        parts += [order] if order is not None else []
        for part in parts:
            yield from aggregated(part)
        return
    if is_aggregate(node) or (isinstance(node, _WRAPPERS) and is_aggregate(_inside(node))):
        yield node
        return
    for child in node.iter_expressions():
        yield from aggregated(child)


def _inside(node: exp.Expr) -> exp.Expr:
    while isinstance(node, _WRAPPERS):
        node = node.this
    return node


def is_aggregated(node: exp.Expr) -> bool:
    """Whether the node is part of an aggregate call."""
    around = node.parent
    while around is not None:
        if is_aggregate(around):
            return True
        around = around.parent
    return False


def has_aggregates(expressions: Iterable[exp.Expr]) -> bool:
    """Whether any expression aggregates."""
    return any(True for each in expressions for _ in aggregated(each))


@dataclass(slots=True)
class Units:
    """The aggregate calls of a SELECT, each once, and the columns that stand for them."""

    only: str | None = None  # a column that says which rows count
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
        if self.only is not None:
            unit = _filtered(unit, self.only)
        call = unit = determined(unit)
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

    def for_each(self, ctx: Context, node: Node, domain: Aggregate, tag: str) -> Aggregate:
        """Aggregate once for each value of a domain, also for those without rows.

        The values themselves stand among the rows, all arguments NULL; only tagged rows count.
        """
        for key in domain.columns:
            self.keys[key] = ctx.fresh()
        tagged = Project(node, (*((name, name) for name in node.columns), ("true", tag)))
        rows = Project(tagged, (*self.keys.items(), *self.arguments.items()))
        types = ctx.typer.types(rows)
        nothing = [(f"CAST(NULL AS {types[name]})", name) for name in self.arguments.values()]
        values = Project(domain, (*self.keys.items(), *nothing))
        both = UnionAll((rows, values), rows.columns)
        return Aggregate(both, tuple(self.keys.values()), tuple(self.calls.values()), True)

    def rewrite(self, expression: exp.Expr) -> exp.Expr:
        """Put columns in place of keys and aggregate calls in a resolved expression."""
        written = text(expression)
        if written in self.keys:
            return unique(self.keys[written])
        if written in self.calls:
            return unique(self.calls[written].name)
        copy = expression.copy()
        for child in list(copy.iter_expressions()):
            child.replace(self.rewrite(child))
        return copy


def determined(unit: exp.Expr) -> exp.Expr:
    """Let an aggregate that may answer in several ways answer in one.

    Spark leaves open in which order values are collected and which of several most frequent ones
    is the mode: here they are sorted, and it is the least.
    """
    call = _inside(unit)
    match _name(call):
        case "mode" if len(call.expressions) == 1:
            copy = unit.copy()
            _inside(copy).append("expressions", exp.true())
            return copy
        case "collect_list" | "collect_set" | "array_agg":
            return exp.Anonymous(this="SORT_ARRAY", expressions=[unit.copy()])
        case "listagg" | "string_agg":
            return _sorted_text(unit)
    return unit


def _sorted_text(unit: exp.Expr) -> exp.Expr:
    """Put LISTAGG's values in order; those that its own order leaves open too."""
    copy = unit.copy()
    call = _inside(copy)
    given = call.parent if isinstance(call.parent, exp.WithinGroup) else None
    first = call.expressions[0]
    is_distinct = isinstance(first, exp.Distinct)
    value = first.expressions[0] if is_distinct else first
    last = exp.Ordered(this=value.copy(), nulls_first=True)
    if given is not None:
        if not is_distinct:  # where there is, the order is by the value itself
            given.expression.append("expressions", last)
        return copy
    around = exp.WithinGroup(this=call.copy(), expression=exp.Order(expressions=[last]))
    if call is copy:
        return around
    call.replace(around)
    return copy


def _depends_on_order(call: exp.Expr) -> bool:
    """Whether an aggregate takes whichever row comes first."""
    return _name(_inside(call)) in _ANY_ROW


def _mergeable(call: exp.Expr) -> tuple[str, list[str]] | None:
    """Return function and arguments of a call whose partial results can be merged."""
    if isinstance(call, exp.Anonymous):
        function = _MERGEABLE_BY_NAME.get((_name(call), len(call.expressions)))
        if function is None or isinstance(call.expressions[0], exp.Distinct):
            return None
        return function, [text(each) for each in call.expressions]
    function = _MERGEABLE.get(type(call))
    if function is None or isinstance(call.this, exp.Distinct):
        return None
    if function == "count":
        if call.expressions:
            return None  # COUNT(a, b) counts rows without any NULL
        if isinstance(call.this, exp.Star | exp.Literal):
            return "count_star", []
    return function, [text(call.this)]


def _filtered(unit: exp.Expr, column: str) -> exp.Expr:
    """Let an aggregate see only the rows that a column says true of."""
    if isinstance(unit, exp.Filter):
        test = exp.and_(unique(column), unit.expression.this.copy())
        return exp.Filter(this=unit.this.copy(), expression=exp.Where(this=test))
    return exp.Filter(this=unit.copy(), expression=exp.Where(this=unique(column)))


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
