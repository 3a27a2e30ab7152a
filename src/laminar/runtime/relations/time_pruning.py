"""A join on time reads only what lies within reach of the change.

A term of the delta of a join of two relations pairs the change of one with the rows of the other.
If the condition bounds how far apart their times may be, segments of the other that lie outside are
left out: they hold no partner. So the work follows the change, however long the history is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from laminar.delta.change import Version, table
from laminar.delta.program import Mapped
from laminar.model.trace import Segment, Span, united
from laminar.plan.nodes import Join, Node, Scan, children
from laminar.plan.progress import flows
from laminar.plan.reach import reaches

if TYPE_CHECKING:
    from laminar.runtime.relations.bindings import Bindings


def near(relation: Mapped, sql: str, bindings: Bindings) -> str:
    """Return the statement with bindings of joined relations cut to what is within reach."""
    join = _join(relation.node)
    if join is None or len(join.inputs) != 2 or not _both_plain(join):
        return sql
    times = {name: frozenset(known) for name, known in bindings.relations.lineage.items()}
    known = flows(join, times)
    for reach in reaches(join):
        ours, theirs = known.get(reach.earlier), known.get(reach.later)
        if ours is None or theirs is None or len(ours) + len(theirs) != 2:
            continue
        if ours[0].steps or theirs[0].steps or ours[0].relation == theirs[0].relation:
            continue
        changed = _delta_span(bindings, ours[0].relation, ours[0].column)
        if changed is None:
            continue
        # The rows of the other relation that may meet a changed row lie between these.
        low = None if reach.least is None else changed[0] + reach.least
        high = None if reach.most is None else changed[1] + reach.most
        there = theirs[0]
        sql = _cut(bindings, sql, relation.shape.name, there.relation, there.column, (low, high))
    return sql


def _join(node: Node) -> Join | None:
    while not isinstance(node, Join):
        below = children(node)
        if len(below) != 1:
            return None
        node = below[0]
    return node


def _both_plain(join: Join) -> bool:
    def scans(node: Node) -> bool:
        if isinstance(node, Scan):
            return True
        below = children(node)
        return len(below) == 1 and scans(below[0])

    return all(scans(each) for each in join.inputs)


def _delta_span(bindings: Bindings, relation: str, column: str) -> Span | None:
    trace_versions = bindings.versions.get(relation)
    if trace_versions is None or relation in bindings.relations.fused or not trace_versions.delta:
        return None
    return united(trace_versions.delta).get(column)


def _cut(
    bindings: Bindings,
    sql: str,
    reader: str,
    relation: str,
    column: str,
    limits: tuple[int | None, int | None],
) -> str:
    if relation in bindings.relations.fused or relation not in bindings.versions:
        return sql
    trace_versions = bindings.versions[relation]
    for version in (Version.BEFORE, Version.AFTER):
        binding = table(relation, version)
        segments = trace_versions.segments(version)
        kept = tuple(each for each in segments if _meets(each, column, limits))
        if len(kept) < len(segments) and re.search(rf"\b{binding}\b", sql):
            bound = bindings.bind_segments(relation, kept, reader, f"{version}_near")
            sql = re.sub(rf"\b{binding}\b", bound, sql)
    return sql


def _meets(segment: Segment, column: str, limits: tuple[int | None, int | None]) -> bool:
    if column not in segment.spans:
        return True
    low, high = limits
    return (low is None or segment.spans[column][1] >= low) and (
        high is None or segment.spans[column][0] <= high
    )
