"""Which columns of a plan carry event time, and from where."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from laminar.model.event_time import Edge, Growing, SessionEnd, Shift, Side, Step, Steps
from laminar.plan.nodes import (
    Aggregate,
    Anti,
    Close,
    Filter,
    Generate,
    Join,
    KeyedJoin,
    Node,
    Project,
    Reweigh,
    Scan,
    Sessions,
    Timely,
    UnionAll,
)
from laminar.sql.intervals import micros


@dataclass(frozen=True, slots=True)
class Flow:
    """A column of a relation, and the steps from there to a column of the plan."""

    relation: str
    column: str
    steps: Steps = ()

    def then(self, *steps: Step) -> Flow:
        """Return the flow with further steps at its end."""
        return Flow(self.relation, self.column, (*self.steps, *steps))


Flows: TypeAlias = tuple[Flow, ...]
Known: TypeAlias = Mapping[str, Flows]
"""Column of the plan (or `column.end`, a field of one) -> the columns it comes from."""


def flows(node: Node, times: Mapping[str, frozenset[str]]) -> Known:
    """Return the columns of a plan that carry event time.

    Args:
        node: the plan.
        times: relation -> its columns that do, by path.
    """
    match node:
        case Scan():
            return _scan(node, times.get(node.relation, frozenset()))
        case Filter() | Reweigh() | Timely() | Close():
            return flows(node.input, times)
        case Anti():
            return flows(node.left, times)
        case Project():
            return _project(node, flows(node.input, times))
        case Generate():
            return _generate(node, flows(node.input, times))
        case UnionAll():
            return _union(node, [flows(each, times) for each in node.inputs])
        case Join():
            return {
                name: found for each in node.inputs for name, found in flows(each, times).items()
            }
        case KeyedJoin():
            both = {**flows(node.left, times), **flows(node.right, times)}
            return {name: found for name, found in both.items() if _root(name) in node.columns}
        case Aggregate():
            known = flows(node.input, times)
            return {name: found for name, found in known.items() if _root(name) in node.keys}
        case Sessions():
            return _sessions(node, flows(node.input, times))
        case _:
            # The others bring back rows of any age.
            return {}


def _root(path: str) -> str:
    return path.split(".")[0]


def _scan(node: Scan, times: frozenset[str]) -> Known:
    found: dict[str, Flows] = {}
    for column, name in node.items:
        for path in sorted(times):
            if _root(path) == column:
                found[name + path[len(column) :]] = (Flow(node.relation, path),)
    return found


def _project(node: Project, known: Known) -> Known:
    found: dict[str, Flows] = {}
    for expression, name in node.items:
        for path, of in known.items():
            if path == expression or path.startswith(f"{expression}."):
                found[name + path[len(expression) :]] = of
        found |= _computed(expression, name, known)
    return found


_WINDOW = re.compile(
    r"`?window`?\((c\d+), '([^']+)'(?:, '([^']+)')?(?:, '([^']+)')?\)(\.start|\.end)?",
    re.IGNORECASE,
)
_SHIFTED = re.compile(r"(c\d+(?:\.\w+)?) ([+-]) INTERVAL '([^']+)' (\w+)", re.IGNORECASE)


def _computed(expression: str, name: str, known: Known) -> Known:
    window = _WINDOW.fullmatch(expression)
    if window and window.group(1) in known:
        found = [_length(each) for each in window.groups()[1:4] if each]
        lengths = [each for each in found if each is not None]
        if len(lengths) < len(found):
            return {}
        size, slide, offset = (*lengths, *(lengths[0], 0)[len(lengths) - 1 :])
        of = known[window.group(1)]
        edges = _edges(name, of, lambda side: Edge(side, size, slide, offset))
        side = window.group(5)
        return edges if side is None else {name: edges[f"{name}{side.lower()}"]}
    shifted = _SHIFTED.fullmatch(expression)
    if shifted and shifted.group(1) in known:
        length = _length(f"{shifted.group(3)} {shifted.group(4)}")
        if length is not None:
            by = Shift(length if shifted.group(2) == "+" else -length)
            return {name: tuple(flow.then(by) for flow in known[shifted.group(1)])}
    return {}


def _length(text: str) -> int | None:
    try:
        return micros(text.lower())
    except (ValueError, KeyError):
        return None


def _edges(name: str, of: Flows, edge: Callable[[Side], Step]) -> Known:
    return {f"{name}.{side}": tuple(flow.then(edge(side)) for flow in of) for side in Side}


_CUMULATE = re.compile(
    r"EXPLODE\(TRANSFORM\(SEQUENCE\(PMOD\(UNIX_MICROS\(CAST\((c\d+) AS TIMESTAMP\)\), (\d+)\)"
    r" DIV (\d+) \+ 1, .*",
    re.IGNORECASE | re.DOTALL,
)


def _generate(node: Generate, known: Known) -> Known:
    found = _CUMULATE.fullmatch(node.generator)
    if found is None or found.group(1) not in known or len(node.produced) != 1:
        return known
    size, step = int(found.group(2)), int(found.group(3))
    made = _edges(node.produced[0], known[found.group(1)], lambda side: Growing(side, size, step))
    return {**known, **made}


def _union(node: UnionAll, parts: list[Known]) -> Known:
    found: dict[str, Flows] = {}
    for place, name in enumerate(node.columns):
        columns = [each.columns[place] for each in node.inputs]
        for field in ("", *(f".{side}" for side in Side)):
            paths = [f"{column}{field}" for column in columns]
            if all(path in part for path, part in zip(paths, parts, strict=True)):
                of = (part[path] for path, part in zip(paths, parts, strict=True))
                found[name + field] = tuple(flow for each in of for flow in each)
    return found


def _sessions(node: Sessions, known: Known) -> Known:
    found = {name: of for name, of in known.items() if _root(name) in node.keys}
    if node.time in known:
        ends = tuple(flow.then(SessionEnd()) for flow in known[node.time])
        found[f"{node.window}.{Side.END}"] = ends
    return found
