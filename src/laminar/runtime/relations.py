"""All relations of a database, what they read, and which of them keep their rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from laminar.delta.program import Maintained, Mapped, Merged, Shape


@dataclass(frozen=True, slots=True)
class Base:
    """A table or source: its rows come from outside."""

    shape: Shape
    reads: tuple[str, ...] = ()


Relation: TypeAlias = Base | Maintained


@dataclass(frozen=True, slots=True)
class Relations:
    """The physical graph. Decisions about storage are made once per change of definitions.

    A linear query over other relations is *fused* while somebody reads it: its readers take its
    definition into their statements and nothing is stored. One that nobody reads, and one that
    already has stored rows, is stored. Groups kept as partial accumulators are *finished* (their
    result rows are stored too) only if another statement needs their delta.
    """

    by_name: Mapping[str, Relation] = field(default_factory=dict)
    fused: frozenset[str] = frozenset()
    finished: frozenset[str] = frozenset()

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
    ) -> Relations:
        """Decide what to store.

        Args:
            relations: in dependency order.
            stored: relations that have rows stored already.
            tapped: relations whose delta somebody outside the graph wants (sinks, subscribers).
            keep_fused: relations whose rows exist only by definition so far.
        """
        by_name = {each.shape.name: each for each in relations}
        graph = cls(by_name)
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
            wanted.update(relation.reads)
        wanted |= tapped
        finished = frozenset(
            name
            for name, relation in by_name.items()
            if isinstance(relation, Merged) and (name in wanted or name in stored)
        )
        return cls(by_name, fused, finished)


def _only_own(relation: Mapped) -> bool:
    own = f"{relation.shape.name}#"
    return bool(relation.reads) and all(name.startswith(own) for name in relation.reads)


def partial_trace(name: str) -> str:
    """Return the name of the trace that holds a relation's partial accumulators."""
    return f"{name}!partial"
