"""Aggregates over the same rows share one scan of them.

A group's partial rows need not be one per epoch: any split of its rows into partial rows merges to
the same value. So two aggregates over one input, where one groups by some of the other's keys, are
both served by grouping once, by the finer keys: each takes its own columns of the result.
"""

from __future__ import annotations

from dataclasses import dataclass

from laminar.delta.change import Change
from laminar.delta.linear import prefixed
from laminar.delta.partials import grouping, partial_columns
from laminar.delta.program import Merged
from laminar.model.trace import WEIGHT
from laminar.plan.nodes import Filter, Node, Project, Scan


@dataclass(frozen=True, slots=True)
class SharedScanPlan:
    """One statement for several aggregates; the first has the finest keys."""

    members: tuple[Merged, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The relations it serves."""
        return tuple(each.shape.name for each in self.members)

    def sql(self, given: Change) -> str:
        """Group the delta of the common input by the finest keys."""
        assert given.delta is not None
        items: list[str] = []
        folds: list[str] = []
        for place, member in enumerate(self.members):
            for expression, name in _items(member):
                items.append(f"{expression} AS {_own(name, place)}")
            folds += [
                f"{_own(each.over_rows(units=given.units), place)} AS m{place}{each.name}"
                for each in member.accumulators.all
            ]
        keys = grouping(self.members[0].node, lambda key: _own(key, 0))
        return (
            f"SELECT {keys.listed}, {', '.join(folds)} FROM "
            f"(SELECT {', '.join(items)}, {WEIGHT} FROM ({given.delta})) GROUP BY {keys.by}"
        )

    def columns_of(self, place: int) -> list[tuple[str, str]]:
        """Return (column of the result, column of the member's partial rows)."""
        member, finest = self.members[place], self.members[0]
        by_expression = dict(_items(finest))
        written = {name: expression for expression, name in _items(member)}
        keys = [(_own(by_expression[written[key]], 0), key) for key in member.node.keys]
        rest = partial_columns(member)[len(member.node.keys) :]
        return keys + [(f"m{place}{name}", name) for name in rest]


def _items(member: Merged) -> tuple[tuple[str, str], ...]:
    assert isinstance(member.node.input, Project)
    return member.node.input.items


def _own(text: str, place: int) -> str:
    """Keep the column names of members apart: each plan counts its own from c1."""
    return prefixed(text, f"p{place}")


def common_input(member: Merged) -> Node | None:
    """Return what a member reads below its own projection, if it can share a scan."""
    below = member.node.input.input if isinstance(member.node.input, Project) else None
    plain: Node | None = below
    while isinstance(plain, Filter):
        plain = plain.input
    return below if isinstance(plain, Scan) and member.node.keys else None


def shared_scans(members: list[Merged]) -> list[SharedScanPlan]:
    """Group aggregates that can share: same input, keys nested in the finest ones' keys."""
    found: list[SharedScanPlan] = []
    waiting = sorted(members, key=lambda each: -len(each.node.keys))
    while waiting:
        finest, *others = waiting
        taken = [finest]
        shared = common_input(finest)
        keys = _key_expressions(finest)
        for other in others:
            same = shared is not None and common_input(other) == shared
            if same and _key_expressions(other) <= keys:
                taken.append(other)
        waiting = [each for each in waiting if each not in taken]
        if len(taken) > 1:
            found.append(SharedScanPlan(tuple(taken)))
    return found


def _key_expressions(member: Merged) -> frozenset[str]:
    if not isinstance(member.node.input, Project):
        return frozenset()
    written = {name: expression for expression, name in member.node.input.items}
    return frozenset(written[key] for key in member.node.keys)
