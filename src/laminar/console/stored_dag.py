"""The DAG of a database, built from the definitions that a manifest carries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from laminar.dag import StreamingDag
from laminar.model.trace import Manifest
from laminar.mv import MaterializedView, MvRegistry
from laminar.runtime.catalog.consistency_groups import groups_of
from laminar.runtime.catalog.definitions import (
    Definition,
    LateDefinition,
    OperatorDefinition,
    TableDefinition,
    ViewDefinition,
    from_json,
)
from laminar.sql import relations_of


@dataclass(frozen=True)
class Graph:
    """Definitions by name, and how they hang together."""

    definitions: Mapping[str, Definition]
    outlines: Mapping[str, Mapping[str, Any]]
    """View -> its columns, what it reads, its strategy: what took Spark to work out."""
    dag: StreamingDag
    sinks: tuple[Mapping[str, Any], ...]
    waves: Mapping[str, int]

    @cached_property
    def groups(self) -> Mapping[str, int | None]:
        """View -> the number of its group; None if nobody else is in it."""
        return {name: each.number for each in groups_of(self) for name in each.members}

    @classmethod
    def of(cls, manifest: Manifest) -> Graph:
        """Build the graph of a manifest."""
        definitions = {each.name: each for each in from_json(manifest.catalog)}
        outlines = manifest.state.outlines
        dag = _dag(definitions, outlines)
        name = {node.id: node.name for node in dag.nodes.values()}
        waves = {name[node]: at for at, wave in enumerate(dag.waves()) for node in wave}
        return cls(definitions, outlines, dag, manifest.state.sinks, waves)

    def reads(self, name: str) -> list[str]:
        """Return what a relation reads itself."""
        node = self.dag.node(name)
        return [self.dag.nodes[each].name for each in self.dag.upstream(node.id)]

    def readers(self, name: str) -> list[str]:
        """Return the views and sinks that read a relation themselves."""
        node = self.dag.node(name)
        views = [self.dag.nodes[each].name for each in self.dag.downstream(node.id)]
        return views + [each["name"] for each in self.sinks if each["relation"] == name]


def _dag(
    definitions: Mapping[str, Definition], outlines: Mapping[str, Mapping[str, Any]]
) -> StreamingDag:
    registry = MvRegistry()
    edges = 0
    for name, definition in definitions.items():
        if isinstance(definition, TableDefinition):
            registry.register_base_table(name)
            continue
        sources = _sources(definition, definitions, outlines)
        query = definition.query if isinstance(definition, ViewDefinition) else ""
        registry.register(MaterializedView(name, query, sources))
        edges += len(sources)
    # Whatever limit counted when the views were made: what is there can be shown.
    return StreamingDag.from_mv_registry(registry, max_fan_out=max(edges, 1))


def _sources(
    definition: ViewDefinition | OperatorDefinition | LateDefinition,
    definitions: Mapping[str, Definition],
    outlines: Mapping[str, Mapping[str, Any]],
) -> tuple[str, ...]:
    """Return what a view reads: as the writer says, or, if an older one did not, by its text."""
    outline = outlines.get(definition.name)
    if outline is not None:
        return tuple(outline["reads"])
    match definition:
        case OperatorDefinition(reads=reads):
            return reads
        case LateDefinition(view=view):
            return (view,)
    return _spelled(relations_of(definition.query), definitions)


def _spelled(names: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    as_defined = {each.lower(): each for each in known}
    return tuple(as_defined.get(each.lower(), each) for each in names)
