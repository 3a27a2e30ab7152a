"""Anti join against a set of keys.

A ▷ D = A − A ⋈ D for a set D, hence

    Δ(A ▷ D) = (ΔA ▷ D₁) − A₀ ⋈ ΔD

The second term is empty as long as no key appears or vanishes.
"""

from __future__ import annotations

from laminar.delta.change import Change, columns, union
from laminar.model.trace import WEIGHT
from laminar.plan.nodes import Anti


def delta_anti(node: Anti, left: Change, right: Change) -> Change:
    """Render all three versions."""
    terms: list[str] = []
    if left.delta is not None:
        terms.append(_without(node, left.delta, right.after))
    if left.before is not None and right.delta is not None:
        terms.append(
            f"SELECT {columns(node.columns, 'l.')}, -(l.{WEIGHT} * d.{WEIGHT}) AS {WEIGHT} "
            f"FROM ({left.before}) l JOIN ({right.delta}) d ON {_equal(node)}"
        )
    return Change(
        None if left.before is None else _without(node, left.before, right.before),
        None if left.after is None else _without(node, left.after, right.after),
        union(terms),
        left.insert_only and right.delta is None,
        left.positive,
    )


def _equal(node: Anti) -> str:
    tests = zip(node.left_keys, node.operators, node.right_keys, strict=True)
    return " AND ".join(f"l.{left} {equal} d.{right}" for left, equal, right in tests)


def _without(node: Anti, left: str, right: str | None) -> str:
    if right is None:
        return left
    keys = columns(node.right_keys)
    # The set's history may hold a key that came and went: only a positive sum is a member.
    members = f"SELECT {keys} FROM ({right}) GROUP BY {keys} HAVING SUM({WEIGHT}) > 0"
    return (
        f"SELECT {columns(node.columns, 'l.')}, l.{WEIGHT} "
        f"FROM ({left}) l LEFT ANTI JOIN ({members}) d ON {_equal(node)}"
    )
