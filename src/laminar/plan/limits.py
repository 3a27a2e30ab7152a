"""LIMIT and OFFSET: the first rows in an order, of all rows or of each value of a domain."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

from laminar.plan.context import Context
from laminar.plan.joins import only
from laminar.plan.nodes import Filter, Node, TopK, Window
from laminar.plan.reasons import NoRule, Reason
from laminar.plan.recursion import ends_recursion


def bounds(query: exp.Expr) -> tuple[int | None, int] | None:
    """Return how many rows to take (None: all) and to skip; None if the query takes all."""
    limit, offset = query.args.get("limit"), query.args.get("offset")
    taken = _number(limit) if limit is not None else None
    skipped = _number(offset) if offset is not None else None
    return None if taken is None and not skipped else (taken, skipped or 0)


def _number(clause: exp.Expr) -> int | None:
    if clause.expression.name.upper() == "ALL":
        return None
    number = simplify(clause.expression.copy(), dialect="spark")
    if not isinstance(number, exp.Literal) or number.is_string:
        raise NoRule(Reason.LIMIT_EXPRESSION, "LIMIT and OFFSET take numbers")
    return int(number.this)


def limited(
    ctx: Context,
    node: Node,
    order: list[str],
    taken: tuple[int | None, int],
    domain: tuple[str, ...],
) -> Node:
    """Take the first rows; for a domain, of each of its values."""
    limit, offset = taken
    if not domain:
        if not order and ends_recursion(node):
            raise NoRule(Reason.RECURSIVE_CTE, "a LIMIT without an order ends it early")
        return TopK(node, tuple(order), limit, offset)
    types = ctx.typer.types(node)
    breakers = [name for name in node.columns if "map<" not in types[name]]
    number = ctx.fresh()
    ordered = ", ".join([*order, *breakers])
    call = f"ROW_NUMBER() OVER (PARTITION BY {', '.join(domain)} ORDER BY {ordered})"
    numbered = Window(node, domain, ((call, number),))
    tests = [f"{number} > {offset}"]
    if limit is not None:
        tests.append(f"{number} <= {offset + limit}")
    return only(Filter(numbered, " AND ".join(tests)), node.columns)
