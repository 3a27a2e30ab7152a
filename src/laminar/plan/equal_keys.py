"""When two keys are equal: as Spark's `=` and IN have it, after coercion.

Spark compares values of one type. Where two have different types it casts both, or one of them,
to a type C that follows from the two types, the operator and the ANSI mode:

    a = b      is      C(a) = C(b)

What is made distinct, grouped or stored as a key is therefore never `a` but `C(a)`: '1' and '01'
are two strings and one number. C belongs to a pair of keys, not to a column, since equality after
a cast is not transitive over several pairs: '01' = 1 and 1 = '1', but not '01' = '1'.

Of one type, equal is what grouping by it takes for one: NaN = NaN, -0.0 = 0.0, strings by their
collation. NULL equals nothing, and for `<=>` NULL. So two keys of one type need no cast.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from laminar.plan.context import Casts, Context
from laminar.plan.nodes import Join, Node, Project
from laminar.plan.reasons import NoRule, Reason
from laminar.plan.scope import text

_PLAN_COLUMN = re.compile(r"\bc\d+\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two expressions that a join compares, one of each side, of one type."""

    left: str
    right: str
    operator: str = "="  # or `<=>`, for which NULL equals NULL
    is_cast: bool = False  # one of them is a cast, which may fail


Compared = tuple[exp.Expr, exp.Expr]
"""An expression over the left plan and one over the right."""


def comparable(
    ctx: Context, left: Node, right: Node, given: Sequence[Compared], operators: Sequence[str]
) -> list[Compared]:
    """Return what is compared, cast to what Spark casts it to.

    Args:
        ctx: knows types.
        left: the plan that the first of each two reads.
        right: the plan that the second reads.
        given: what is compared.
        operators: by what, for each: a comparison, or IN for the values of a nested query.
    """
    ours = _types(ctx, left, [one for one, _ in given])
    theirs = _types(ctx, right, [other for _, other in given])
    found: list[Compared] = []
    for (one, other), mine, its, operator in zip(given, ours, theirs, operators, strict=True):
        if mine == its:
            found.append((one, other))
        elif _is_text(mine) and _is_text(its):
            kind = _collated(ctx, left, right, one, other)
            found.append((_cast(one, mine, (kind,)), _cast(other, its, (kind,))))
        else:
            casts = ctx.typer.compared(mine, its, operator)
            if casts is None:
                raise NoRule(Reason.UNKNOWN_COMPARISON, f"{mine} {operator} {its}")
            found.append((_cast(one, mine, casts[0]), _cast(other, its, casts[1])))
    return found


def paired(
    ctx: Context, left: Node, right: Node, given: Sequence[tuple[Compared, str]]
) -> list[Pair]:
    """Return pairs of keys, of conditions that compare them by an operator."""
    if not given:
        return []
    written, operators = [each for each, _ in given], [operator for _, operator in given]
    pairs: list[Pair] = []
    made = comparable(ctx, left, right, written, operators)
    for before, after, operator in zip(written, made, operators, strict=True):
        pairs.append(Pair(text(after[0]), text(after[1]), operator, after != before))
    return pairs


def _types(ctx: Context, node: Node, expressions: list[exp.Expr]) -> list[str]:
    """Return the types of expressions over a plan."""
    # No names of the plan's own: those it has are the names under which its state is stored.
    items = tuple((text(each), f"__k{place}") for place, each in enumerate(expressions))
    types = ctx.typer.types(Project(node, items))
    return [types[name] for _, name in items]


def _is_text(kind: str) -> bool:
    return kind.split(" ")[0] == "string"


def _collated(ctx: Context, left: Node, right: Node, one: exp.Expr, other: exp.Expr) -> str:
    """Return the collation that two strings have in common.

    It does not follow from their types: COLLATE in the query counts for more than a column's own.
    """
    common = f"COALESCE({text(one)}, {text(other)})"
    return ctx.typer.types(Project(Join((left, right), ()), ((common, "__k"),)))["__k"]


def _cast(expression: exp.Expr, kind: str, casts: Casts) -> exp.Expr:
    if casts == (kind,):
        return expression
    for each in casts:
        if _PLAN_COLUMN.search(each):  # a field that is called like a column would be renamed
            raise NoRule(Reason.UNKNOWN_COMPARISON, each)
        # As Spark spells the type, which sqlglot need not know.
        expression = exp.Cast(this=expression.copy(), to=exp.Var(this=each))
    return expression
