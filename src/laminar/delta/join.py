"""Inner joins of any number of inputs.

    Δ(A ⋈ B) = ΔA ⋈ B₀ + A₁ ⋈ ΔB        0 is before the epoch, 1 after

and so on for more inputs: term i takes Δ of input i, the new state of those left of it and the
old state of those right of it. Weights multiply. A term whose delta is empty is left out.
"""

from __future__ import annotations

from laminar.delta.change import Change, columns, union
from laminar.model.trace import WEIGHT
from laminar.plan.nodes import Join, Predicate


def delta_join(node: Join, given: list[Change]) -> Change:
    """Render all three versions of a join."""
    terms: list[str] = []
    insert_only = True
    for place, change in enumerate(given):
        if change.delta is None:
            continue
        insert_only &= change.insert_only
        sides = [
            each.after if other < place else change.delta if other == place else each.before
            for other, each in enumerate(given)
        ]
        insert_only &= all(each.positive for i, each in enumerate(given) if i != place)
        term = render_join(node, sides, first=place)
        if term is not None:
            terms.append(term)
    return Change(
        render_join(node, [each.before for each in given], first=0),
        render_join(node, [each.after for each in given], first=0),
        union(terms),
        insert_only,
        all(each.positive for each in given),
    )


def render_join(node: Join, sides: list[str | None], *, first: int) -> str | None:
    """Join in an order that starts at one input and follows the equalities from there."""
    if any(side is None for side in sides):
        return None
    order = join_order(node, first)
    waiting = list(node.predicates)
    seen: frozenset[str] = frozenset()
    lines: list[str] = []
    conditions: list[str] = []
    for place in order:
        seen |= frozenset(node.inputs[place].columns)
        ready = [each for each in waiting if each.reads <= seen]
        waiting = [each for each in waiting if each not in ready]
        tests = " AND ".join(f"({each.sql})" for each in ready)
        if not lines:
            lines.append(f"FROM ({sides[place]}) j{place}")
            conditions = [f"WHERE {tests}"] if tests else []
        elif tests:
            lines.append(f"JOIN ({sides[place]}) j{place} ON {tests}")
        else:
            lines.append(f"CROSS JOIN ({sides[place]}) j{place}")
    weight = " * ".join(f"j{place}.{WEIGHT}" for place in sorted(order))
    head = f"SELECT {columns(node.columns)}, {weight} AS {WEIGHT}"
    return "\n".join([head, *lines, *conditions])


def join_order(node: Join, first: int) -> list[int]:
    """Start at `first`, then always take an input that an equality ties to those taken."""
    order = [first]
    rest = [place for place in range(len(node.inputs)) if place != first]
    while rest:
        seen = frozenset(name for place in order for name in node.inputs[place].columns)
        tied = [place for place in rest if _tied(node.predicates, seen, node, place)]
        order.append(tied[0] if tied else rest[0])
        rest.remove(order[-1])
    return order


def _tied(predicates: tuple[Predicate, ...], seen: frozenset[str], node: Join, place: int) -> bool:
    mine = frozenset(node.inputs[place].columns)
    return any(
        each.is_equality and each.reads & mine and each.reads & seen and each.reads <= seen | mine
        for each in predicates
    )
