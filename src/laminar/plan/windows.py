"""Window functions: computed per partition over all rows of the partition."""

from __future__ import annotations

from sqlglot import exp

from laminar.plan.context import Context
from laminar.plan.nodes import Node, Window
from laminar.plan.scope import text


def add_windows(
    ctx: Context, node: Node, groups: list[list[exp.Expr]]
) -> tuple[Node, list[list[exp.Expr]]]:
    """Compute the window calls of resolved expressions and put columns in their place.

    The partition to recompute is what all windows have in common: a change reaches only rows
    that agree with it on those columns.
    """
    calls: dict[str, exp.Window] = {}
    for expression in (each for group in groups for each in group):
        for found in expression.find_all(exp.Window):
            calls.setdefault(text(found), found)
    if not calls:
        return node, groups
    partitions = [
        [text(key) for key in call.args.get("partition_by") or []] for call in calls.values()
    ]
    common = [key for key in partitions[0] if all(key in other for other in partitions)]
    node, keys = ctx.extend(node, common)
    names = {written: ctx.fresh() for written in calls}
    node = Window(node, keys, tuple(names.items()))

    def one(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Window):
            return exp.column(names[text(part)])
        return part

    return node, [[each.transform(one) for each in group] for group in groups]
