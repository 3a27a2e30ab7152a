"""A registry of views, seen as nodes and edges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from laminar.dag.draft import EdgeDraft, NodeDraft
from laminar.dag.node import DagNodeType
from laminar.errors.mv import SourceNotFound, ViewNotFound
from laminar.model.schema import Schema


class RegisteredView(Protocol):
    """What a DAG has to know about a view."""

    @property
    def sources(self) -> Sequence[str]:
        """Names of the tables and views it reads."""
        ...

    @property
    def schema(self) -> Schema | None:
        """Its columns, if known."""
        ...

    @property
    def sql(self) -> str:
        """The query that defines it."""
        ...


class ViewRegistry(Protocol):
    """What a DAG has to know about a registry; `laminar.mv.MvRegistry` is one."""

    def base_tables(self) -> Iterable[str]:
        """Names of the tables that views may read."""
        ...

    def topo_order(self) -> Sequence[str]:
        """Names of the views, each after all it reads."""
        ...

    def get_view(self, name: str) -> RegisteredView | None:
        """The view of that name."""
        ...


def drafts_of(registry: ViewRegistry) -> tuple[list[NodeDraft], list[EdgeDraft]]:
    """Make a source of every table and a view node of every view, in the registry's order."""
    nodes = [NodeDraft(table, DagNodeType.SOURCE) for table in registry.base_tables()]
    known = {node.name for node in nodes}
    edges: list[EdgeDraft] = []
    for name in registry.topo_order():
        view = registry.get_view(name)
        if view is None:
            raise ViewNotFound(name, known)
        nodes.append(NodeDraft(name, DagNodeType.MATERIALIZED_VIEW, view.sql, view.schema))
        edges.extend(_edges_into(name, view, known))
        known.add(name)
    return nodes, edges


def _edges_into(name: str, view: RegisteredView, known: set[str]) -> Iterable[EdgeDraft]:
    # A query may name a table twice; the change still arrives once.
    for port, source in enumerate(dict.fromkeys(view.sources)):
        if source not in known:
            raise SourceNotFound(name, source, sorted(known))
        yield EdgeDraft(source, name, target_port=port)
