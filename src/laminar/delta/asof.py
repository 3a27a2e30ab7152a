"""ASOF JOIN as one pass over both sides in order of time.

Rows of both sides are sorted by key and time; each left row takes the last right row before it. Of
right rows at one time, the greatest by all columns counts, so the answer is one.

What a left row gets depends on its key and time alone, so a change is worked out for moments: pairs
of a key and a time of the left side. Those that a change can touch are

- the moments of left rows that came or went;
- moments from a right row that came or went up to the next right row that is there after it.

Of the right side, no row is needed that lies before the nearest one to the first such moment. So
only the end of a key's history is sorted when its newest rows change.
"""

from __future__ import annotations

from dataclasses import dataclass

from laminar.delta.change import Change, bag, columns
from laminar.model.same_row import RowType
from laminar.model.trace import WEIGHT
from laminar.plan.nodes import KeyedJoin


def nearest(node: KeyedJoin, left: str, right: str) -> str:
    """Return the joined rows; both sides are plain rows."""
    assert node.match is not None
    left_time, comparison, right_time = node.match
    backwards = comparison in ("<", "<=")
    # At one moment, a right row that counts must come before the left row.
    first = comparison in (">=", "<=")
    keys = range(len(node.left_keys))
    lefts = ", ".join(f"{key} AS __k{place}" for place, key in enumerate(node.left_keys))
    rights = ", ".join(f"{key} AS __k{place}" for place, key in enumerate(node.right_keys))
    known = " AND ".join(f"{name} IS NOT NULL" for name in (*node.right_keys, right_time))
    group = ", ".join((*node.right_keys, right_time))
    both = (
        f"SELECT {lefts}, {left_time} AS __t, {1 if first else 0} AS __side, "
        f"STRUCT({columns(node.left.columns)}) AS __l, NULL AS __r FROM ({left})\nUNION ALL\n"
        f"SELECT {rights}, {right_time} AS __t, {0 if first else 1} AS __side, NULL AS __l, "
        f"MAX(STRUCT({columns(node.right.columns)})) AS __r FROM ({right}) WHERE {known} "
        f"GROUP BY {group}"
    )
    order = "__t DESC, __side" if backwards else "__t, __side"
    parts = ", ".join(f"__k{place}" for place in keys)
    found = (
        f"LAST_VALUE(__r) IGNORE NULLS OVER (PARTITION BY {parts} ORDER BY {order} "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    )
    met = " AND ".join(("__t IS NOT NULL", *(f"__k{place} IS NOT NULL" for place in keys)))
    rows = f"SELECT __l, IF({met}, {found}, NULL) AS __m FROM ({both})"
    items = [f"__l.{name} AS {name}" for name in node.left.columns]
    items += [f"__m.{name} AS {name}" for name in node.right.columns]
    return f"SELECT {', '.join(items)} FROM ({rows}) WHERE __l IS NOT NULL"


@dataclass(frozen=True, slots=True)
class _Names:
    """How a join is spelled: its keys as k0, k1, ..., and which way its time runs."""

    node: KeyedJoin

    @property
    def keys(self) -> str:
        return ", ".join(f"k{place}" for place in range(len(self.node.left_keys)))

    def left(self, rows: str) -> str:
        """Return the moments of left rows."""
        return _moments(self.node.left_keys, self._match[0], rows)

    def right(self, rows: str) -> str:
        """Return the moments of right rows."""
        return _moments(self.node.right_keys, self._match[2], rows)

    def on(self, names: tuple[str, ...], *, sign: str = "=") -> str:
        """Return the condition that rows `x` have the keys of `k`."""
        return " AND ".join(f"x.{name} {sign} k.k{place}" for place, name in enumerate(names))

    @property
    def _match(self) -> tuple[str, str, str]:
        assert self.node.match is not None
        return self.node.match

    @property
    def backwards(self) -> bool:
        return self._match[1] in ("<", "<=")

    @property
    def first(self) -> str:
        """The aggregate that finds the moment the others come after."""
        return "MAX" if self.backwards else "MIN"

    @property
    def last(self) -> str:
        return "MIN" if self.backwards else "MAX"

    @property
    def after(self) -> str:
        """The comparison of a moment with one that it comes after, or that it is."""
        return "<=" if self.backwards else ">="

    @property
    def before(self) -> str:
        return ">=" if self.backwards else "<="

    @property
    def order(self) -> str:
        return "t DESC" if self.backwards else "t"


def moments(node: KeyedJoin, left: Change, right: Change) -> str:
    """Return the moments (k0, ..., t) of which the joined rows may differ after an epoch."""
    names = _Names(node)
    parts = []
    if left.delta is not None:
        parts.append(names.left(left.delta))
    if right.delta is not None and left.after is not None:
        parts.append(_overshadowed(names, left.after, right))
    united = "\nUNION ALL\n".join(parts)
    return f"SELECT DISTINCT {names.keys}, t FROM ({united})"


def _overshadowed(names: _Names, left: str, right: Change) -> str:
    """Return the moments of left rows whose nearest right row came, went, or was another."""
    node = names.node
    assert node.match is not None
    assert right.delta is not None
    left_time, comparison, right_time = node.match
    theirs = 0 if comparison in (">=", "<=") else 1
    known = " AND ".join(f"{name} IS NOT NULL" for name in (*node.right_keys, right_time))
    touched = f"SELECT DISTINCT {names.keys}, t FROM ({names.right(right.delta)} WHERE {known})"
    begin = f"SELECT {names.keys}, {names.first}(t) AS t FROM ({touched}) GROUP BY {names.keys}"
    rows = [f"SELECT {names.keys}, t, {theirs} AS __side, 1 AS __new FROM ({touched})"]
    if right.after is not None:
        there = _live(names, right, begin, f"x.{right_time} {names.after} k.t")
        rows.append(f"SELECT {names.keys}, t, {theirs} AS __side, 0 AS __new FROM ({there})")
    ours = (
        f"SELECT x.* FROM ({left}) x JOIN ({begin}) k "
        f"ON {names.on(node.left_keys)} AND x.{left_time} {names.after} k.t"
    )
    mine = f"SELECT {names.keys}, t FROM ({names.left(ours)})"
    rows.append(f"SELECT *, {1 - theirs} AS __side, CAST(NULL AS INT) AS __new FROM ({mine})")
    # Of a right row that changed and one that stays, at one moment, the change counts.
    found = (
        f"LAST_VALUE(__new) IGNORE NULLS OVER (PARTITION BY {names.keys} "
        f"ORDER BY {names.order}, __side, __new ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    )
    united = "\nUNION ALL\n".join(rows)
    last = f"SELECT {names.keys}, t, __side, {found} AS __last FROM ({united})"
    return f"SELECT {names.keys}, t FROM ({last}) WHERE __side = {1 - theirs} AND __last = 1"


def _live(names: _Names, right: Change, keys: str, within: str) -> str:
    """Return the moments of right rows that are there after an epoch, for some keys."""
    node = names.node
    rows = f"SELECT x.* FROM ({right.after}) x JOIN ({keys}) k ON {names.on(node.right_keys)}"
    rows = f"{rows} AND {within}"
    if right.positive:
        return names.right(rows)
    return f"{names.right(rows)} GROUP BY ALL HAVING SUM({WEIGHT}) > 0"


def at_moments(
    node: KeyedJoin, row: RowType, left: Change, right: Change, touched: str
) -> tuple[str, str]:
    """Return the rows of both sides from which the rows of some moments follow, as plain rows."""
    names = _Names(node)
    assert node.match is not None
    assert left.after is not None
    left_time, comparison, right_time = node.match
    ours = (
        f"SELECT x.* FROM ({left.after}) x LEFT SEMI JOIN ({touched}) k "
        f"ON {names.on(node.left_keys, sign='<=>')} AND x.{left_time} <=> k.t"
    )
    plain = bag(ours, row.only(node.left.columns), positive=left.positive)
    if right.after is None:
        return plain, ""
    ends = (
        f"SELECT {names.keys}, {names.first}(t) AS t, {names.last}(t) AS __end "
        f"FROM ({touched}) GROUP BY {names.keys}"
    )
    there = _live(names, right, ends, f"k.t {comparison} x.{right_time}")
    floor = f"SELECT {names.keys}, {names.last}(t) AS t FROM ({there}) GROUP BY {names.keys}"
    span = f"SELECT k.*, f.t AS __from FROM ({ends}) k LEFT JOIN ({floor}) f USING ({names.keys})"
    theirs = (
        f"SELECT x.* FROM ({right.after}) x JOIN ({span}) k ON {names.on(node.right_keys)} "
        f"AND x.{right_time} {names.before} k.__end "
        f"AND (k.__from IS NULL OR x.{right_time} {names.after} k.__from)"
    )
    return plain, bag(theirs, row.only(node.right.columns), positive=right.positive)


def _moments(keys: tuple[str, ...], time: str, rows: str) -> str:
    listed = ", ".join(f"{key} AS k{place}" for place, key in enumerate(keys))
    return f"SELECT {listed}, {time} AS t FROM ({rows})"
