"""Windows as keys of groups.

A window is a struct, which Spark's fast hash table does not take. Neither edge is ever NULL (a row
without a time is in no window), so grouping by both edges makes the same groups, faster.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from laminar.plan.nodes import Aggregate, Project

_WINDOW = re.compile(r"`?window`?\([^()]*\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Grouping:
    """How a statement lists its keys, and what it groups by."""

    listed: str
    by: str


def grouping(node: Aggregate, own: Callable[[str], str]) -> Grouping:
    """Group rows of the input by the keys of an aggregate.

    Args:
        node: the aggregate.
        own: how the statement spells a column of the plan.
    """
    written = node.input.items if isinstance(node.input, Project) else ()
    windows = {name for expression, name in written if _WINDOW.fullmatch(expression)}
    listed: list[str] = []
    by: list[str] = []
    for key in node.keys:
        name = own(key)
        if key in windows:
            edges = (f"{name}.start", f"{name}.end")
            listed.append(f"NAMED_STRUCT('start', {edges[0]}, 'end', {edges[1]}) AS {name}")
            by += edges
        else:
            listed.append(name)
            by.append(name)
    return Grouping(", ".join(listed), ", ".join(by))
