"""Rows that come and go with the clock.

A row of U is there at T if start ≤ T < end; a NULL is no limit. Where the conditions move the clock
by days of a zone in which days differ, T is that clock (`Aging.clock`), which may also go back: in
an hour that comes twice. From T₀ to T₁:

    ΔV = there(T₁) ΔU  +  (there(T₁) − there(T₀)) U₀

The second term only concerns rows with a limit between T₀ and T₁.
"""

from __future__ import annotations

from laminar.delta.change import Version, columns, consolidate, table
from laminar.delta.lateness import below
from laminar.delta.program import Aged
from laminar.model.trace import WEIGHT


def there(relation: Aged, moment: int) -> str:
    """Render the test that a row is there at a moment."""
    start, end = relation.node.start, relation.node.end
    now = relation.node.clock(moment)
    return (
        f"(({start} IS NULL OR {below(start, now + 1)})"
        f" AND ({end} IS NULL OR NOT ({below(end, now + 1)})))"
    )


def passing(relation: Aged, before: int, after: int) -> str:
    """Render the test that time reaches a limit of a row, in whichever direction."""
    low, high = sorted(map(relation.node.clock, (before, after)))
    tests = [
        f"({below(limit, high + 1)} AND NOT ({below(limit, low + 1)}))"
        for limit in (relation.node.start, relation.node.end)
    ]
    return f"({' OR '.join(tests)})"


def aged(
    relation: Aged, before: int | None, after: int, some: str | None, *, changed: bool
) -> str | None:
    """ΔV; `some` is where to find stored rows that reach a limit, if there are any."""
    listed = columns(relation.shape.columns)
    parts = []
    if changed:
        delta = table(relation.reads[0], Version.DELTA)
        parts.append(f"SELECT {listed}, {WEIGHT} FROM {delta} WHERE {there(relation, after)}")
    if some is not None and before is not None:
        now, then = there(relation, after), there(relation, before)
        rows = f"SELECT * FROM {some} WHERE {passing(relation, before, after)}"
        sign = f"{WEIGHT} * (CAST({now} AS BIGINT) - CAST({then} AS BIGINT))"
        parts.append(f"SELECT {listed}, {sign} AS {WEIGHT} FROM ({rows})")
    return consolidate("\nUNION ALL\n".join(parts), relation.shape.row) if parts else None


def next_limits(relation: Aged, before: int, after: int, some: str, count: int) -> str:
    """Return the time of the n-th limit that time reaches: how far one epoch may go."""
    limits = f"ARRAY({relation.node.start}, {relation.node.end})"
    reached = f"{below('__at', after + 1)} AND NOT ({below('__at', before + 1)})"
    each = f"SELECT EXPLODE({limits}) AS __at FROM {some}"
    return (
        f"SELECT UNIX_MICROS(__at) AS at FROM ({each}) WHERE {reached} "
        f"ORDER BY __at LIMIT 1 OFFSET {count - 1}"
    )
