"""ORDER BY ... LIMIT k.

    top(A + Δ) = top(top(A) + Δ)       as long as Δ only inserts

so insertions are compared with the k stored rows alone. A retraction may let a row move up that
is not stored; then the input is read again.
"""

from __future__ import annotations

from laminar.delta.change import Change, Version, bag, columns, consolidate, table
from laminar.delta.program import Limited
from laminar.model.trace import WEIGHT


def retop(relation: Limited, given: Change, *, existed: bool) -> str:
    """Δ of the first k rows."""
    names = relation.shape.columns
    own = f"SELECT {columns(names)}, {WEIGHT} FROM {table(relation.shape.name, Version.BEFORE)}"
    if given.insert_only and existed and relation.node.offset == 0 and given.delta is not None:
        candidates, positive = f"{own}\nUNION ALL\n{given.delta}", False
    else:
        assert given.after is not None
        candidates, positive = given.after, given.positive
    parts = [
        f"SELECT {columns(names)}, 1L AS {WEIGHT} FROM ({top(relation, candidates, positive)})"
    ]
    if existed:
        parts.append(f"SELECT {columns(names)}, -{WEIGHT} AS {WEIGHT} FROM ({own})")
    return consolidate("\nUNION ALL\n".join(parts), relation.shape.row)


def top(relation: Limited, rows: str, positive: bool) -> str:
    """The first k plain rows; every column breaks ties, so the answer is one."""
    node = relation.node
    order = ", ".join((*node.order, *relation.tie_breakers)) or "1"
    limit = f" LIMIT {node.limit}" if node.limit is not None else ""
    offset = f" OFFSET {node.offset}" if node.offset else ""
    plain = bag(rows, relation.shape.row, positive=positive)
    return f"SELECT * FROM ({plain}) ORDER BY {order}{limit}{offset}"
