"""EXPLODE and its kin: each row beside the rows that a generator makes of it.

LATERAL VIEW f(a), LATERAL f(a), SELECT f(a)    are the same `Generate`
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp

from laminar.plan.context import Context
from laminar.plan.nodes import Generate, Node, Project
from laminar.plan.reasons import NoRule, Reason
from laminar.plan.scope import Binding, Scope, text

_KINDS = (exp.Explode, exp.Posexplode, exp.Inline)
_BY_NAME = ("explode", "posexplode", "inline", "stack", "json_tuple")


@dataclass(frozen=True, slots=True)
class Made:
    """A plan with produced columns, and how those are called if nobody names them."""

    node: Generate
    names: tuple[str, ...]


def is_generator(node: exp.Expr) -> bool:
    """Whether the node itself is a generator call."""
    return isinstance(node, _KINDS) or _name(node)[0] in _BY_NAME


def _name(node: exp.Expr) -> tuple[str, bool]:
    """Return the function and whether it is an outer one."""
    if isinstance(node, exp.Anonymous):
        name = str(node.this).lower()
    elif isinstance(node, _KINDS):
        name = text(node).split("(")[0].strip().lower()
    else:
        return "", False
    return name.removesuffix("_outer"), name.endswith("_outer")


def generate(
    ctx: Context, node: Node, call: exp.Expr, *, outer: bool = False, width: int | None = None
) -> Made:
    """Apply a generator whose arguments are resolved."""
    call = _by_position(call)
    function, keeps = _name(call)
    if function not in _BY_NAME:
        raise NoRule(Reason.TABLE_FUNCTION, text(call))
    if call.find(exp.Query) is not None or any(
        is_generator(part) for part in call.walk() if part is not call
    ):
        raise NoRule(Reason.GENERATOR_POSITION, text(call))
    names = _names(ctx, node, function, call)
    if width is not None and width != len(names):
        names = tuple(f"col{place}" for place in range(width))
    columns = tuple(ctx.fresh() for _ in names)
    return Made(Generate(node, text(call), columns, outer or keeps), names)


def _by_position(call: exp.Expr) -> exp.Expr:
    """Return the call without the name of its argument: those that have one have no other."""
    copy = call.copy()
    for named in list(copy.find_all(exp.Kwarg)):
        if named.parent is copy:
            named.replace(named.expression)
    return copy


def _names(ctx: Context, node: Node, function: str, call: exp.Expr) -> tuple[str, ...]:
    """Return what Spark calls the columns that a generator produces."""
    if function == "stack":
        values = call.expressions[1:] if isinstance(call, exp.Anonymous) else call.expressions
        rows = call.expressions[0] if isinstance(call, exp.Anonymous) else call.this
        if not (isinstance(rows, exp.Literal) and rows.is_int):
            raise NoRule(Reason.TABLE_FUNCTION, text(call))
        return tuple(f"col{place}" for place in range(-(-len(values) // int(rows.name))))
    if function == "json_tuple":
        return tuple(f"c{place}" for place in range(len(call.expressions) - 1))
    argument = call.expressions[0] if isinstance(call, exp.Anonymous) else call.this
    probe = ctx.fresh()
    kind = ctx.typer.types(Project(node, ((text(argument), probe),)))[probe]
    if function == "inline":
        return struct_fields(kind.removeprefix("array<"))
    names = ("key", "value") if kind.startswith("map<") else ("col",)
    return ("pos", *names) if function == "posexplode" else names


def struct_fields(kind: str) -> tuple[str, ...]:
    """Return the fields of struct<...>, as a type is told."""
    inside = kind.removeprefix("struct<")
    found: list[str] = []
    depth = 0
    start = 0
    for place, letter in enumerate(inside):
        if depth == 0 and letter == ":":
            found.append(inside[start:place])
        if letter in "<(":
            depth += 1
        elif letter in ">)":
            depth -= 1
        elif letter == "," and depth == 0:
            start = place + 1
        if depth < 0:
            break
    return tuple(re.sub(r"^`(.*)`$", r"\1", each) for each in found)


def lateral_view(ctx: Context, node: Node, lateral: exp.Lateral, scope: Scope) -> Node:
    """Lower LATERAL VIEW [OUTER] f(a) t AS c, d."""
    alias = lateral.args["alias"]
    given = tuple(column.name for column in alias.args.get("columns") or [])
    call = scope.resolve(lateral.this)
    outer = bool(lateral.args.get("outer"))
    made = generate(ctx, node, call, outer=outer, width=len(given) or None)
    shown = alias.name or ctx.fresh()
    scope.bindings.append(Binding.of(shown, given or made.names, made.node.produced))
    return made.node


def refuse_inside(expression: exp.Expr) -> None:
    """Refuse a generator that is a part of an expression."""
    if any(is_generator(part) for part in expression.walk()):
        raise NoRule(Reason.GENERATOR_POSITION, text(expression))
