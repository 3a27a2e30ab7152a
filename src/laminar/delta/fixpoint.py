"""WITH RECURSIVE r AS (base UNION ALL step), the step linear in r.

    R = B + S(R)        S' is the step over the relations as they are after the epoch

    ΔR = D + S'(ΔR)     with  D = ΔB + (S' − S)(R)
       = D + S'(D) + S'(S'(D)) + ...

which is a recursion of the same kind over rows with weights: D is the base, S' the step. So an
epoch is one statement, and its work follows what changes. (S' − S)(R) is the delta of the step over
what is stored, R itself held still.

The level of a row is one of its columns. ΔR at a level follows from D up to that level, so a limit
of n levels is exact: no level after n is computed but the one that would break the limit, and it
fails the view if a row is left there when all is added up. Hence the signed recursion ends after
n + 1 levels too, whatever cancels: b goes, and b → c, c → b come, is a ring of +1 and of -1.

Such rows are there in no answer, and there may be too many of them, or of levels (1000), or an
expression may fail for them. Then R is computed anew: R' − stored. See `recurse_anew`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from laminar.delta.change import (
    Change,
    State,
    Version,
    columns,
    consolidate,
    table,
    union,
)
from laminar.delta.program import Recursed
from laminar.delta.render import change
from laminar.model.trace import WEIGHT
from laminar.plan.nodes import Again

LOOP = "__loop"

_SIGNED = 1000
"""Levels after which a signed recursion is given up, and R computed anew."""


_MOST = 2**31 - 1
"""The greatest limit that Spark takes."""


class _Within(Mapping[str, State]):
    """The states of an epoch, and the rows that a step is given."""

    def __init__(self, around: Mapping[str, State], rows: Change) -> None:
        self._around = around
        self._rows = rows

    def again(self, node: Again) -> Change:
        """Return the rows under the names that the step has for them."""
        return self._rows.map(lambda rows: _named(rows, node.columns))

    def __getitem__(self, name: str) -> State:
        return self._around[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._around)

    def __len__(self) -> int:
        return len(self._around)


def recurse(
    relation: Recursed, states: Mapping[str, State], *, existed: bool, first: bool
) -> Change | None:
    """ΔR as the delta of a change; None if there is none."""
    base = change(relation.node.base, states, first=first)
    moved = _moved(relation, states) if existed else None
    parts = [each for each in (base, moved) if each is not None and each.delta is not None]
    rows = union([_renamed(relation, each.delta) for each in parts if each.delta is not None])
    if rows is None:
        return None
    insert_only = all(each.insert_only for each in parts)
    if not insert_only:
        rows = consolidate(rows, relation.shape.row)
    found = _bounded(relation, _loop(relation, states, rows, is_signed=not insert_only))
    return Change(None, None, found, insert_only, positive=False)


def recurse_anew(relation: Recursed, states: Mapping[str, State], *, first: bool) -> str:
    """R' − stored, whatever changed."""
    base = change(relation.node.base, states, first=first)
    parts = [_own(relation, f"-{WEIGHT}")]
    if base.after is not None:
        rows = _renamed(relation, base.after)
        rows = rows if base.positive else consolidate(rows, relation.shape.row)
        parts.append(_loop(relation, states, rows, is_signed=False))
    return _bounded(relation, "\nUNION ALL\n".join(f"SELECT * FROM ({each})" for each in parts))


def _moved(relation: Recursed, states: Mapping[str, State]) -> Change:
    """(S' − S)(R): what the step makes of the stored rows now, and did not before."""
    stored = _own(relation, WEIGHT)
    is_positive = states[relation.shape.name].positive
    still = Change(stored, stored, None, insert_only=True, positive=is_positive)
    return change(relation.node.step, _Within(states, still))


def _loop(relation: Recursed, states: Mapping[str, State], rows: str, *, is_signed: bool) -> str:
    """Return D + S'(D) + S'(S'(D)) + ... as one statement."""
    most, names = relation.node.most, columns(relation.shape.columns)
    given = f"SELECT {names}, {WEIGHT} FROM {LOOP}"
    if most is not None:
        given = f"{given} WHERE {relation.shape.columns[-1]} <= {most}"
    step = change(
        relation.node.step, _Within(states, Change(None, given, given, False, positive=False))
    ).after
    if step is None:
        return rows
    return (
        f"WITH RECURSIVE {LOOP}({names}, {WEIGHT}){_limit(most, is_signed=is_signed)} AS (\n"
        f"SELECT {names}, {WEIGHT} FROM ({rows})\nUNION ALL\n"
        f"(SELECT {columns(relation.node.step.columns)}, {WEIGHT} FROM ({step})))\n"
        f"SELECT {names}, {WEIGHT} FROM {LOOP}"
    )


def _limit(most: int | None, *, is_signed: bool) -> str:
    """Return Spark's limit: it counts from D on, and must not be what ends the recursion of rows.

    One with signs may go on for nothing, where R' is not even deep: it is given up earlier.
    """
    if most is None and not is_signed:
        return ""
    ends = _MOST if most is None else min(most + 1, _MOST)
    return f" MAX RECURSION LEVEL {min(ends, _SIGNED) if is_signed else ends}"


def _bounded(relation: Recursed, rows: str) -> str:
    """Add up, and fail if a row is left beyond the limit."""
    found = consolidate(rows, relation.shape.row)
    most = relation.node.most
    if most is None:
        return found
    *plain, level = relation.shape.columns
    said = f"'a recursion has more than {most} levels'"
    test = f"IF({level} <= {most}, {level}, CAST(RAISE_ERROR({said}) AS INT)) AS {level}"
    return f"SELECT {columns(tuple(plain))}, {test}, {WEIGHT} FROM ({found})"


def _renamed(relation: Recursed, rows: str) -> str:
    return _named(rows, relation.shape.columns)


def _named(rows: str, own: tuple[str, ...]) -> str:
    """Give rows other column names, by position."""
    names = columns(own)
    return f"SELECT {names}, {WEIGHT} FROM ({rows}) AS r({names}, {WEIGHT})"


def _own(relation: Recursed, weight: str) -> str:
    names = columns(relation.shape.columns)
    return f"SELECT {names}, {weight} AS {WEIGHT} FROM {table(relation.shape.name, Version.BEFORE)}"
