"""Which expressions over groups can fail, and when it is certain that they do not.

Groups are finished when somebody reads them, so an expression over them is computed then. One that
can fail (`SUM(a) / SUM(b)`) has to fail in the epoch that brought the row, and name the view. The
epoch therefore tries it on the groups it touched, unless their accumulators show that it cannot
fail: partial sums that are all greater than zero do not add up to zero.

Sums that outgrow their type are not looked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from laminar.delta.program import Guard, Merged
from laminar.plan.nodes import Filter, Node, Project

_TOTAL = (
    exp.Abs,
    exp.Add,
    exp.Alias,
    exp.And,
    exp.Array,
    exp.Between,
    exp.Boolean,
    exp.Case,
    exp.Ceil,
    exp.Coalesce,
    exp.Collate,
    exp.Column,
    exp.Concat,
    exp.DPipe,
    exp.DataType,
    exp.DataTypeParam,
    exp.Dot,
    exp.EQ,
    exp.Floor,
    exp.GT,
    exp.GTE,
    exp.Greatest,
    exp.Identifier,
    exp.If,
    exp.In,
    exp.Is,
    exp.LT,
    exp.LTE,
    exp.Least,
    exp.Length,
    exp.Like,
    exp.Literal,
    exp.Lower,
    exp.Mul,
    exp.NEQ,
    exp.Neg,
    exp.Not,
    exp.Null,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.Nullif,
    exp.Or,
    exp.Paren,
    exp.PropertyEQ,
    exp.Round,
    exp.Struct,
    exp.Sub,
    exp.TimestampTrunc,
    exp.Trim,
    exp.Tuple,
    exp.Upper,
    exp.Var,
)
"""What yields a value, or NULL, whatever it is given."""

_DIVISIONS = (exp.Div, exp.Mod, exp.IntDiv)
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_WIDE = (exp.DataType.Type.DOUBLE, exp.DataType.Type.FLOAT, exp.DataType.Type.DECIMAL)
_TEXTS = (exp.DataType.Type.TEXT, exp.DataType.Type.VARCHAR)
_FOLLOWS_SIGN = frozenset(("count_star", "count", "count_if", "sum", "avg", "min", "max"))
"""Calls that are greater than zero if the accumulators of their value are."""


def guard_of(node: Node, types: Mapping[str, str]) -> Guard | None:
    """Return what may fail in the expressions of a linear plan; None if nothing can.

    Args:
        node: filters and projections over one relation.
        types: types of all columns that the expressions may name.
    """
    found: list[Guard] = []
    while isinstance(node, Filter | Project):
        texts = [node.predicate] if isinstance(node, Filter) else [text for text, _ in node.items]
        found += [guard for text in texts for guard in _risks(text, types)]
        node = node.input
    if not found:
        return None
    divisors = frozenset(name for guard in found for name in guard.divisors)
    return Guard(divisors, all(guard.provable for guard in found))


def _risks(text: str, types: Mapping[str, str]) -> Iterable[Guard]:
    if text.isidentifier():
        return
    try:
        tree = sqlglot.parse_one(text, read="spark")
    except SqlglotError:  # Spark has words that it does not know
        yield Guard(frozenset(), provable=False)
        return
    for part in tree.walk():
        if isinstance(part, _DIVISIONS):
            divisor = part.expression.unnest()
            if isinstance(divisor, exp.Column) and not divisor.table:
                yield Guard(frozenset({divisor.name}))
            elif not _is_never_zero(divisor):
                yield Guard(frozenset(), provable=False)
        elif isinstance(part, exp.Cast):
            if not _is_total_cast(part, types):
                yield Guard(frozenset(), provable=False)
        elif not isinstance(part, _TOTAL):
            yield Guard(frozenset(), provable=False)


def _is_never_zero(divisor: exp.Expr) -> bool:
    if isinstance(divisor, exp.Nullif):
        other = divisor.expression
        return isinstance(other, exp.Literal) and not other.is_string and float(other.name) == 0
    return isinstance(divisor, exp.Literal) and not divisor.is_string and float(divisor.name) != 0


def _is_total_cast(cast: exp.Cast, types: Mapping[str, str]) -> bool:
    # The parser has one class for CAST and TRY_CAST.
    if cast.args.get("safe") or cast.to.is_type(*_TEXTS):
        return True
    given = cast.this.unnest()
    kind = types.get(given.name, "") if isinstance(given, exp.Column) else ""
    return cast.to.is_type(*_WIDE) and kind.split("(")[0] in _NUMBERS


def holds(guard: Guard, relation: Merged, positive: frozenset[str]) -> bool:
    """Whether it is certain that nothing fails.

    Args:
        guard: what may fail.
        relation: the groups that the expressions are over.
        positive: accumulators that are greater than zero in every partial row.
    """
    if not guard.provable:
        return False
    calls = {call.name: call.function for call in relation.node.calls}
    finishes = {each.name: each for each in relation.accumulators.finishes}
    return all(
        calls.get(name) in _FOLLOWS_SIGN and finishes[name].signs <= positive
        for name in guard.divisors
    )
