"""All fields of a struct in a select list: `s.*`, `t.s.*`, `STRUCT(...).*`."""

from __future__ import annotations

from sqlglot import exp

from laminar.plan.aggregate_calls import has_aggregates
from laminar.plan.context import Context
from laminar.plan.generators import struct_fields
from laminar.plan.nodes import Node, Project
from laminar.plan.reasons import NoRule, Reason
from laminar.plan.scope import Scope, text
from laminar.plan.subqueries import has_subquery


def struct_of(scope: Scope, item: exp.Expr) -> exp.Expr | None:
    """Return the struct of which an item takes all fields; nothing if it is no such item.

    A name before the star is an item of the FROM clause if there is one, otherwise a column.
    """
    if isinstance(item, exp.Dot) and isinstance(item.expression, exp.Star):
        found: exp.Expr | None = item.this
        return None if item.expression.args.get("except_") else found
    if not isinstance(item, exp.Column) or not isinstance(item.this, exp.Star):
        return None
    parts = [part.copy() for part in item.parts[:-1]]
    is_table = len(parts) == 1 and scope.has_table(parts[0].name)
    if not parts or is_table or item.this.args.get("except_"):
        return None
    return exp.Column(this=parts[-1], table=parts[-2] if len(parts) > 1 else None)


def fields_of(
    ctx: Context, node: Node, scope: Scope, struct: exp.Expr
) -> list[tuple[str, exp.Expr]]:
    """Return the fields of a struct with their names; Spark is asked which it has."""
    if has_aggregates([struct]) or has_subquery(struct) or struct.find(exp.Window):
        raise NoRule(Reason.STAR_ARGUMENT, text(struct))
    probe = ctx.fresh()
    kind = ctx.typer.types(Project(node, ((text(scope.resolve(struct)), probe),)))[probe]
    if not kind.startswith("struct<"):
        raise NoRule(Reason.STAR_ARGUMENT, text(struct))
    return [
        (name, exp.Dot(this=struct.copy(), expression=exp.to_identifier(name, quoted=True)))
        for name in struct_fields(kind)
    ]
