"""The order that FIRST and LAST go by: event time, then arrival.

Rows of a table have both. Rows of anything else have, after their event time, all their columns:
equal rows are then interchangeable, so the answer is one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from laminar.model.trace import ARRIVAL
from laminar.plan.context import Context
from laminar.plan.nodes import Filter, Generate, Join, Node, Project, Reweigh, Scan, UnionAll
from laminar.plan.progress import flows


@dataclass(frozen=True, slots=True)
class _Order:
    """Columns of a plan, by what they say about order."""

    times: tuple[str, ...] = ()
    arrivals: tuple[str, ...] = ()
    values: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """All of them, the weightiest first."""
        return (*self.times, *self.arrivals, *self.values)


def in_order(ctx: Context, node: Node) -> tuple[Node, str]:
    """Return the plan with what its order needs, and the expression of that order."""
    ordered, order = _ordered(ctx, node)
    items = ", ".join(f"'o{place}', {column}" for place, column in enumerate(order.columns))
    return ordered, f"NAMED_STRUCT({items})"


def _ordered(ctx: Context, node: Node) -> tuple[Node, _Order]:
    match node:
        case Scan() if node.relation.lower() in ctx.arrivals:
            arrival = ctx.fresh()
            wide = Scan(node.relation, (*node.items, (ARRIVAL, arrival)))
            return wide, _Order(_times(ctx, node), (arrival,))
        case Filter():
            below, order = _ordered(ctx, node.input)
            return Filter(below, node.predicate), order
        case Reweigh():
            below, order = _ordered(ctx, node.input)
            return Reweigh(below, node.factor), order
        case Generate():
            below, order = _ordered(ctx, node.input)
            wide_generate = Generate(below, node.generator, node.produced, node.outer)
            # Rows made of one row came together.
            more = _values(ctx, wide_generate, node.produced)
            return wide_generate, _Order(order.times, order.arrivals, (*order.values, *more))
        case Project():
            below, order = _ordered(ctx, node.input)
            names = dict(node.items)
            added = [column for column in order.columns if column not in names]
            for column in added:
                names[column] = ctx.fresh() if "." in column else column
            items = (*node.items, *((column, names[column]) for column in added))
            return Project(below, items), _renamed(order, names)
        case Join():
            parts = [_ordered(ctx, each) for each in node.inputs]
            joined = Join(tuple(each for each, _ in parts), node.predicates)
            return joined, _Order(
                _all(order.times for _, order in parts),
                _all(order.arrivals for _, order in parts),
                _all(order.values for _, order in parts),
            )
        case UnionAll():
            return _union(ctx, node)
        case _:
            return node, _Order(_times(ctx, node), (), _values(ctx, node, node.columns))


def _union(ctx: Context, node: UnionAll) -> tuple[Node, _Order]:
    """Rows of several inputs meet on one time and one number each, then on their values."""
    time, arrival = ctx.fresh(), ctx.fresh()
    parts: list[Node] = []
    for each in node.inputs:
        below, order = _ordered(ctx, each)
        first = f"CAST({order.times[0]} AS TIMESTAMP)" if order.times else "CAST(NULL AS TIMESTAMP)"
        number = order.arrivals[0] if order.arrivals else "CAST(NULL AS BIGINT)"
        items = [(column, column) for column in each.columns]
        parts.append(Project(below, (*items, (first, ctx.fresh()), (number, ctx.fresh()))))
    types = (*node.types, "timestamp", "bigint") if node.types else ()
    wide = UnionAll(tuple(parts), (*node.columns, time, arrival), types)
    return wide, _Order((time,), (arrival,), _values(ctx, wide, node.columns))


def _times(ctx: Context, node: Node) -> tuple[str, ...]:
    return tuple(dict.fromkeys(flows(node, ctx.times)))


def _values(ctx: Context, node: Node, columns: Iterable[str]) -> tuple[str, ...]:
    types = ctx.typer.types(node)
    return tuple(
        name for name in columns if "map<" not in types[name] and "variant" not in types[name]
    )


def _renamed(order: _Order, names: dict[str, str]) -> _Order:
    def each(columns: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(names.get(column, column) for column in columns)

    return _Order(each(order.times), each(order.arrivals), each(order.values))


def _all(parts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(column for part in parts for column in part)
