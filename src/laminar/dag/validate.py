"""What makes a topology sound: each check raises at the first fault it finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from laminar.dag.edge import DagEdge
from laminar.dag.graph import Graph
from laminar.dag.order import find_cycle
from laminar.errors.dag import (
    CycleDetected,
    DisconnectedNode,
    FanOutLimitExceeded,
    SchemaMismatch,
)
from laminar.model.schema import Schema

Check = Callable[[Graph], None]


def check_acyclic(dag: Graph) -> None:
    """No node may depend on itself, directly or through others."""
    successors = {node: dag.downstream(node) for node in dag.nodes}
    path = find_cycle(successors, {node.id: node.name for node in dag.nodes.values()})
    if path is not None:
        raise CycleDetected(path)


def check_connected(dag: Graph) -> None:
    """Every node has at least one edge."""
    for node in dag.nodes.values():
        if not node.inputs and not node.outputs:
            raise DisconnectedNode(node.name)


def check_schemas(dag: Graph) -> None:
    """Every column a node expects is delivered, in the same type, by each of its inputs."""
    for edge in dag.edges.values():
        _check_edge_schema(dag, edge)


def check_fan_out(dag: Graph) -> None:
    """No output port feeds more consumers than the DAG's limit."""
    readers = Counter((edge.source, edge.source_port) for edge in dag.edges.values())
    for (node, _), count in readers.items():
        if count > dag.max_fan_out:
            raise FanOutLimitExceeded(dag.nodes[node].name, count, dag.max_fan_out)


REGISTRY_CHECKS: tuple[Check, ...] = (check_acyclic, check_schemas, check_fan_out)
"""For a DAG of registered views, where a table that nobody reads yet is no mistake."""

CHECKS: tuple[Check, ...] = (check_acyclic, check_connected, check_schemas, check_fan_out)
"""For a DAG that was built as a whole, in the order in which faults are reported."""


def _check_edge_schema(dag: Graph, edge: DagEdge) -> None:
    source, target = dag.nodes[edge.source], dag.nodes[edge.target]
    delivered, expected = source.output_schema, target.input_schema
    if delivered is not None and expected is not None:
        refuse_mismatch(source.name, delivered, target.name, expected)


def refuse_mismatch(source: str, delivered: Schema, target: str, expected: Schema) -> None:
    """Raise SchemaMismatch if a column that is expected is not delivered, or in another type."""
    for column in expected:
        found = delivered.field(column.name)
        if found is None or found.type != column.type:
            kind = None if found is None else found.type
            raise SchemaMismatch(source, target, column.name, column.type, kind)
