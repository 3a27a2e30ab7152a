"""How far apart in time two joined rows may be: `b.ts BETWEEN a.ts - INTERVAL .. AND a.ts + ..`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from laminar.model.local_days import DAY, UNEVEN
from laminar.plan.nodes import Join
from laminar.sql.intervals import micros


@dataclass(frozen=True, slots=True)
class Reach:
    """`least` ≤ later − earlier ≤ `most`, in microseconds; None is no limit."""

    earlier: str
    later: str
    least: int | None
    most: int | None

    def flipped(self) -> Reach:
        """Say the same with the columns in the other order."""
        return Reach(
            self.later,
            self.earlier,
            None if self.most is None else -self.most,
            None if self.least is None else -self.least,
        )


def reaches(join: Join) -> tuple[Reach, ...]:
    """Return what the predicates of a join say about times, each both ways round."""
    found: list[Reach] = []
    for predicate in join.predicates:
        if "INTERVAL" not in predicate.sql.upper() and not predicate.reads:
            continue
        try:
            tree = sqlglot.parse_one(predicate.sql, dialect="spark")
        except SqlglotError:
            continue
        for each in _of(tree):
            found += [each, each.flipped()]
    return tuple(found)


def _of(tree: exp.Expr) -> Iterator[Reach]:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    match tree:
        case exp.Between():
            yield from _compared(tree.this, tree.args["low"], is_least=True)
            yield from _compared(tree.this, tree.args["high"], is_least=False)
        case exp.GT() | exp.GTE():
            yield from _compared(tree.this, tree.expression, is_least=True)
        case exp.LT() | exp.LTE():
            yield from _compared(tree.this, tree.expression, is_least=False)


def _compared(left: exp.Expr, right: exp.Expr, *, is_least: bool) -> Iterator[Reach]:
    """Read `a + i ≥ b + j` as a − b ≥ j − i; a limit that is not reached itself does no harm."""
    one, other = _shifted(left), _shifted(right)
    if one is None or other is None:
        return
    gap = other[1] - one[1]
    slack = UNEVEN if one[2] or other[2] else 0
    least, most = (gap - slack, None) if is_least else (None, gap + slack)
    yield Reach(other[0], one[0], least, most)


def _shifted(side: exp.Expr) -> tuple[str, int, bool] | None:
    """Return the column of `column ± interval`, by how much it is moved, and whether by days.

    Days of a zone with summer time are not all equally long.
    """
    if isinstance(side, exp.Paren):
        return _shifted(side.this)
    if isinstance(side, exp.Column):
        return side.name, 0, False
    if not isinstance(side, exp.Add | exp.Sub) or not isinstance(side.expression, exp.Interval):
        return None
    below = _shifted(side.this)
    interval = side.expression
    unit = interval.args.get("unit")
    try:
        length = micros(f"{interval.this.name} {unit.name if unit else ''}".strip().lower())
    except (ValueError, KeyError):
        return None
    if below is None:
        return None
    moved = below[1] + (length if isinstance(side, exp.Add) else -length)
    return below[0], moved, below[2] or abs(length) >= DAY
