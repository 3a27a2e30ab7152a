"""Window functions: computed per partition over all rows of the partition."""

from __future__ import annotations

from sqlglot import exp

from laminar.plan.context import Context
from laminar.plan.nodes import Node, Window
from laminar.plan.reasons import NoRule, Reason
from laminar.plan.scope import text, unique


def named_windows(query: exp.Select) -> exp.Select:
    """Write the windows of the WINDOW clause out where OVER names them."""
    clause = query.args.get("windows")
    if not clause:
        return query
    query = query.copy()
    known: dict[str, exp.Expr] = {}
    for each in query.args["windows"]:
        known[each.this.name.lower()] = _merged(each, known)
    query.set("windows", None)
    for found in list(query.find_all(exp.Window)):
        if found.args.get("alias") is not None and found.find_ancestor(exp.Select) is query:
            merged = _merged(found, known)
            for part in _PARTS:
                found.set(part, merged.args.get(part))
            found.set("alias", None)
    return query


_PARTS = ("partition_by", "order", "spec")


def _merged(window: exp.Expr, known: dict[str, exp.Expr]) -> exp.Expr:
    """Add to a window what the one it names says."""
    alias = window.args.get("alias")
    if alias is None:
        return window
    base = known.get(alias.name.lower())
    if base is None:
        raise NoRule(Reason.UNRESOLVED_NAME, alias.name)
    merged = exp.Window(this=window.this)
    for part in _PARTS:
        given = window.args.get(part) or base.args.get(part)
        if isinstance(given, list):
            given = [each.copy() for each in given]
        merged.set(part, given.copy() if isinstance(given, exp.Expr) else given)
    return merged


def add_windows(
    ctx: Context, node: Node, groups: list[list[exp.Expr]], domain: list[str]
) -> tuple[Node, list[list[exp.Expr]]]:
    """Compute the window calls of resolved expressions and put columns in their place.

    The partition to recompute is what all windows have in common: a change reaches only rows
    that agree with it on those columns. In a correlated query the domain is part of each.
    """
    calls: dict[str, exp.Window] = {}
    for expression in (each for group in groups for each in group):
        for found in expression.find_all(exp.Window):
            calls.setdefault(text(found), found.copy())
    if not calls:
        return node, groups
    for call in calls.values():
        own = call.args.get("partition_by") or []
        call.set("partition_by", [*(unique(each) for each in domain), *own])
    partitions = [[text(key) for key in call.args["partition_by"]] for call in calls.values()]
    common = [key for key in partitions[0] if all(key in other for other in partitions)]
    node, keys = ctx.extend(node, common)
    names = {written: ctx.fresh() for written in calls}
    items = tuple((text(call), names[written]) for written, call in calls.items())
    node = Window(node, keys, items)

    def one(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Window):
            return exp.column(names[text(part)])
        return part

    return node, [[each.transform(one) for each in group] for group in groups]
