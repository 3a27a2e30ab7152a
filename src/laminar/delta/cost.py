"""Is a linear query cheaper to compute for each reader than to keep for all of them?

Measured: caching a delta costs about as much as three plain projections of it. So what only moves,
compares and adds columns is computed by each reader inside its own scan; what calls functions or
makes rows is computed once and kept.
"""

from __future__ import annotations

import re

from laminar.plan.nodes import Filter, Generate, Node, Project, children

_CALL = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_CHEAP = frozenset(
    ("cast", "coalesce", "if", "nvl", "ifnull", "and", "or", "not", "in", "when", "then", "else")
)


def is_cheap(node: Node) -> bool:
    """Whether a linear plan does nothing per row that is worth keeping."""
    texts: list[str] = []
    match node:
        case Generate():
            return False
        case Filter():
            texts = [node.predicate]
        case Project():
            texts = [expression for expression, _ in node.items]
    calls = (name.lower() for text in texts for name in _CALL.findall(text))
    return all(name in _CHEAP for name in calls) and all(is_cheap(each) for each in children(node))
