"""Who has a partner, when the condition is no equality.

    partnered(A, B, θ) = distinct π_a (distinct π_a(A) ⋈_θ B)        a: the columns of A in θ

Both projections are sets of values, kept as counts, so a change of A or B moves only the values
whose count of partners becomes or stops being zero. A's rows are then compared with the set by
equality, NULL with NULL.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from laminar.model.same_row import encoded, has_code
from laminar.plan.context import Context
from laminar.plan.nodes import Aggregate, Join, Node, Predicate, Project
from laminar.plan.outer_values import Values
from laminar.plan.scope import reads, text


def values_of(
    ctx: Context,
    node: Node,
    columns: tuple[str, ...],
    by_code: Callable[[str], bool] = has_code,
) -> Values:
    """Return the distinct values of some columns of a plan.

    Args:
        ctx: names columns, and knows types.
        node: the plan.
        columns: the columns.
        by_code: tells for a type whether to tell its values apart by their bytes.
    """
    names = {column: ctx.named_after(column) for column in columns}
    types = ctx.typer.types(Project(node, tuple((column, column) for column in columns)))
    kinds = {column: types[column] for column in columns if by_code(types[column])}
    items = tuple(
        (encoded(column, kinds[column]) if column in kinds else column, name)
        for column, name in names.items()
    )
    rows = Project(node, items)
    return Values(Aggregate(rows, rows.columns, ()), names, kinds)


def partnered(ctx: Context, kept: Node, other: Node, conditions: list[exp.Expr]) -> Values:
    """Return the values of `kept` (in the columns the conditions read) that have a partner."""
    used = frozenset[str]().union(*(reads(each) for each in conditions))
    asked = values_of(ctx, kept, tuple(column for column in kept.columns if column in used))
    renamed = [asked.rename(each) for each in conditions]
    tests = tuple(Predicate(text(each), reads(each)) for each in renamed)
    found = values_of(ctx, Join((asked.node, other), tests), asked.node.columns)
    names = {column: found.names[asked.names[column]] for column in asked.names}
    return Values(found.node, names, asked.kinds)
