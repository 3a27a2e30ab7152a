"""PIVOT and UNPIVOT, rewritten to what they stand for.

PIVOT (agg(x) FOR k IN (v, ...))    GROUP BY the other columns, agg(x) FILTER (WHERE k = v);
                                    NULL where a group has no row with k = v
UNPIVOT (x FOR k IN (a, ...))       each row beside one row ('a', a) for every column listed
"""

from __future__ import annotations

from sqlglot import exp

from laminar.plan.aggregate_calls import has_aggregates, is_aggregate
from laminar.plan.aggregation import aggregate_units
from laminar.plan.context import Context, Lowered
from laminar.plan.nodes import Filter, Generate, Project
from laminar.plan.reasons import NoRule, Reason
from laminar.plan.scope import Binding, Scope, text


def apply_pivot(ctx: Context, given: Lowered, pivot: exp.Pivot) -> Lowered:
    """Lower one PIVOT or UNPIVOT over a relation."""
    if len(pivot.args.get("fields") or []) != 1:
        raise NoRule(Reason.PIVOT, text(pivot))
    scope = Scope(bindings=[Binding.of(ctx.fresh(), given.names, given.node.columns)])
    if pivot.args.get("unpivot"):
        return _unpivot(ctx, given, pivot, scope)
    return _pivot(ctx, given, pivot, scope)


def _listed(node: exp.Expr) -> list[exp.Expr]:
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node]


def _unaliased(node: exp.Expr) -> exp.Expr:
    found: exp.Expr = node.this if isinstance(node, exp.PivotAlias | exp.Alias) else node
    return found


def _pivot(ctx: Context, given: Lowered, pivot: exp.Pivot, scope: Scope) -> Lowered:
    field = pivot.args["fields"][0]
    tested = _listed(field.this)
    calls = list(pivot.expressions)
    if not has_aggregates(calls):
        raise NoRule(Reason.PIVOT, text(pivot))
    items: list[exp.Expr] = []
    names: list[str] = []
    for value in field.expressions:
        parts = _listed(_unaliased(value))
        test = exp.and_(
            *(
                exp.NullSafeEQ(this=column.copy(), expression=part.copy())
                for column, part in zip(tested, parts, strict=True)
            )
        )
        for call in calls:
            items.append(_where_present(_unaliased(call), test))
            shown = value.alias or "_".join(part.name or text(part) for part in parts)
            names.append(f"{shown}_{call.alias or text(call)}" if len(calls) > 1 else shown)
    read = {
        column.name.lower() for each in (*tested, *calls) for column in each.find_all(exp.Column)
    }
    kept = [
        (name, column)
        for name, column in zip(given.names, given.node.columns, strict=True)
        if name.lower() not in read
    ]
    units = aggregate_units(ctx, scope, items)
    grouped = units.aggregate(ctx, given.node, [column for _, column in kept])
    finished = [(text(units.rewrite(scope.resolve(each))), ctx.fresh()) for each in items]
    keys = [(key, ctx.fresh()) for key in grouped.keys]
    return Lowered(Project(grouped, (*keys, *finished)), (*(name for name, _ in kept), *names))


def _where_present(call: exp.Expr, test: exp.Expr) -> exp.Expr:
    """Aggregate over the rows that pass a test; NULL if there are none."""

    def filtered(node: exp.Expr) -> exp.Expr:
        if not has_aggregates([node]):
            return node
        if is_aggregate(node):
            return exp.Filter(this=node.copy(), expression=exp.Where(this=test.copy()))
        copy = node.copy()
        for child in list(copy.iter_expressions()):
            child.replace(filtered(child))
        return copy

    present = exp.GT(this=exp.CountIf(this=test.copy()), expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=present, true=filtered(call))])


def _unpivot(ctx: Context, given: Lowered, pivot: exp.Pivot, scope: Scope) -> Lowered:
    field = pivot.args["fields"][0]
    values = [each.name for each in _listed(pivot.expressions[0])]
    rows: list[tuple[str, list[str]]] = []
    listed: set[str] = set()
    for each in field.expressions:
        parts = _listed(_unaliased(each))
        listed |= {part.name.lower() for part in parts}
        shown = each.alias or "_".join(part.name for part in parts)
        rows.append((shown, [text(scope.resolve(part)) for part in parts]))
    types = ctx.typer.types(given.node)
    common = [_widest(ctx, [types[cells[at]] for _, cells in rows]) for at in range(len(values))]
    cells = ", ".join(
        ", ".join(
            [_literal(shown), *(f"CAST({c} AS {t})" for c, t in zip(row, common, strict=True))]
        )
        for shown, row in rows
    )
    produced = tuple(ctx.fresh() for _ in range(1 + len(values)))
    made = Generate(given.node, f"STACK({len(rows)}, {cells})", produced)
    kept = [
        (name, column)
        for name, column in zip(given.names, given.node.columns, strict=True)
        if name.lower() not in listed
    ]
    some = " OR ".join(f"{column} IS NOT NULL" for column in produced[1:])
    found = made if pivot.args.get("include_nulls") else Filter(made, some)
    columns = (*(column for _, column in kept), *produced)
    return Lowered(
        Project(found, tuple((column, ctx.fresh()) for column in columns)),
        (*(name for name, _ in kept), field.this.name, *values),
    )


def _literal(value: str) -> str:
    return text(exp.Literal.string(value))


def _widest(ctx: Context, kinds: list[str]) -> str:
    """Return the type that Spark widens all of these to."""
    if len(set(kinds)) == 1:
        return kinds[0]
    cells = ", ".join(f"CAST(NULL AS {kind})" for kind in kinds)
    return ctx.typer.of_sql(f"SELECT COALESCE({cells}) AS c")["c"]
