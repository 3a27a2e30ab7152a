"""What is stored around an epoch: the segments from before it, and those that it adds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from laminar.delta.change import State, Version
from laminar.delta.program import Merged, Periodic
from laminar.model.trace import Segment, Trace
from laminar.model.trace_name import partial_trace, pending_trace
from laminar.runtime.catalog.storage_plan import BaseTable, StoragePlan


@dataclass(frozen=True, slots=True)
class TraceVersions:
    """A trace around an epoch: what it held before, and what the epoch adds."""

    schema: str
    before: tuple[Segment, ...] = ()
    delta: tuple[Segment, ...] = ()

    def segments(self, version: Version) -> tuple[Segment, ...]:
        """Return the segments of one version: after = before + delta."""
        match version:
            case Version.BEFORE:
                return self.before
            case Version.DELTA:
                return self.delta
            case Version.AFTER:
                return (*self.before, *self.delta)

    @property
    def state(self) -> State:
        """Return what statements may rely on."""
        return State(
            changed=bool(self.delta),
            insert_only=all(each.insert_only for each in self.delta),
            positive=all(each.insert_only for each in self.before),
            existed=bool(self.before),
            units=all(each.units for each in self.delta),
            held_units=all(each.units for each in self.before),
        )

    @property
    def has_retractions(self) -> bool:
        """Whether a row and its retraction may both be here."""
        return not all(each.insert_only for each in (*self.before, *self.delta))

    @property
    def changed_rows(self) -> int:
        """Rows of the delta."""
        return sum(each.rows for each in self.delta)


def versions_of(
    relations: StoragePlan,
    traces: Mapping[str, Trace],
    at: int | None = None,
    until: int | None = None,
) -> dict[str, TraceVersions]:
    """Return every trace that a graph may need, with what it holds.

    Args:
        relations: the physical graph.
        traces: what is stored.
        at: the epoch to see it at; by default the newest.
        until: an epoch after it, up to which all is one delta; by default there is none.
    """
    found: dict[str, TraceVersions] = {}
    for name, relation in relations.by_name.items():
        is_table = isinstance(relation, BaseTable)
        schemas = {name: relation.shape.numbered if is_table else relation.shape.stored}
        if isinstance(relation, Merged):
            schemas[partial_trace(name)] = relation.partial_ddl
        if isinstance(relation, Periodic):
            schemas[pending_trace(name)] = schemas[name]
        for trace, schema in schemas.items():
            stored = traces.get(trace, Trace(schema))
            if at is None:
                found[trace] = TraceVersions(schema, stored.segments)
            else:
                before, after = stored.cut(at)
                delta = () if until is None else tuple(s for s in after if s.hi <= until)
                found[trace] = TraceVersions(schema, before, delta)
    return found
