"""Where a node's output goes, worked out once so that running only has to look it up."""

from __future__ import annotations

from dataclasses import dataclass

from laminar.dag.graph import Graph
from laminar.errors.dag import InvalidPort, NodeNotFound
from laminar.model.ids import EdgeId, NodeId

MAX_PORTS = 8
"""Output ports per node; fixed, so that a place in the table is one multiplication away."""


@dataclass(frozen=True, slots=True)
class RoutingEntry:
    """The readers of one output port, in edge order; none for a node at the end."""

    targets: tuple[NodeId, ...] = ()
    edges: tuple[EdgeId, ...] = ()
    target_count: int = 0
    is_multicast: bool = False


_NOWHERE = RoutingEntry()


@dataclass(frozen=True, slots=True)
class RoutingTable:
    """A dense table: the entry of (node, port) stands at node × MAX_PORTS + port."""

    entries: tuple[RoutingEntry, ...]
    names: tuple[str, ...]

    @classmethod
    def build(cls, dag: Graph) -> RoutingTable:
        """Lay out MAX_PORTS entries for every node; raise InvalidPort beyond that."""
        entries = [_NOWHERE] * (len(dag.nodes) * MAX_PORTS)
        names = tuple(node.name for node in dag.nodes.values())
        for edge in dag.edges.values():
            if not 0 <= edge.source_port < MAX_PORTS:
                raise InvalidPort(names[edge.source], edge.source_port, MAX_PORTS)
            at = edge.source * MAX_PORTS + edge.source_port
            entries[at] = _extended(entries[at], edge.target, edge.id)
        return cls(tuple(entries), names)

    def route(self, node: NodeId, port: int = 0) -> RoutingEntry:
        """Return who reads that port; constant time, whatever the size of the DAG."""
        if not 0 <= node < len(self.names):
            raise NodeNotFound(str(node))
        if not 0 <= port < MAX_PORTS:
            # Without this check the index would quietly fall into a neighbour's entries.
            raise InvalidPort(self.names[node], port, MAX_PORTS)
        return self.entries[node * MAX_PORTS + port]


def _extended(entry: RoutingEntry, target: NodeId, edge: EdgeId) -> RoutingEntry:
    count = entry.target_count + 1
    return RoutingEntry((*entry.targets, target), (*entry.edges, edge), count, count > 1)
