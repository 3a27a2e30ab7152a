"""PIVOT and UNPIVOT, rewritten to what they stand for.

PIVOT (agg(x) FOR k IN (v, ...))    GROUP BY the other columns, agg(x) FILTER (WHERE k = v);
                                    NULL where a group has no row with k = v, cast to the type of k
UNPIVOT (x FOR k IN (a, ...))       each row beside one row ('a', a) for every column listed
"""

from __future__ import annotations

from sqlglot import exp

from laminar.model.quoting import backquoted
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
    if any(column in ctx.chars for column in given.node.columns):
        raise NoRule(Reason.PIVOT, "a CHAR column")
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
    tested = _Tested(ctx, _listed(field.this), scope, given)
    shown = tested.names(field.expressions)
    calls = list(pivot.expressions)
    if not has_aggregates(calls):
        raise NoRule(Reason.PIVOT, text(pivot))
    items: list[exp.Expr] = []
    names: list[str] = []
    for value, name in zip(field.expressions, shown, strict=True):
        test = tested.equals(_unaliased(value))
        for call in calls:
            items.append(_where_present(_unaliased(call), test))
            names.append(f"{name}_{call.alias or text(call)}" if len(calls) > 1 else name)
    read = {
        column.name.lower()
        for each in (*tested.columns, *calls)
        for column in each.find_all(exp.Column)
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


class _Tested:
    """What FOR compares with its values: one column, or several as a struct of them."""

    def __init__(self, ctx: Context, columns: list[exp.Expr], scope: Scope, given: Lowered) -> None:
        self.columns = columns
        self._ctx = ctx
        types = ctx.typer.types(given.node)
        self._types = [types[text(scope.resolve(each))] for each in columns]

    def equals(self, value: exp.Expr) -> exp.Expr:
        """Return the test whether a row has a value; that is cast, as Spark does."""
        parts = self._parts(value)
        casts = zip(self.columns, parts, self._types, strict=True)
        return exp.and_(
            *(
                exp.NullSafeEQ(this=column.copy(), expression=_cast(part, kind))
                for column, part, kind in casts
            )
        )

    def _parts(self, value: exp.Expr) -> list[exp.Expr]:
        parts = [value] if len(self.columns) == 1 else _listed(value)
        if len(parts) != len(self.columns):
            raise NoRule(Reason.PIVOT, text(value))
        return parts

    def names(self, values: list[exp.Expr]) -> list[str]:
        """Return what the columns of values are called: by alias, or as Spark writes a value."""
        if all(each.alias or _is_plain(each) for each in values):
            return [each.alias or each.name for each in values]
        columns = [f"CAST(NULL AS {kind}) AS k{at}" for at, kind in enumerate(self._types)]
        tested = ", ".join(f"k{at}" for at in range(len(columns)))
        tested = f"({tested})" if len(columns) > 1 else tested
        written = ", ".join(_aliased(each) for each in values)
        rows = f"(SELECT {', '.join(columns)}, 1 AS v)"
        sql = f"SELECT * FROM {rows} PIVOT (MAX(v) FOR {tested} IN ({written}))"
        found = list(self._ctx.typer.of_sql(sql))
        if len(found) != len(values):
            raise NoRule(Reason.PIVOT, written)
        return found


def _is_plain(value: exp.Expr) -> bool:
    return isinstance(value, exp.Literal) and (value.is_string or value.is_int)


def _aliased(value: exp.Expr) -> str:
    alias = f" AS {backquoted(value.alias)}" if value.alias else ""
    return f"{text(_unaliased(value))}{alias}"


def _cast(value: exp.Expr, kind: str) -> exp.Expr:
    if _is_plain(value) and kind == ("string" if value.is_string else "int"):
        return value.copy()
    return exp.Anonymous(this="CAST", expressions=[exp.Var(this=f"{text(value)} AS {kind}")])


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
