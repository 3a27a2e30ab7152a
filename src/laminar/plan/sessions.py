"""GROUP BY session_window(ts, gap): groups whose edges follow from the rows themselves."""

from __future__ import annotations

import re

from laminar.plan.nodes import Aggregate, Node, Project, Sessions
from laminar.plan.reasons import NoRule, Reason
from laminar.plan.rewrite import with_inputs
from laminar.sql.intervals import micros

_CALL = re.compile(r"SESSION_WINDOW\((.+), '([^']+)'\)", re.IGNORECASE | re.DOTALL)


def find_sessions(node: Node) -> Node:
    """Return a plan in which grouping by a session is an operator of its own."""
    if isinstance(node, Aggregate) and isinstance(node.input, Project):
        found = _grouped(node, node.input)
        if found is not None:
            return found
    _refuse(node)
    return with_inputs(node, find_sessions)


def _grouped(node: Aggregate, given: Project) -> Node | None:
    for expression, name in given.items:
        call = _CALL.fullmatch(expression)
        if call is None or name not in node.keys:
            continue
        _require_fixed(call.group(2))
        items = tuple((call.group(1) if each == name else text, each) for text, each in given.items)
        keys = tuple(key for key in node.keys if key != name)
        plain = Project(find_sessions(given.input), items)
        _refuse(plain)
        made = Sessions(plain, keys, name, call.group(2), name, node.calls)
        # Above, columns keep the order they had.
        return Project(made, tuple((column, column) for column in node.columns))
    return None


def _require_fixed(gap: str) -> None:
    try:
        micros(gap.lower())
    except (ValueError, KeyError):
        raise NoRule(Reason.UNKNOWN_CLAUSE, f"a session with a gap of {gap}") from None


def _refuse(node: Node) -> None:
    if isinstance(node, Project):
        for expression, _ in node.items:
            if "session_window(" in expression.lower():
                raise NoRule(Reason.UNKNOWN_CLAUSE, f"{expression} outside GROUP BY")
