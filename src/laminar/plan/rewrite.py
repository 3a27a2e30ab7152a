"""Plans are values: a change of one is a new one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from laminar.plan.nodes import (
    Again,
    Anti,
    Constant,
    Join,
    KeyedJoin,
    Node,
    Recursion,
    Scan,
    UnionAll,
)


def with_inputs(node: Node, change: Callable[[Node], Node]) -> Node:
    """Return a node with each of its direct inputs changed."""
    given: dict[str, Any]
    match node:
        case Scan() | Constant() | Again():
            return node
        case Recursion():
            given = {"base": change(node.base), "step": change(node.step)}
        case UnionAll() | Join():
            given = {"inputs": tuple(change(each) for each in node.inputs)}
        case Anti() | KeyedJoin():
            given = {"left": change(node.left), "right": change(node.right)}
        case _:
            given = {"input": change(node.input)}
    return replace(node, **given)
