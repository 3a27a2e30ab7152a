"""Which calls aggregate, and what is to be done with each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

from laminar.plan.reasons import NoRule, Reason
from laminar.plan.scope import text, unique
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
    " regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy"
    " schema_of_variant_agg skewness some std stddev stddev_pop stddev_samp string_agg"
    " theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum"
    " tuple_intersection_agg_double"
    " tuple_intersection_agg_integer tuple_sketch_agg_double tuple_sketch_agg_integer"
    " tuple_union_agg_double tuple_union_agg_integer var_pop var_samp variance"
    " vector_avg vector_sum"
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
    if is_aggregate(node) or (isinstance(node, _WRAPPERS) and is_aggregate(inside(node))):
        yield node
        return
    for child in node.iter_expressions():
        yield from aggregated(child)


def inside(node: exp.Expr) -> exp.Expr:
    """Return the call within FILTER and the like."""
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


def determined(unit: exp.Expr) -> exp.Expr:
    """Let an aggregate that may answer in several ways answer in one.

    Spark leaves open in which order values are collected and which of several most frequent ones
    is the mode: here they are sorted, and it is the least.
    """
    call = inside(unit)
    match _name(call):
        case "mode" if len(call.expressions) == 1:
            copy = unit.copy()
            inside(copy).append("expressions", exp.true())
            return copy
        case "collect_list" | "collect_set" | "array_agg":
            return exp.Anonymous(this="SORT_ARRAY", expressions=[unit.copy()])
        case "listagg" | "string_agg":
            return _sorted_text(unit)
    return unit


def _sorted_text(unit: exp.Expr) -> exp.Expr:
    """Put LISTAGG's values in order; those that its own order leaves open too."""
    copy = unit.copy()
    call = inside(copy)
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


def first_or_last(call: exp.Expr, order: str) -> tuple[str, list[str]] | None:
    """Return a call that takes one row of its group as the one over the rows' order it means."""
    inner = inside(call)
    name = _name(inner)
    if name not in _ANY_ROW:
        return None
    value, *flags = inner.expressions
    skips = isinstance(call, exp.IgnoreNulls) or bool(flags and text(flags[0]).lower() == "true")
    if isinstance(value, exp.IgnoreNulls | exp.RespectNulls):
        skips, value = isinstance(value, exp.IgnoreNulls), value.this
    if len(flags) > 1 or isinstance(value, exp.Distinct | exp.Order):
        raise NoRule(Reason.UNKNOWN_CLAUSE, text(call))
    written = text(value)
    by = f"CASE WHEN {written} IS NOT NULL THEN {order} END" if skips else order
    return "max_by" if name.startswith("last") else "min_by", [written, by]


def takes_one_row(query: exp.Expr) -> str | None:
    """Return a call of FIRST, LAST or ANY_VALUE as an aggregate, if a query has one."""
    for call in query.find_all(exp.Anonymous):
        if _name(call) in _ANY_ROW and not call.find_ancestor(exp.Window):
            return text(call)
    return None


def mergeable_parts(call: exp.Expr) -> tuple[str, list[str]] | None:
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


def filtered(unit: exp.Expr, column: str) -> exp.Expr:
    """Let an aggregate see only the rows that a column says true of."""
    if isinstance(unit, exp.Filter):
        test = exp.and_(unique(column), unit.expression.this.copy())
        return exp.Filter(this=unit.this.copy(), expression=exp.Where(this=test))
    return exp.Filter(this=unit.copy(), expression=exp.Where(this=unique(column)))
