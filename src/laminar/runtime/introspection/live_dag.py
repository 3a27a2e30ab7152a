"""The DAG of a database as it is now: with its sinks, and with what each node delivers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from laminar.dag import DagChannelType, DagEdge, DagNode, DagNodeType, StreamingDag
from laminar.dag.operator import operator_kind
from laminar.delta.program import Shape
from laminar.model.ids import EdgeId, NodeId, StatePartitionId
from laminar.model.schema import Field, Schema
from laminar.runtime.catalog.definitions import OperatorDefinition, TableDefinition

if TYPE_CHECKING:
    from laminar.runtime.catalog.catalog import Catalog
    from laminar.runtime.engine.engine import Engine


def live_dag(engine: Engine) -> StreamingDag:
    """Return nodes and edges under the ids that epochs use, and a node and an edge for each sink.

    A sink reads what is committed, by a channel of its own.
    """
    catalog, dag = engine.snapshot().catalog, engine.snapshot().catalog.dag
    operators = engine.defined.operators
    nodes = {id_: described(catalog, operators, node) for id_, node in dag.nodes.items()}
    edges = dict(dag.edges)
    for sink in engine.outputs.sinks.books.sinks():
        source = dag.node_id_by_name(sink.relation)
        if source is None:
            continue  # it was dropped a moment ago
        edge, node = EdgeId(len(edges)), NodeId(len(nodes))
        edges[edge] = DagEdge(edge, source, node, DagChannelType.SPSC)
        read = nodes[source]
        nodes[source] = replace(read, outputs=(*read.outputs, edge))
        nodes[node] = DagNode(
            node,
            sink.name,
            DagNodeType.SINK,
            inputs=(edge,),
            input_schema=read.output_schema,
            state_partition=StatePartitionId(node),
        )
    widest = max((len(node.outputs) for node in nodes.values()), default=1)
    return StreamingDag(nodes, edges, max_fan_out=max(dag.max_fan_out, widest), checks=dag.checks)


def described(catalog: Catalog, operators: Mapping[str, Any], node: DagNode) -> DagNode:
    """Return a node with its type, its operator and its columns, as they are defined."""
    definition = catalog.definitions[node.name]
    found = replace(node, output_schema=schema_of(catalog.shape(node.name)))
    if isinstance(definition, TableDefinition):
        return found
    operator = operators.get(node.name)
    if not isinstance(definition, OperatorDefinition) or operator is None:
        return found
    return replace(found, node_type=operator_kind(operator), operator=operator)


def schema_of(shape: Shape) -> Schema:
    """Return the columns of a relation."""
    return Schema(tuple(map(Field, shape.columns, shape.types)))
