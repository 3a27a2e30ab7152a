"""The DAG itself: immutable, ordered, and ready to be run, with the way of every output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from laminar.dag.diamond import ConsistencyGroup, compute_consistency_groups
from laminar.dag.draft import EdgeDraft, NodeDraft, resolve
from laminar.dag.edge import DagEdge
from laminar.dag.graph import Graph
from laminar.dag.node import DagNode
from laminar.dag.order import execution_waves, topological_order
from laminar.dag.registered import ViewRegistry, drafts_of
from laminar.dag.validate import CHECKS, REGISTRY_CHECKS, Check
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


DEFAULT_MAX_FAN_OUT = 8
"""Consumers per output port, unless a setting says otherwise."""


@dataclass(frozen=True, slots=True)
class SharedStageMetadata:
    """A node whose output is computed once and read several times.

    A consumer is an edge, so a node that reads the stage on two ports counts, and is listed, twice.
    """

    producer_node: NodeId
    consumer_count: int
    consumer_nodes: tuple[NodeId, ...]
    consumer_watermarks: tuple[int, ...] = ()
    """How many outputs each consumer is done with; empty for a DAG that nobody runs."""


@dataclass(frozen=True, slots=True, repr=False)
class StreamingDag:
    """Nodes and edges by id, dense from 0, and all that follows from them.

    Two DAGs are equal if their nodes and edges are. A change of topology is a new DAG.
    """

    nodes: Mapping[NodeId, DagNode]
    edges: Mapping[EdgeId, DagEdge]
    max_fan_out: int = field(default=DEFAULT_MAX_FAN_OUT, compare=False)
    version: int = field(default=0, compare=False)
    checks: tuple[Check, ...] = field(default=CHECKS, compare=False)
    checkpoint_config: Any = field(default=None, compare=False)
    """What a builder was told of checkpoints; a database that runs the DAG follows it."""
    _ids: Mapping[str, NodeId] = field(init=False, compare=False)
    _order: tuple[NodeId, ...] = field(init=False, compare=False)
    _waves: tuple[tuple[NodeId, ...], ...] = field(init=False, compare=False)
    _shared: Mapping[NodeId, SharedStageMetadata] = field(init=False, compare=False)
    _routing: RoutingTable = field(init=False, compare=False)
    _groups: tuple[ConsistencyGroup, ...] | None = field(init=False, compare=False, default=None)

    def __post_init__(self) -> None:
        self._settle("nodes", MappingProxyType(dict(self.nodes)))
        self._settle("edges", MappingProxyType(dict(self.edges)))
        # A DAG with a fault must never exist, so the checks come before anything is derived.
        self.validate()
        order = topological_order({node: self.downstream(node) for node in self.nodes})
        waves = execution_waves(order, {node: self.upstream(node) for node in self.nodes})
        self._settle("_ids", {node.name: node.id for node in self.nodes.values()})
        self._settle("_order", order)
        self._settle("_waves", waves)
        self._settle("_shared", MappingProxyType(dict(self._find_shared())))
        self._settle("_routing", RoutingTable.build(self))

    @classmethod
    def assemble(
        cls,
        nodes: Sequence[NodeDraft],
        edges: Sequence[EdgeDraft],
        *,
        max_fan_out: int = DEFAULT_MAX_FAN_OUT,
        checks: tuple[Check, ...] = CHECKS,
        checkpoint_config: Any = None,
    ) -> StreamingDag:
        """Build a DAG from declarations by name."""
        return cls(
            *resolve(nodes, edges),
            max_fan_out=max_fan_out,
            checks=checks,
            checkpoint_config=checkpoint_config,
        )

    @classmethod
    def from_mv_registry(
        cls, registry: ViewRegistry, *, max_fan_out: int = DEFAULT_MAX_FAN_OUT
    ) -> StreamingDag:
        """Build the DAG of all registered views; the registry's order is the execution order."""
        nodes, edges = drafts_of(registry)
        return cls.assemble(nodes, edges, max_fan_out=max_fan_out, checks=REGISTRY_CHECKS)

    @property
    def routing_table(self) -> RoutingTable:
        """Where each node's output goes."""
        return self._routing

    def validate(self) -> None:
        """Raise the first fault of the topology, if there is one."""
        for check in self.checks:
            check(self)

    def sources(self) -> tuple[NodeId, ...]:
        """Return the nodes without inputs: where changes enter."""
        return tuple(node.id for node in self.nodes.values() if not node.inputs)

    def sinks(self) -> tuple[NodeId, ...]:
        """Return the nodes without outputs: where changes leave, or rest."""
        return tuple(node.id for node in self.nodes.values() if not node.outputs)

    def execution_order(self) -> tuple[NodeId, ...]:
        """Return all nodes, each after everything it reads."""
        return self._order

    def waves(self) -> tuple[tuple[NodeId, ...], ...]:
        """Return the execution order in groups; nodes of one group may run side by side."""
        return self._waves

    def shared_stages(self) -> Mapping[NodeId, SharedStageMetadata]:
        """Return the nodes that more than one edge leaves."""
        return self._shared

    def outgoing_edge_count(self, node: NodeId) -> int:
        """Return the fan-out of a node; 0 for a node that is not here."""
        return len(self.nodes[node].outputs) if node in self.nodes else 0

    def incoming_edge_count(self, node: NodeId) -> int:
        """Return the fan-in of a node; 0 for a node that is not here."""
        return len(self.nodes[node].inputs) if node in self.nodes else 0

    def node_id_by_name(self, name: str) -> NodeId | None:
        """Return the id of a node, or None."""
        return self._ids.get(name)

    def node(self, name: str) -> DagNode:
        """Return a node by name, or raise NodeNotFound with the nearest name."""
        found = self._ids.get(name)
        if found is None:
            raise NodeNotFound(name, self._ids)
        return self.nodes[found]

    def upstream(self, node: NodeId) -> tuple[NodeId, ...]:
        """Return the nodes that a node reads, each once, in edge order."""
        return tuple(dict.fromkeys(self.edges[edge].source for edge in self._at(node).inputs))

    def downstream(self, node: NodeId) -> tuple[NodeId, ...]:
        """Return the nodes that read a node, each once, in edge order."""
        return tuple(dict.fromkeys(self.edges[edge].target for edge in self._at(node).outputs))

    def dependency_map(self) -> dict[str, tuple[str, ...]]:
        """Return for each name the names it reads, in execution order."""
        return {
            self.nodes[node].name: tuple(self.nodes[source].name for source in self.upstream(node))
            for node in self._order
        }

    def consistency_groups(self) -> tuple[ConsistencyGroup, ...]:
        """Return the groups of nodes that commit together; worked out at the first call."""
        if self._groups is None:
            self._settle("_groups", tuple(compute_consistency_groups(self)))
        assert self._groups is not None
        return self._groups

    def __hash__(self) -> int:
        return hash((tuple(self.nodes.values()), tuple(self.edges.values())))

    def __repr__(self) -> str:
        return f"StreamingDag({len(self.nodes)} nodes, {len(self.edges)} edges)"

    def _settle(self, name: str, value: object) -> None:
        """Write a field of the frozen instance; only while it comes into being, or to cache."""
        object.__setattr__(self, name, value)

    def _at(self, node: NodeId) -> DagNode:
        if node not in self.nodes:
            raise NodeNotFound(str(node))
        return self.nodes[node]

    def _find_shared(self) -> Iterable[tuple[NodeId, SharedStageMetadata]]:
        for node in self.nodes.values():
            if len(node.outputs) > 1:
                readers = tuple(self.edges[edge].target for edge in node.outputs)
                yield node.id, SharedStageMetadata(node.id, len(readers), readers)
