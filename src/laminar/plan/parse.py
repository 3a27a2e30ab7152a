"""From query text to sqlglot's tree."""

from __future__ import annotations

import re

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from laminar.plan.reasons import NoRule, Reason
from laminar.sql.dialect import AsWritten
from laminar.sql.pipes import without_pipes
from laminar.sql.readable import readable

_PLAN_COLUMN = re.compile(r"c\d+", re.IGNORECASE)


def parse_query(sql: str) -> exp.Expr:
    """Parse a query that Spark accepts; what sqlglot cannot read has no rule."""
    words = without_pipes(sql)
    if words.inexact:
        raise NoRule(Reason.UNKNOWN_CLAUSE, words.inexact)
    try:
        tree = sqlglot.parse_one(readable(words.text), dialect=AsWritten)
    except SqlglotError as error:
        raise NoRule(Reason.UNKNOWN_CLAUSE, str(error).split("\n")[0]) from error
    if tree.find(exp.Command) is not None:
        raise NoRule(Reason.UNKNOWN_CLAUSE, "part of the query is not understood")
    tree = _intersect_first(tree)
    _set_names_apart(tree)
    _sign_literals(tree)
    _write_window_times(tree)
    return tree


def _intersect_first(tree: exp.Expr) -> exp.Expr:
    """Let INTERSECT bind tighter than UNION and EXCEPT; older versions of sqlglot do not.

    (a UNION b) INTERSECT c, where no brackets were written, is a UNION (b INTERSECT c).
    """
    # From the inside out: what was turned around may have to be turned around again.
    for node in reversed(list(tree.find_all(exp.Intersect))):
        outer = node.this
        if not isinstance(outer, exp.Union | exp.Except):
            continue
        inner = exp.Intersect(
            this=outer.expression, expression=node.expression, distinct=node.args.get("distinct")
        )
        for modifier in node.args.keys() - inner.args.keys():
            outer.set(modifier, node.args[modifier])
        outer.set("expression", inner.subquery(copy=False))
        tree = outer if node is tree else tree
        node.replace(outer)
    return tree


def _sign_literals(tree: exp.Expr) -> None:
    """Put the sign of a typed literal inside: -128Y is a TINYINT, 128Y is none."""
    for node in list(tree.find_all(exp.Neg)):
        cast = node.this
        if isinstance(cast, exp.Cast) and isinstance(cast.this, exp.Literal):
            number = cast.this
            if not number.is_string:
                cast.set("this", exp.Neg(this=number.copy()))
                node.replace(cast)


def _write_window_times(tree: exp.Expr) -> None:
    """Write window_time(w) as what it is: Spark takes it only right above the grouping."""
    for call in list(tree.find_all(exp.Anonymous)):
        if str(call.this).lower() == "window_time" and len(call.expressions) == 1:
            field = exp.to_identifier("end", quoted=True)
            end = exp.Dot(this=call.expressions[0], expression=field)
            micro = exp.Interval(this=exp.Literal.string("1"), unit=exp.var("MICROSECOND"))
            call.replace(exp.Paren(this=exp.Sub(this=end, expression=micro)))


def _set_names_apart(tree: exp.Expr) -> None:
    """Keep names that are given inside expressions from being read as columns of the plan.

    The plan calls its columns c1, c2, ...: a field `c1` of a struct would be taken for one of them,
    and a lambda's parameter `c1` would hide one.
    """
    for each in tree.find_all(exp.Identifier):
        if _PLAN_COLUMN.fullmatch(each.name):
            each.set("quoted", True)
    for function in tree.find_all(exp.Lambda):
        names = {each.name for each in function.expressions}
        lowered = {name.lower() for name in names}
        if any(each.parts[0].name.lower() in lowered for each in function.find_all(exp.Column)):
            raise NoRule(Reason.UNKNOWN_CLAUSE, "a parameter is written in two ways")
        for each in function.find_all(exp.Identifier):
            if each.name in names and _PLAN_COLUMN.fullmatch(each.name) and _is_operand(each):
                each.set("this", f"__{each.name}")


def _is_operand(name: exp.Identifier) -> bool:
    """Whether a name stands for a value, and not for a field or a part of a column."""
    match name.parent:
        case exp.Column() | exp.ColumnDef():
            return False
        case exp.PropertyEQ():
            return name.arg_key == "expression"
        case exp.Dot():
            return name.arg_key == "this"
        case _:
            return True
