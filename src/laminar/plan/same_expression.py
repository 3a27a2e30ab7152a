"""When two expressions are one to Spark, however they are written.

    a + b = b + a        a * (b * c) = (c * a) * b        (x AND y) = (y AND x)
    a < b = b > a        NOT (a < b) = (a >= b)           x IN (1, 2) = x IN (2, 1)

GROUP BY a + b answers SELECT b + a, and two such keys in GROUPING SETS are the same key.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

_COMMUTES = (
    exp.Add,
    exp.Mul,
    exp.And,
    exp.Or,
    exp.BitwiseAnd,
    exp.BitwiseOr,
    exp.BitwiseXor,
    exp.EQ,
    exp.NullSafeEQ,
)
_CHAINED = (exp.EQ, exp.NullSafeEQ)  # a = b = c is (a = b) = c
_COMMUTES_BY_NAME = ("greatest", "least")
_TURNED: dict[type[exp.Expr], type[exp.Expr]] = {exp.GT: exp.LT, exp.GTE: exp.LTE}
_OPPOSITE: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GTE,
    exp.GTE: exp.LT,
    exp.GT: exp.LTE,
    exp.LTE: exp.GT,
}
_COSMETIC = ("quoted",)


def form(expression: exp.Expr) -> str:
    """Return a text that resolved expressions share if Spark takes them for the same."""
    node = expression.unnest()
    if isinstance(node, exp.Not) and type(node.this.unnest()) in _OPPOSITE:
        tested = node.this.unnest()
        node = _OPPOSITE[type(tested)](this=tested.this, expression=tested.expression)
    if type(node) in _TURNED:
        node = _TURNED[type(node)](this=node.expression, expression=node.this)
    if isinstance(node, _CHAINED):
        return _shown(node, sorted((form(node.this), form(node.expression))))
    if isinstance(node, _COMMUTES):
        return _shown(node, sorted(form(each) for each in _operands(node, type(node))))
    parts = dict(node.args)
    if isinstance(node, exp.In) or _name(node) in _COMMUTES_BY_NAME:
        parts["expressions"] = sorted(form(each) for each in node.expressions)
    given = [f"{key}={_part(part)}" for key, part in sorted(parts.items()) if _says(key, part)]
    return _shown(node, given)


def _operands(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """Return what a chain of one operator is over; a stack, for chains may be long."""
    found: list[exp.Expr] = []
    stack = [node]
    while stack:
        current = stack.pop().unnest()
        if type(current) is kind:
            stack += [current.args["this"], current.args["expression"]]
        else:
            found.append(current)
    return found


def _name(node: exp.Expr) -> str:
    return str(node.this).lower() if isinstance(node, exp.Anonymous) else ""


def _says(key: str, part: Any) -> bool:
    return key not in _COSMETIC and part is not None and part is not False and part != []


def _part(part: Any) -> str:
    if isinstance(part, exp.Expr):
        return form(part)
    if isinstance(part, list):
        return str([_part(each) for each in part])
    return repr(part)


def _shown(node: exp.Expr, parts: list[str]) -> str:
    name = _name(node)
    kind = f"{type(node).__name__}:{name}" if name else type(node).__name__
    return f"{kind}({', '.join(each for each in parts if not (name and each.startswith('this=')))})"
