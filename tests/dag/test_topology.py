from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import pytest

from laminar.dag import (
    DagBuilder,
    DagChannelType,
    DagNodeType,
    SharedStageMetadata,
    StreamingDag,
    derive_channel_type,
)
from laminar.errors import (
    DuplicateNode,
    FanOutLimitExceeded,
    NodeNotFound,
    SourceNotFound,
    ViewNotFound,
)
from laminar.model import NodeId, Schema
from laminar.mv import MaterializedView, MvRegistry


def dag_of(*edges: str) -> StreamingDag:
    """Build from edges such as "a b"; names are declared as they first appear."""
    builder = DagBuilder()
    for name in dict.fromkeys(" ".join(edges).split()):
        builder.operator(name)
    for edge in edges:
        builder.connect(*edge.split())
    return builder.build()


def names(dag: StreamingDag, ids: tuple[NodeId, ...]) -> list[str]:
    return [dag.nodes[node].name for node in ids]


def channels(dag: StreamingDag) -> dict[str, str]:
    return {
        f"{dag.nodes[edge.source].name} {dag.nodes[edge.target].name}": edge.channel_type.value
        for edge in dag.edges.values()
    }


DIAMOND = ("source a", "source b", "a merge", "b merge", "merge sink")


def test_a_line_is_fused_throughout() -> None:
    dag = dag_of("source a", "a b", "b sink")
    assert (len(dag.nodes), len(dag.edges)) == (4, 3)
    assert names(dag, dag.execution_order()) == ["source", "a", "b", "sink"]
    assert set(channels(dag).values()) == {"SPSC"}
    assert dag.shared_stages() == {}


def test_a_shared_stage_is_read_by_all_its_branches() -> None:
    dag = dag_of("source shared", "shared a", "shared b", "shared c")
    shared = dag.node("shared").id
    readers = dag.downstream(shared)
    assert names(dag, readers) == ["a", "b", "c"]
    assert dag.shared_stages() == {shared: SharedStageMetadata(shared, 3, readers)}
    assert set(channels(dag).values()) == {"SPSC", "SPMC"}


def test_fan_in_is_merged() -> None:
    dag = dag_of("a merge", "b merge", "merge sink")
    merge = dag.node_id_by_name("merge")
    assert merge is not None
    assert dag.incoming_edge_count(merge) == 2
    assert channels(dag) == {"a merge": "MPSC", "b merge": "MPSC", "merge sink": "SPSC"}


def test_a_diamond_fans_out_and_in() -> None:
    dag = dag_of(*DIAMOND)
    assert dag.outgoing_edge_count(dag.node("source").id) == 2
    assert dag.incoming_edge_count(dag.node("merge").id) == 2
    assert channels(dag) == {
        "source a": "SPMC",
        "source b": "SPMC",
        "a merge": "MPSC",
        "b merge": "MPSC",
        "merge sink": "SPSC",
    }


@pytest.mark.parametrize(
    ("fan_out", "fan_in", "channel"),
    [
        (1, 1, DagChannelType.SPSC),
        (2, 1, DagChannelType.SPMC),
        (1, 2, DagChannelType.MPSC),
        (2, 2, DagChannelType.MPSC),
    ],
)
def test_the_channel_follows_from_the_degrees(
    fan_out: int, fan_in: int, channel: DagChannelType
) -> None:
    assert derive_channel_type(fan_out, fan_in) is channel


def test_sources_and_sinks_are_the_ends() -> None:
    dag = dag_of("a m", "b m", "m x", "m y")
    assert names(dag, dag.sources()) == ["a", "b"]
    assert names(dag, dag.sinks()) == ["x", "y"]


def test_ties_go_to_the_node_declared_first() -> None:
    builder = DagBuilder().source("z").source("y").source("x").operator("m")
    for name in ("x", "y", "z"):
        builder.connect(name, "m")
    dag = builder.build()
    assert names(dag, dag.execution_order()) == ["z", "y", "x", "m"]


def test_waves_hold_what_may_run_side_by_side() -> None:
    dag = dag_of(*DIAMOND, "source sink")
    assert [names(dag, wave) for wave in dag.waves()] == [
        ["source"],
        ["a", "b"],
        ["merge"],
        ["sink"],
    ]


def test_neighbours_come_in_edge_order() -> None:
    dag = dag_of(*DIAMOND)
    assert names(dag, dag.upstream(dag.node("merge").id)) == ["a", "b"]
    assert names(dag, dag.downstream(dag.node("source").id)) == ["a", "b"]


def test_an_unknown_node_is_told_from_one_without_edges() -> None:
    dag = dag_of(*DIAMOND)
    assert dag.node_id_by_name("nobody") is None
    assert dag.outgoing_edge_count(NodeId(99)) == dag.incoming_edge_count(NodeId(99)) == 0
    with pytest.raises(NodeNotFound):
        dag.upstream(NodeId(99))
    with pytest.raises(NodeNotFound) as caught:
        dag.node("merg")
    assert caught.value.suggestion == "merge"


def test_a_dag_cannot_be_changed() -> None:
    dag = dag_of(*DIAMOND)
    with pytest.raises(dataclasses.FrozenInstanceError):
        dag.version = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        dag.nodes[NodeId(0)] = dag.node("a")  # type: ignore[index]
    with pytest.raises(TypeError):
        del dag.edges[next(iter(dag.edges))]  # type: ignore[attr-defined]
    with pytest.raises(dataclasses.FrozenInstanceError):
        dag.node("a").name = "b"  # type: ignore[misc]


def test_what_follows_from_a_dag_is_worked_out_once() -> None:
    dag = dag_of(*DIAMOND)
    assert dag.routing_table is dag.routing_table
    assert dag.consistency_groups() is dag.consistency_groups()
    assert dag.version == 0
    dag.validate()


def test_a_dag_says_how_big_it_is() -> None:
    assert repr(dag_of(*DIAMOND)) == "StreamingDag(5 nodes, 5 edges)"


# From a registry


def view(name: str, *sources: str) -> MaterializedView:
    return MaterializedView(name, f"SELECT * FROM {', '.join(sources)}", sources, SCHEMA)


SCHEMA = Schema.parse("symbol STRING, price DOUBLE")


def test_a_registry_becomes_a_dag() -> None:
    registry = MvRegistry()
    registry.register_base_table("trades")
    registry.register(view("ohlc_1s", "trades"))
    registry.register(view("ohlc_1m", "ohlc_1s"))
    dag = StreamingDag.from_mv_registry(registry)
    assert dag.dependency_map() == {"trades": (), "ohlc_1s": ("trades",), "ohlc_1m": ("ohlc_1s",)}
    assert dag.node("trades").node_type is DagNodeType.SOURCE
    ohlc = dag.node("ohlc_1m")
    assert ohlc.node_type is DagNodeType.MATERIALIZED_VIEW
    assert ohlc.operator == "SELECT * FROM ohlc_1s"
    assert ohlc.output_schema == SCHEMA


def test_the_order_of_a_registry_is_kept() -> None:
    registry = MvRegistry()
    for table in ("t", "s"):
        registry.register_base_table(table)
    for definition in (view("c", "t"), view("b", "s", "c"), view("a", "t", "b")):
        registry.register(definition)
    dag = StreamingDag.from_mv_registry(registry)
    assert names(dag, dag.execution_order()) == ["t", "s", *registry.topo_order()]
    assert [edge.target_port for edge in dag.edges.values()] == [0, 0, 1, 0, 1]


def test_a_table_nobody_reads_yet_is_no_fault_in_a_registry() -> None:
    registry = MvRegistry()
    registry.register_base_table("waiting")
    dag = StreamingDag.from_mv_registry(registry)
    dag.validate()
    assert names(dag, dag.sources()) == ["waiting"]


def test_an_empty_registry_is_an_empty_dag() -> None:
    dag = StreamingDag.from_mv_registry(MvRegistry())
    assert (dag.execution_order(), dag.waves(), dag.dependency_map()) == ((), (), {})


def test_the_fan_out_limit_holds_for_views_too() -> None:
    registry = MvRegistry()
    registry.register_base_table("t")
    for number in range(9):
        registry.register(view(f"v{number}", "t"))
    with pytest.raises(FanOutLimitExceeded):
        StreamingDag.from_mv_registry(registry)
    assert len(StreamingDag.from_mv_registry(registry, max_fan_out=9).edges) == 9


@dataclass(frozen=True)
class StubView:
    sources: tuple[str, ...]
    schema: Schema | None = None
    sql: str = "SELECT 1"


@dataclass(frozen=True)
class StubRegistry:
    """A registry that may contradict itself, which a real one never does."""

    views: dict[str, StubView]
    order: tuple[str, ...]

    def base_tables(self) -> tuple[str, ...]:
        return ("trades",)

    def topo_order(self) -> tuple[str, ...]:
        return self.order

    def get_view(self, name: str) -> StubView | None:
        return self.views.get(name)


def test_a_table_read_twice_is_one_edge() -> None:
    registry = StubRegistry({"v": StubView(("trades", "trades"))}, ("v",))
    assert len(StreamingDag.from_mv_registry(registry).edges) == 1


def test_a_registry_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(SourceNotFound) as caught:
        StreamingDag.from_mv_registry(StubRegistry({"v": StubView(("trade",))}, ("v",)))
    assert caught.value.suggestion == "trades"
    with pytest.raises(ViewNotFound):
        StreamingDag.from_mv_registry(StubRegistry({}, ("v",)))
    with pytest.raises(DuplicateNode):
        StreamingDag.from_mv_registry(StubRegistry({"trades": StubView(())}, ("trades",)))
