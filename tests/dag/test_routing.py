from __future__ import annotations

import pytest

from laminar.dag import MAX_PORTS, DagBuilder, RoutingEntry, RoutingTable, StreamingDag
from laminar.errors import InvalidPort, NodeNotFound
from laminar.model import EdgeId, NodeId


@pytest.fixture
def dag() -> StreamingDag:
    return (
        DagBuilder()
        .source("s")
        .operator("a")
        .operator("b")
        .operator("errors")
        .connect("s", "a")
        .connect("s", "b")
        .connect("s", "errors", source_port=7)
        .build()
    )


def test_a_shared_port_is_multicast(dag: StreamingDag) -> None:
    entry = RoutingTable.build(dag).route(dag.node("s").id, 0)
    assert entry.target_count == 2
    assert entry.is_multicast
    assert entry.targets == (dag.node("a").id, dag.node("b").id)
    assert entry.edges == (EdgeId(0), EdgeId(1))


def test_each_port_goes_its_own_way(dag: StreamingDag) -> None:
    entry = dag.routing_table.route(dag.node("s").id, 7)
    assert entry == RoutingEntry((dag.node("errors").id,), (EdgeId(2),), 1, False)


def test_the_end_of_the_dag_leads_nowhere(dag: StreamingDag) -> None:
    assert dag.routing_table.route(dag.node("a").id) == RoutingEntry()
    assert dag.routing_table.route(dag.node("s").id, 3).target_count == 0


def test_the_table_is_dense(dag: StreamingDag) -> None:
    table = dag.routing_table
    assert len(table.entries) == len(dag.nodes) * MAX_PORTS
    source = dag.node("s").id
    assert table.entries[source * MAX_PORTS + 7] is table.route(source, 7)


@pytest.mark.parametrize("port", [-1, MAX_PORTS, 200])
def test_a_port_that_no_node_has(dag: StreamingDag, port: int) -> None:
    with pytest.raises(InvalidPort):
        dag.routing_table.route(dag.node("s").id, port)


@pytest.mark.parametrize("node", [-1, 4, 1000])
def test_a_node_that_is_not_there(dag: StreamingDag, node: int) -> None:
    with pytest.raises(NodeNotFound):
        dag.routing_table.route(NodeId(node), 0)
