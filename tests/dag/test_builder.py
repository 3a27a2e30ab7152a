from __future__ import annotations

from typing import Any

import pytest

import laminar
from laminar.dag import DagBuilder, DagNodeType, HashBy
from laminar.errors import (
    CycleDetected,
    DisconnectedNode,
    DuplicateEdge,
    DuplicateNode,
    FanOutLimitExceeded,
    InvalidOperator,
    InvalidPort,
    InvalidSchema,
    InvalidSetting,
    NodeNotFound,
    SchemaMismatch,
)
from laminar.model import Schema


def passthrough(delta: Any) -> Any:
    return delta


def trades() -> DagBuilder:
    """The example of the specification, declared in the order it is given there."""
    return (
        DagBuilder()
        .source("trades", passthrough)
        .operator("dedup", passthrough)
        .operator("normalize", passthrough)
        .connect("trades", "dedup")
        .connect("dedup", "normalize")
        .fan_out(
            "normalize",
            lambda b: (
                b.branch("vwap", passthrough)
                .branch("anomaly", passthrough)
                .branch("position", passthrough)
            ),
        )
        .sink("vwap", print)
        .sink("anomaly", print)
        .sink("position", print)
    )


def test_the_example_of_the_specification() -> None:
    dag = trades().build()
    assert dag.dependency_map() == {
        "trades": (),
        "dedup": ("trades",),
        "normalize": ("dedup",),
        "vwap": ("normalize",),
        "anomaly": ("normalize",),
        "position": ("normalize",),
        "vwap_sink": ("vwap",),
        "anomaly_sink": ("anomaly",),
        "position_sink": ("position",),
    }
    assert [dag.nodes[node].name for node in dag.sinks()] == [
        "vwap_sink",
        "anomaly_sink",
        "position_sink",
    ]


def test_building_twice_gives_equal_dags() -> None:
    builder = trades()
    first = builder.build()
    assert builder.build() == first == trades().build()
    assert hash(builder.build()) == hash(first)


def test_a_built_dag_does_not_follow_its_builder() -> None:
    builder = trades()
    before = builder.build()
    after = builder.operator("late").connect("vwap", "late").build()
    assert "late" not in before.dependency_map()
    assert after != before


def test_edges_may_come_before_their_nodes() -> None:
    dag = DagBuilder().connect("a", "b").operator("b").source("a").build()
    assert dag.dependency_map() == {"a": (), "b": ("a",)}


def test_a_new_sink_is_connected_by_hand() -> None:
    dag = DagBuilder().source("a").sink("out", print).connect("a", "out").build()
    assert dag.node("out").node_type is DagNodeType.SINK
    assert dag.node("out").operator is print


def test_sinks_attached_to_one_node_are_numbered() -> None:
    dag = DagBuilder().source("a").sink("a").sink("a").sink("a").build()
    assert list(dag.dependency_map()) == ["a", "a_sink", "a_sink_2", "a_sink_3"]
    assert dag.dependency_map()["a_sink_3"] == ("a",)


def test_a_second_sink_of_the_same_name_is_refused() -> None:
    with pytest.raises(DuplicateNode):
        DagBuilder().source("a").sink("out").sink("out")


def test_a_name_is_given_once() -> None:
    builder = DagBuilder().source("a")
    for declare in (builder.source, builder.operator):
        with pytest.raises(DuplicateNode, match='"a"'):
            declare("a")
    with pytest.raises(DuplicateNode):
        builder.fan_out("x", lambda b: b.branch("a"))


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    builder = DagBuilder().source("trades").operator("normalize").connect("trades", "normalise")
    with pytest.raises(NodeNotFound) as caught:
        builder.build()
    assert caught.value.suggestion == "normalize"
    with pytest.raises(NodeNotFound):
        DagBuilder().source("a").fan_out("missing", lambda b: b.branch("x")).build()


def test_the_kind_of_a_node_follows_from_its_operator() -> None:
    dag = trades().operator("totals", "SELECT sum(x) FROM vwap").connect("vwap", "totals").build()
    assert dag.node("trades").node_type is DagNodeType.SOURCE
    assert dag.node("dedup").node_type is DagNodeType.STATELESS_OPERATOR
    assert dag.node("totals").node_type is DagNodeType.STATEFUL_OPERATOR


def test_a_bad_operator_is_refused_at_once() -> None:
    with pytest.raises(InvalidOperator):
        DagBuilder().operator("a", 42)
    with pytest.raises(InvalidOperator):
        DagBuilder().fan_out("a", lambda b: b.branch("x", 42))


# Ports


def test_input_ports_are_counted_up() -> None:
    dag = (
        DagBuilder().source("a").source("b").source("c").operator("m")
        .connect("a", "m").connect("b", "m", target_port=2).connect("c", "m")
        .build()
    )  # fmt: skip
    assert [edge.target_port for edge in dag.edges.values()] == [0, 2, 1]


def test_the_same_edge_twice_is_refused() -> None:
    builder = DagBuilder().connect("a", "b")
    with pytest.raises(DuplicateEdge):
        builder.connect("a", "b")
    with pytest.raises(DuplicateEdge):
        builder.connect("a", "b", target_port=0)


def test_a_self_join_reads_one_node_on_two_ports() -> None:
    dag = DagBuilder().source("a").operator("j").connect("a", "j").connect(
        "a", "j", target_port=1
    ).build()  # fmt: skip
    assert len(dag.edges) == 2
    assert dag.dependency_map()["j"] == ("a",)
    assert dag.downstream(dag.node("a").id) == (dag.node("j").id,)


def test_an_input_port_takes_one_edge() -> None:
    with pytest.raises(DuplicateEdge, match='port 0 already reads "a"'):
        DagBuilder().connect("a", "m").connect("b", "m", target_port=0)


def test_two_output_ports_may_feed_one_node() -> None:
    dag = (
        DagBuilder().source("a").operator("b")
        .connect("a", "b").connect("a", "b", source_port=1)
        .build()
    )  # fmt: skip
    assert [(e.source_port, e.target_port) for e in dag.edges.values()] == [(0, 0), (1, 1)]


@pytest.mark.parametrize("port", [-1, 8])
def test_an_output_port_beyond_the_table_is_refused(port: int) -> None:
    with pytest.raises(InvalidPort):
        DagBuilder().connect("a", "b", source_port=port)


def test_a_negative_input_port_is_refused() -> None:
    with pytest.raises(InvalidSetting):
        DagBuilder().connect("a", "b", target_port=-1)


def test_partitioning_stays_with_its_edge() -> None:
    dag = DagBuilder().source("a").operator("b").connect("a", "b", partitioning=HashBy("k")).build()
    assert [edge.partitioning for edge in dag.edges.values()] == [HashBy("k")]


# Faults that only the whole shows


def test_a_cycle_is_reported_with_its_path() -> None:
    builder = DagBuilder().operator("a").operator("b").connect("a", "b").connect("b", "a")
    with pytest.raises(CycleDetected) as caught:
        builder.build()
    assert caught.value.path == ("a", "b", "a")


def test_a_node_that_reads_itself_is_a_cycle() -> None:
    with pytest.raises(CycleDetected) as caught:
        DagBuilder().source("s").operator("a").connect("s", "a").connect("a", "a").build()
    assert caught.value.path == ("a", "a")


def test_the_path_leaves_out_what_only_hangs_on_the_cycle() -> None:
    builder = DagBuilder()
    for name in ("source", "before", "x", "y", "z", "after"):
        builder.operator(name)
    for edge in ("source before", "before x", "x y", "y z", "z x", "z after"):
        builder.connect(*edge.split())
    with pytest.raises(CycleDetected) as caught:
        builder.build()
    assert caught.value.path == ("x", "y", "z", "x")


def test_a_node_without_edges_is_refused() -> None:
    with pytest.raises(DisconnectedNode, match='"lonely"'):
        DagBuilder().source("a").sink("a").operator("lonely").build()


def test_fan_out_is_limited_and_the_limit_is_a_setting() -> None:
    def hub(readers: int, **limit: int) -> DagBuilder:
        builder = DagBuilder(**limit).source("hub")
        for number in range(readers):
            builder.operator(f"n{number}").connect("hub", f"n{number}")
        return builder

    assert len(hub(8).build().edges) == 8
    with pytest.raises(FanOutLimitExceeded) as caught:
        hub(9).build()
    assert (caught.value.node, caught.value.count, caught.value.limit) == ("hub", 9, 8)
    assert len(hub(9, max_fan_out=9).build().edges) == 9


def test_the_limit_counts_each_output_port_for_itself() -> None:
    builder = DagBuilder(max_fan_out=2).source("hub")
    for number in range(4):
        builder.operator(f"n{number}").connect("hub", f"n{number}", source_port=number % 2)
    assert len(builder.build().edges) == 4


def test_the_limit_itself_is_checked() -> None:
    with pytest.raises(InvalidSetting):
        DagBuilder(max_fan_out=0)


# Schemas


def with_schemas(delivered: str | Schema | None, expected: str | Schema | None) -> DagBuilder:
    return (
        DagBuilder()
        .source("a", schema=delivered)
        .operator("b", input_schema=expected)
        .connect("a", "b")
    )


@pytest.mark.parametrize(
    ("delivered", "expected"),
    [
        ("x INT, y STRING", "x INT, y STRING"),
        ("x INT, y STRING", "Y text"),
        ("x LONG NOT NULL", "x BIGINT"),
        (Schema.parse("x INT"), "x INTEGER"),
        (None, "x INT"),
        ("x INT", None),
    ],
)
def test_schemas_that_fit(delivered: str, expected: str) -> None:
    assert with_schemas(delivered, expected).build().edges


@pytest.mark.parametrize(
    ("delivered", "expected", "column", "found"),
    [
        ("x INT, y STRING", "y DOUBLE", "y", "string"),
        ("x DECIMAL(10,2)", "x DECIMAL(10,3)", "x", "decimal(10,2)"),
        ("x INT", "x INT, z INT", "z", None),
    ],
)
def test_schemas_that_do_not_fit(
    delivered: str, expected: str, column: str, found: str | None
) -> None:
    with pytest.raises(SchemaMismatch) as caught:
        with_schemas(delivered, expected).build()
    error = caught.value
    assert (error.source, error.target, error.column, error.found) == ("a", "b", column, found)


def test_a_sink_may_ask_for_columns_too() -> None:
    with pytest.raises(SchemaMismatch):
        DagBuilder().source("a", schema="x INT").sink("a", input_schema="x STRING").build()


def test_a_branch_may_have_schemas_too() -> None:
    builder = DagBuilder().source("a", schema="x INT")
    builder.fan_out("a", lambda b: b.branch("b", schema="y INT", input_schema="x BIGINT"))
    with pytest.raises(SchemaMismatch):
        builder.build()


def test_schema_text_is_read_at_once() -> None:
    with pytest.raises(InvalidSchema):
        DagBuilder().source("a", schema="x INTT")


def test_what_is_said_of_checkpoints_goes_with_the_dag() -> None:
    config = laminar.DagCheckpointConfig(retained=5)
    builder = DagBuilder().source("s").operator("a", "SELECT 1").connect("s", "a")
    plain = builder.build()
    assert plain.checkpoint_config is None
    made = builder.checkpoint_config(config).build()
    assert made.checkpoint_config is config
    assert made == plain  # it is about the database, not about the topology
