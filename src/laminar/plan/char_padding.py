"""Comparisons of CHAR(n) columns, padded as Spark's analyzer pads them.

A column of CHAR(n), and only a column, is compared with blanks up to the longer side:

    c = 'a'            c = 'a  '             of CHAR(3): the literal is filled up
    c = 'a    '        RPAD(c, 5) = 'a    '  or the column, where the literal is longer
    c IN ('a', 'bcde') RPAD(c, 4) IN ('a   ', 'bcde')
    c < d              RPAD(c, 5) < d        of CHAR(3) and CHAR(5)

Everything else is compared as it is: BETWEEN, LIKE, IN of a query, fields of rows, texts that are
no CHAR. It is written into the plan here, so that rules see nothing but plain text.

A column stays one through subqueries, WITH items, grouping and set operations (which take it from
their first part). What is computed is none, nor is an outer column that a nested query selects.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from laminar.model.char_columns import char_length
from laminar.plan.reasons import NoRule, Reason

_COMPARISONS = (
    exp.EQ,
    exp.NEQ,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
)
_NEVER_PADDED = (exp.Null, exp.Boolean, exp.Neg)
_COMPARE_INSIDE = ("decode", "decode_case", "equal_null", "named_struct", "struct")
"""Functions in which Spark pads, or whose fields it takes for CHAR columns once they are out."""


def padded(expression: exp.Expr, chars: Mapping[str, str]) -> exp.Expr:
    """Return a resolved expression with its comparisons padded.

    Args:
        expression: over columns of a plan.
        chars: column of the plan -> its type, for those that are CHAR(n) or have it inside.

    Raises:
        NoRule: what Spark does here is not known.
    """
    if not chars or not any(each.name in chars for each in expression.find_all(exp.Column)):
        return expression
    made = expression.copy()
    for node in list(made.walk()):
        if isinstance(node, _COMPARISONS):
            _compare(node, chars)
        elif isinstance(node, exp.Case):
            _search(node, chars)
        elif isinstance(node, exp.In):
            _find(node, chars)
        else:
            _refuse_hidden(node, chars)
    return made


def _noted(node: exp.Expr | None, chars: Mapping[str, str]) -> str | None:
    """Return the type of a column that is CHAR(n), or has it inside."""
    column = node.unnest() if node is not None else None
    is_column = isinstance(column, exp.Column) and not column.table
    return chars.get(column.name) if is_column and column is not None else None


def _length(node: exp.Expr | None, chars: Mapping[str, str]) -> int | None:
    """Return n of a column of CHAR(n)."""
    kind = _noted(node, chars)
    return None if kind is None else char_length(kind)


def _compare(node: exp.Expr, chars: Mapping[str, str]) -> None:
    left, right = node.this, node.expression
    ours, theirs = _length(left, chars), _length(right, chars)
    if ours is not None and theirs is not None:
        wide = max(ours, theirs)
        left, right = _filled(left, ours, wide), _filled(right, theirs, wide)
    elif _noted(left, chars) is not None and _noted(right, chars) is not None:
        raise NoRule(Reason.UNKNOWN_COMPARISON, "columns with CHAR inside of their types")
    elif ours is not None and _is_text(right):
        left, right = _beside(left, ours, right)
    elif theirs is not None and _is_text(left):
        right, left = _beside(right, theirs, left)
    node.set("this", left)
    node.set("expression", right)


def _beside(column: exp.Expr, length: int, literal: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    """Return a column and a literal, the shorter one filled up to the longer."""
    text: str = literal.unnest().this
    wide = max(length, len(text))
    return _filled(column, length, wide), exp.Literal.string(text.ljust(wide))


def _find(node: exp.In, chars: Mapping[str, str]) -> None:
    """Pad `c IN (...)` where all that is listed is text; Spark loses some beside a NULL."""
    length, listed = _length(node.this, chars), node.expressions
    if _noted(node.this, chars) is None or node.args.get("query") is not None:
        return
    if all(_noted(each, chars) is not None for each in listed):
        raise NoRule(Reason.UNKNOWN_COMPARISON, "a CHAR column IN a list of others")
    if length is None or any(each.find(exp.Column) is not None for each in listed):
        return
    if not all(_is_text(each) for each in listed):
        raise NoRule(Reason.UNKNOWN_COMPARISON, "a CHAR column IN a list of more than texts")
    texts = [str(each.unnest().this) for each in listed]
    wide = max(length, *map(len, texts))
    node.set("this", _filled(node.this, length, wide))
    node.set("expressions", [exp.Literal.string(each.ljust(wide)) for each in texts])


def _search(case: exp.Case, chars: Mapping[str, str]) -> None:
    """Make `CASE WHEN c = 'a'` of `CASE c WHEN 'a'`, as Spark's parser does."""
    tested = case.this
    if _noted(tested, chars) is None:
        return
    case.set("this", None)
    for each in case.args["ifs"]:
        test = exp.EQ(this=tested.copy(), expression=each.this)
        _compare(test, chars)
        each.set("this", test)


def _filled(column: exp.Expr, length: int, wide: int) -> exp.Expr:
    if wide == length:
        return column
    return exp.Anonymous(this="RPAD", expressions=[column.copy(), exp.Literal.number(wide)])


def _is_text(node: exp.Expr) -> bool:
    """Whether what a CHAR column is compared with is a text that is written there.

    Raises:
        NoRule: it is computed of literals alone, which is the same to Spark.
    """
    plain = node.unnest()
    if isinstance(plain, exp.Literal):
        return bool(plain.is_string)
    if plain.find(exp.Column) is None and not isinstance(plain, _NEVER_PADDED):
        raise NoRule(Reason.UNKNOWN_COMPARISON, "a CHAR column beside a computed constant")
    return False


def _refuse_hidden(node: exp.Expr, chars: Mapping[str, str]) -> None:
    """Refuse functions that compare their arguments, or make fields of them."""
    if not isinstance(node, exp.Func):
        return
    named = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
    if named not in _COMPARE_INSIDE:
        return
    for each in node.iter_expressions():
        part = each.expression if isinstance(each, exp.PropertyEQ) else each.unalias()
        if _noted(part, chars) is not None:
            raise NoRule(Reason.UNKNOWN_COMPARISON, f"a CHAR column in {named}")
