"""Conditions that compare a row with the clock: `ts > now() - INTERVAL '1' HOUR`.

Such a condition says from when and until when a row is there:

    e > now − d   ⇔  now < e + d          e < now − d   ⇔  now > e + d
    e ≥ now − d   ⇔  now < e + d + 1      e ≤ now − d   ⇔  now > e + d − 1      (microseconds)
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from laminar.model.local_days import DAY, days_vary, zone_of
from laminar.plan.context import Context
from laminar.plan.nodes import Aging, Node, Project
from laminar.plan.reasons import NoRule, Reason
from laminar.plan.scope import Scope, text
from laminar.sql.intervals import micros

_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
}


@dataclass(frozen=True, slots=True)
class _Compared:
    """`time` `operator` now + `moves`, one after the other."""

    time: exp.Expr
    operator: type[exp.Expr]
    moves: tuple[int, ...]


def reads_clock(expression: exp.Expr) -> bool:
    """Whether an expression asks what time it is."""
    return any(_is_clock(each) for each in expression.walk())


def _is_clock(node: exp.Expr) -> bool:
    if isinstance(node, exp.CurrentTimestamp):
        return True
    is_call = isinstance(node, exp.Anonymous)
    return is_call and str(node.this).lower() in ("now", "current_timestamp")


def age(ctx: Context, node: Node, scope: Scope, conditions: list[exp.Expr]) -> Node:
    """Return the rows of a plan that are there at the time of an epoch."""
    alike: dict[tuple[int, ...], list[_Compared]] = {}
    for condition in conditions:
        found = _compared(condition)
        alike.setdefault(_uneven(ctx, found), []).append(found)
    for moves, compared in alike.items():
        node = _aged(ctx, node, scope, compared, moves)
    return node


def _uneven(ctx: Context, found: _Compared) -> tuple[int, ...]:
    """Return by what the clock is moved if that depends on the day; conditions alike go together.

    In a zone with summer time, a day back from now is 23, 24 or 25 hours.
    """
    zone = ctx.typer.time_zone
    if not days_vary(zone) or all(abs(each) < DAY for each in found.moves):
        return ()
    if zone_of(zone) is None:
        raise NoRule(Reason.NON_DETERMINISTIC, f"days before now in the time zone {zone}")
    return found.moves


def _aged(
    ctx: Context, node: Node, scope: Scope, conditions: list[_Compared], moves: tuple[int, ...]
) -> Node:
    starts: list[str] = []
    ends: list[str] = []
    for found in conditions:
        time = f"UNIX_MICROS(CAST({text(scope.resolve(found.time))} AS TIMESTAMP))"
        reach = -sum(found.moves)
        if found.operator in (exp.GT, exp.GTE):
            ends.append(f"{time} + {reach + (found.operator is exp.GTE)}")
        else:
            starts.append(f"{time} + {reach + (found.operator is exp.LT)}")
    start, end = ctx.fresh(), ctx.fresh()
    items = [(column, column) for column in node.columns]
    items.append((_extreme("GREATEST", starts), start))
    items.append((_extreme("LEAST", ends), end))
    aged = Aging(Project(node, tuple(items)), start, end, ctx.typer.time_zone, moves)
    return Project(aged, tuple((column, column) for column in node.columns))


def _extreme(function: str, times: list[str]) -> str:
    """A row without one of its times is never there: such a condition is not true."""
    if not times:
        return "CAST(NULL AS TIMESTAMP)"
    known = times[0] if len(times) == 1 else f"{function}({', '.join(times)})"
    tests = " AND ".join(f"({each}) IS NOT NULL" for each in times)
    never = "TIMESTAMP '9999-12-31 00:00:00Z'" if function == "GREATEST" else "TIMESTAMP_MICROS(0)"
    return f"IF({tests}, TIMESTAMP_MICROS({known}), {never})"


def _compared(condition: exp.Expr) -> _Compared:
    operator = type(condition)
    if operator in _FLIPPED:
        for side, other, kind in (
            (condition.expression, condition.this, operator),
            (condition.this, condition.expression, _FLIPPED[operator]),
        ):
            moves = _moves(side)
            if moves is not None and not reads_clock(other):
                return _Compared(other, kind, moves)
    raise NoRule(Reason.NON_DETERMINISTIC, f"now in {text(condition)}")


def _moves(side: exp.Expr) -> tuple[int, ...] | None:
    """Return the lengths in `now() + d + e`; None if this is something else."""
    if isinstance(side, exp.Paren):
        return _moves(side.this)
    if _is_clock(side):
        return ()
    if not isinstance(side, exp.Add | exp.Sub) or not isinstance(side.expression, exp.Interval):
        return None
    before = _moves(side.this)
    length = _length(side.expression)
    if before is None or length is None:
        return None
    return (*before, length if isinstance(side, exp.Add) else -length)


def _length(interval: exp.Interval) -> int | None:
    unit = interval.args.get("unit")
    amount = interval.this.name if interval.this is not None else ""
    try:
        return micros(f"{amount} {unit.name if unit is not None else ''}".strip().lower())
    except (ValueError, KeyError):
        return None
