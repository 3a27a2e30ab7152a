"""A topology as its checks, its routing and its groups see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from laminar.dag.edge import DagEdge
from laminar.dag.node import DagNode
from laminar.model.ids import EdgeId, NodeId


class Graph(Protocol):
    """Nodes and edges, and who is next to whom; a `StreamingDag` is one."""

    @property
    def nodes(self) -> Mapping[NodeId, DagNode]:
        """All nodes; ids are dense and count from 0."""
        ...

    @property
    def edges(self) -> Mapping[EdgeId, DagEdge]:
        """All edges; ids are dense and count from 0."""
        ...

    @property
    def max_fan_out(self) -> int:
        """How many readers one output port may have."""
        ...

    def execution_order(self) -> tuple[NodeId, ...]:
        """Return the nodes, each after all that it reads."""
        ...

    def upstream(self, node: NodeId) -> tuple[NodeId, ...]:
        """Return the nodes that a node reads, each once, in edge order."""
        ...

    def downstream(self, node: NodeId) -> tuple[NodeId, ...]:
        """Return the nodes that read a node, each once, in edge order."""
        ...
