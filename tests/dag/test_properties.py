"""Laws that hold for every DAG, tried on random ones."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.dag import DagBuilder, StreamingDag, derive_channel_type
from laminar.errors import CycleDetected

Edge = tuple[int, int]


@dataclass(frozen=True)
class Shape:
    """A graph to build: names in order of declaration, edges in order of connection."""

    nodes: tuple[int, ...]
    edges: tuple[Edge, ...]

    def builder(self) -> DagBuilder:
        builder = DagBuilder(max_fan_out=100)
        for node in self.nodes:
            builder.operator(f"n{node}")
        for source, target in self.edges:
            builder.connect(f"n{source}", f"n{target}")
        return builder


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Acyclic and connected, declared in an order that has nothing to do with the edges."""
    size = draw(st.integers(2, 12))
    pairs = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))
    edges = {(min(pair), max(pair)) for pair in draw(st.sets(pairs)) if len(set(pair)) == 2}
    # Every node hangs on an earlier one, so that none is without an edge.
    edges |= {(draw(st.integers(0, node - 1)), node) for node in range(1, size)}
    nodes = draw(st.permutations(range(size)))
    return Shape(tuple(nodes), tuple(draw(st.permutations(sorted(edges)))))


def names(dag: StreamingDag) -> list[str]:
    return [dag.nodes[node].name for node in dag.execution_order()]


@given(shapes())
def test_everything_runs_after_what_it_reads(shape: Shape) -> None:
    dag = shape.builder().build()
    order = dag.execution_order()
    assert sorted(order) == sorted(dag.nodes)
    for edge in dag.edges.values():
        assert order.index(edge.source) < order.index(edge.target)


@given(shapes())
def test_the_order_is_the_first_of_all_orders(shape: Shape) -> None:
    dag = shape.builder().build()
    done: list[int] = []
    while len(done) < len(dag.nodes):
        waiting = (node for node in dag.nodes if node not in done)
        done.append(next(n for n in waiting if set(dag.upstream(n)) <= set(done)))
    assert list(dag.execution_order()) == done


@given(shapes())
def test_waves_are_the_longest_paths(shape: Shape) -> None:
    dag = shape.builder().build()
    level = {node: number for number, wave in enumerate(dag.waves()) for node in wave}
    assert sorted(level) == sorted(dag.nodes)
    for node in dag.nodes:
        before = [level[source] for source in dag.upstream(node)]
        assert level[node] == (1 + max(before) if before else 0)


@given(shapes())
def test_channels_agree_with_the_degrees(shape: Shape) -> None:
    dag = shape.builder().build()
    for edge in dag.edges.values():
        fan_out = sum(other.source == edge.source for other in dag.edges.values())
        fan_in = sum(other.target == edge.target for other in dag.edges.values())
        assert edge.channel_type is derive_channel_type(fan_out, fan_in)
        assert dag.outgoing_edge_count(edge.source) == fan_out
        assert dag.incoming_edge_count(edge.target) == fan_in


@given(shapes())
def test_the_routing_table_is_the_edges_and_nothing_else(shape: Shape) -> None:
    dag = shape.builder().build()
    routed = []
    for node in dag.nodes:
        for port in range(8):
            entry = dag.routing_table.route(node, port)
            assert entry.target_count == len(entry.targets) == len(entry.edges)
            assert entry.is_multicast == (entry.target_count > 1)
            routed += [
                (edge, node, port, target)
                for edge, target in zip(entry.edges, entry.targets, strict=True)
            ]
    assert sorted(routed) == [
        (edge.id, edge.source, edge.source_port, edge.target) for edge in dag.edges.values()
    ]


@given(shapes())
def test_shared_stages_are_the_nodes_read_more_than_once(shape: Shape) -> None:
    dag = shape.builder().build()
    readers = {node: dag.downstream(node) for node in dag.nodes}
    assert {node: stage.consumer_nodes for node, stage in dag.shared_stages().items()} == {
        node: targets for node, targets in readers.items() if len(targets) > 1
    }


@given(shapes())
def test_equal_declarations_give_equal_dags(shape: Shape) -> None:
    first, second = shape.builder().build(), shape.builder().build()
    assert first == second
    assert first.execution_order() == second.execution_order()
    assert first.dependency_map() == second.dependency_map()


@given(shapes(), st.data())
def test_the_order_of_edges_does_not_matter_to_the_order_of_nodes(
    shape: Shape, data: st.DataObject
) -> None:
    shuffled = Shape(shape.nodes, tuple(data.draw(st.permutations(shape.edges))))
    assert names(shuffled.builder().build()) == names(shape.builder().build())


@given(shapes(), st.data())
def test_an_edge_back_is_always_found(shape: Shape, data: st.DataObject) -> None:
    dag = shape.builder().build()
    start = data.draw(st.sampled_from(sorted(dag.nodes)))
    reached = [start]
    for node in reached:
        reached += [target for target in dag.downstream(node) if target not in reached]
    end = data.draw(st.sampled_from(reached))
    back = (int(dag.nodes[end].name[1:]), int(dag.nodes[start].name[1:]))
    cyclic = Shape(shape.nodes, (*shape.edges, back))

    with pytest.raises(CycleDetected) as caught:
        cyclic.builder().build()

    path = [int(name[1:]) for name in caught.value.path]
    assert path[0] == path[-1]
    assert len(set(path)) == len(path) - 1
    steps = list(pairwise(path))
    assert set(steps) <= set(cyclic.edges)
    # The graph was acyclic before, so every cycle takes the new edge.
    assert back in steps
