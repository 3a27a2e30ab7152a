"""All relations of a database, what they read, and which of them keep their rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from laminar.delta.program import (
    Aged,
    Emitted,
    Late,
    Maintained,
    Mapped,
    Merged,
    Periodic,
    Sessioned,
    Shape,
)
from laminar.model.trace import Manifest
from laminar.model.trace_name import relation_of, view_of
from laminar.plan.closing import is_direct
from laminar.plan.progress import Known, flows


@dataclass(frozen=True, slots=True)
class BaseTable:
    """A table or source: its rows come from outside."""

    shape: Shape
    reads: tuple[str, ...] = ()
    event_time: str | None = None


Relation: TypeAlias = BaseTable | Maintained


@dataclass(frozen=True, slots=True)
class StoragePlan:
    """The physical graph. Decisions about storage are made once per change of definitions.

    A linear query over other relations is *fused* while somebody reads it: its readers take its
    definition into their statements and nothing is stored. One that nobody reads, and one that
    already has stored rows, is stored. Groups kept as partial accumulators are *finished* (their
    result rows are stored too) only if another statement needs their delta.
    """

    by_name: Mapping[str, Relation] = field(default_factory=dict)
    fused: frozenset[str] = frozenset()
    finished: frozenset[str] = frozenset()
    lineage: Mapping[str, Known] = field(default_factory=dict)
    """Relation -> its columns that carry event time -> the columns they come from."""
    is_timed: bool = field(init=False, compare=False)
    """Whether there are relations that show, change or let go of rows because time passes."""

    def __post_init__(self) -> None:
        timed = any(isinstance(each, Emitted | Periodic | Aged) for each in self.by_name.values())
        object.__setattr__(self, "is_timed", timed)

    def times(self, trace: str) -> tuple[str, ...]:
        """Return the columns of a trace of which its segments know the span."""
        return tuple(self.lineage.get(relation_of(trace), ()))

    def stored_in(self, manifest: Manifest) -> StoragePlan:
        """Return this graph as an epoch has it: what is stored now may have been fused then."""
        return replace(self, fused=manifest.state.fused, finished=frozenset(manifest.traces))

    def readers(self, name: str) -> tuple[str, ...]:
        """Relations that read this one directly."""
        return tuple(other for other, relation in self.by_name.items() if name in relation.reads)

    @classmethod
    def plan(
        cls,
        relations: Iterable[Relation],
        *,
        stored: frozenset[str],
        tapped: frozenset[str],
        keep_fused: frozenset[str] = frozenset(),
    ) -> StoragePlan:
        """Decide what to store.

        Args:
            relations: in dependency order.
            stored: relations that have rows stored already.
            tapped: relations whose delta somebody outside the graph wants (sinks, subscribers).
            keep_fused: relations whose rows exist only by definition so far.
        """
        by_name = {each.shape.name: each for each in relations}
        graph = cls(by_name)
        lineage = _lineage(by_name)
        fused = frozenset(
            name
            for name, relation in by_name.items()
            if isinstance(relation, Mapped)
            and relation.fusible
            and name not in stored
            and (name in keep_fused or graph.readers(name) or _only_own(relation))
        )
        wanted: set[str] = set()
        for name in reversed(list(by_name)):
            relation = by_name[name]
            if name in fused and name not in wanted and name not in tapped:
                continue  # it hands on only what somebody asks of it
            wanted.update(_wanted(relation, by_name))
        wanted |= tapped
        finished = frozenset(
            name
            for name, relation in by_name.items()
            if isinstance(relation, Merged) and (name in wanted or name in stored)
        )
        return cls(by_name, fused, finished, lineage)


def _only_own(relation: Mapped) -> bool:
    own = relation.shape.name
    return bool(relation.reads) and all(view_of(name) == own for name in relation.reads)


def _wanted(relation: Relation, by_name: Mapping[str, Relation]) -> tuple[str, ...]:
    """Return the relations of which one needs the delta as rows."""
    if isinstance(relation, Emitted):
        # Groups that wait for their window to close are merged from their accumulators then.
        return tuple(n for n in relation.reads if not isinstance(by_name[n], Merged))
    if isinstance(relation, Late):
        return tuple(name for name in relation.reads if name != relation.horizon.view)
    return relation.reads


def _lineage(by_name: Mapping[str, Relation]) -> dict[str, Known]:
    found: dict[str, Known] = {}
    times: dict[str, frozenset[str]] = {}
    for name, relation in by_name.items():
        found[name] = _known(relation, times)
        if isinstance(relation, Aged):
            # What waits for its time is found by its limits.
            limits: Known = {relation.node.start: (), relation.node.end: ()}
            found[relation.reads[0]] = {**found[relation.reads[0]], **limits}
        times[name] = frozenset(found[name])
    return found


def _known(relation: Relation, times: Mapping[str, frozenset[str]]) -> Known:
    match relation:
        case BaseTable():
            return {} if relation.event_time is None else {relation.event_time: ()}
        case Mapped() | Late():
            if not is_direct(relation.node):
                return {}
            columns = relation.node.columns if isinstance(relation, Mapped) else relation.columns
            names = dict(zip(columns, relation.shape.columns, strict=True))
            known = flows(relation.node, times)
            roots = {path: path.split(".")[0] for path in known}
            return {
                names[root] + path[len(root) :]: known[path]
                for path, root in roots.items()
                if root in names
            }
        case Merged() | Sessioned() | Emitted():
            return flows(relation.node, times)
        case _:
            return {}
