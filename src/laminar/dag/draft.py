"""Nodes and edges as they are declared, by name; `resolve` turns them into ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from laminar.dag.edge import DagEdge, derive_channel_type
from laminar.dag.node import DagNode, DagNodeType
from laminar.dag.partitioning import PartitioningStrategy
from laminar.errors.dag import DuplicateNode, NodeNotFound
from laminar.model.ids import EdgeId, NodeId, StatePartitionId
from laminar.model.schema import Schema


@dataclass(frozen=True, slots=True)
class NodeDraft:
    """A node before it has an id."""

    name: str
    node_type: DagNodeType
    operator: Any = None
    output_schema: Schema | None = None
    input_schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class EdgeDraft:
    """An edge between names; the nodes may be declared later."""

    source: str
    target: str
    source_port: int = 0
    target_port: int = 0
    partitioning: PartitioningStrategy | None = None


Resolved = tuple[dict[NodeId, DagNode], dict[EdgeId, DagEdge]]


def resolve(nodes: Sequence[NodeDraft], edges: Sequence[EdgeDraft]) -> Resolved:
    """Number nodes and edges in order of declaration and tie them together."""
    ids = _number(nodes)
    ends = [(_find(edge.source, ids), _find(edge.target, ids)) for edge in edges]
    outputs: dict[NodeId, list[EdgeId]] = {node: [] for node in ids.values()}
    inputs: dict[NodeId, list[EdgeId]] = {node: [] for node in ids.values()}
    for number, (source, target) in enumerate(ends):
        outputs[source].append(EdgeId(number))
        inputs[target].append(EdgeId(number))
    built = {ids[draft.name]: _node(draft, ids[draft.name], inputs, outputs) for draft in nodes}
    return built, _edges(edges, ends)


def _number(nodes: Sequence[NodeDraft]) -> dict[str, NodeId]:
    ids: dict[str, NodeId] = {}
    for draft in nodes:
        if draft.name in ids:
            raise DuplicateNode(draft.name)
        ids[draft.name] = NodeId(len(ids))
    return ids


def _find(name: str, ids: dict[str, NodeId]) -> NodeId:
    if name not in ids:
        raise NodeNotFound(name, ids)
    return ids[name]


def _node(
    draft: NodeDraft,
    node: NodeId,
    inputs: dict[NodeId, list[EdgeId]],
    outputs: dict[NodeId, list[EdgeId]],
) -> DagNode:
    return DagNode(
        id=node,
        name=draft.name,
        node_type=draft.node_type,
        operator=draft.operator,
        inputs=tuple(inputs[node]),
        outputs=tuple(outputs[node]),
        output_schema=draft.output_schema,
        input_schema=draft.input_schema,
        state_partition=StatePartitionId(node),
    )


def _edges(
    drafts: Sequence[EdgeDraft], ends: Sequence[tuple[NodeId, NodeId]]
) -> dict[EdgeId, DagEdge]:
    fan_out = Counter(source for source, _ in ends)
    fan_in = Counter(target for _, target in ends)
    return {
        EdgeId(number): DagEdge(
            id=EdgeId(number),
            source=source,
            target=target,
            channel_type=derive_channel_type(fan_out[source], fan_in[target]),
            partitioning=draft.partitioning,
            source_port=draft.source_port,
            target_port=draft.target_port,
        )
        for number, (draft, (source, target)) in enumerate(zip(drafts, ends, strict=True))
    }
