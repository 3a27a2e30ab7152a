"""ASOF JOIN as one pass over both sides in order of time.

Rows of both sides are sorted by key and time; each left row takes the last right row before it. Of
right rows at one time, the greatest by all columns counts, so the answer is one.
"""

from __future__ import annotations

from laminar.delta.change import columns
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
