"""`laminar_system`: every relation of it, from parts without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from laminar.delta.program import Shape
from laminar.runtime.catalog.settings import SETTINGS
from laminar.runtime.introspection.metrics import GroupMetrics, collect_metrics
from laminar.runtime.introspection.system import TABLES
from laminar.runtime.introspection.system.node_position import epoch_of, wave_of
from laminar.runtime.introspection.system.table import SystemTable, columns
from laminar.runtime.introspection.system.views import states_of

from ..parts import START
from .itself import Itself


@pytest.fixture
def itself(tmp_path: Path) -> Iterator[Any]:
    made = Itself(tmp_path)
    yield made
    made.ledger.close()


def rows(itself: Any, name: str) -> list[dict[str, Any]]:
    """Return the rows of a table by name of column."""
    table = TABLES[name]
    names = [column for column, _ in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows(itself, itself.snapshot())]


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_table_has_a_value_of_its_type_for_every_column(itself: Any, name: str) -> None:
    found = TABLES[name].arrow(itself, itself.snapshot())
    assert found.column_names == [column for column, _ in TABLES[name].columns]
    assert found.num_rows > 0 or name == "late_rows"
    assert TABLES[name].shape.name == f"laminar_system.{name}"


def test_columns_are_read_from_a_text() -> None:
    text = "name string, options map<string,string>,\n at timestamp"
    found = columns(text.replace(",\n", ", "))
    assert found == (("name", "string"), ("options", "map<string,string>"), ("at", "timestamp"))
    table = SystemTable("x", found, lambda *_: [("a", [("k", "v")], START)])
    assert table.shape == Shape(
        "laminar_system.x", ("name", "options", "at"), tuple(kind for _, kind in found)
    )


def test_views_say_where_they_stand_and_why(itself: Any) -> None:
    found = {row["name"]: row for row in rows(itself, "materialized_views")}
    states = {name: (row["state"], row["state_reason"]) for name, row in found.items()}
    assert states == {
        "b": ("held", "waits for c (backing off: 1 / 0)"),
        "c": ("failing", "1 / 0"),
        "d": ("held", "waits for c (backing off: 1 / 0)"),
        "e": ("scheduled", "due at 2026-01-01T01:00:00+00:00"),
        "f": ("running", None),
        "w": ("running", None),
        "missed": ("running", None),
    }
    assert states == states_of(itself)
    assert (found["d"]["epoch"], found["d"]["staleness"], found["f"]["staleness"]) == (1, 1, 0)
    assert (found["d"]["group_id"], found["e"]["group_id"]) == (1, None)
    assert found["f"]["reason"] == "REQUESTED: refresh_policy is full"
    assert found["c"]["reads"] == ["t"]
    assert found["c"]["storage"] == "fused into what reads it"
    assert found["missed"]["definition"] is None


def test_a_view_that_failed_and_may_be_tried_again_is_failing(itself: Any) -> None:
    itself.parts.clock.advance(1)
    assert states_of(itself)["c"] == ("failing", "1 / 0")
    itself.parts.pause("c")
    assert states_of(itself)["c"] == ("paused", "paused")


def test_what_epochs_did_is_told_by_view(itself: Any) -> None:
    found = [
        (row["epoch"], row["view"], row["outcome"], row["rows_out"], row["reason"])
        for row in rows(itself, "refresh_history")
    ]
    assert found == [(2, "f", "committed", 4, None), (2, "c", "failed", None, "failed: 1 / 0")]
    epochs = [(row["epoch"], row["rows_in"], row["stored_rows"]) for row in rows(itself, "epochs")]
    assert epochs == [(1, None, 0), (2, 7, 7)]


def test_the_dag_as_relations(itself: Any) -> None:
    nodes = {row["name"]: row for row in rows(itself, "dag_topology")}
    assert nodes["d"]["inputs"] == ["b", "c"]
    assert nodes["d"]["outputs"] == ["k"]  # a sink
    assert nodes["t"]["outputs"] == ["b", "c", "w", "missed"]
    assert (nodes["t"]["is_shared"], nodes["t"]["consumers"]) == (True, 4)
    assert [nodes[name]["wave"] for name in ("t", "b", "d", "k")] == [0, 1, 2, 3]
    edges = {(row["source"], row["target"]): row["cursor"] for row in rows(itself, "dag_edges")}
    assert (edges[("b", "d")], edges[("names", "f")], edges[("d", "k")]) == (1, 2, None)
    assert len({row["edge_id"] for row in rows(itself, "dag_edges")}) == len(edges)
    groups = [row for row in rows(itself, "diamond_groups") if row["group_id"] == 1]
    assert [(row["member"], row["is_convergence"], row["cursor"]) for row in groups] == [
        ("b", False, 1),
        ("c", False, 1),
        ("d", True, 1),
    ]
    assert {row["reason"] for row in groups} == {"waits for c (backing off: 1 / 0)"}


def test_where_a_node_stands(itself: Any) -> None:
    snapshot = itself.snapshot()
    assert (epoch_of("d", snapshot), epoch_of("f", snapshot), epoch_of("t", snapshot)) == (1, 2, 2)
    dag = snapshot.catalog.dag
    waves = {dag.nodes[node].name: wave for node, wave in wave_of(dag).items()}
    assert (waves["t"], waves["b"], waves["d"]) == (0, 1, 2)


def test_where_rows_come_from_and_go(itself: Any) -> None:
    sources = {row["name"]: row for row in rows(itself, "sources")}
    assert (sources["t"]["kind"], sources["names"]["kind"]) == ("source", "table")
    assert (sources["names"]["position"], sources["names"]["primary_key"]) == ("1", ["k"])
    assert sources["t"]["position"] is None
    assert sources["names"]["pending_rows"] == 0
    marks = {
        row["name"]: (row["node_type"], row["watermark"]) for row in rows(itself, "watermarks")
    }
    assert marks["t"] == ("Source", 60_000_000)
    assert marks["w"] == ("MaterializedView", 60_000_000)
    (sink,) = rows(itself, "sinks")
    assert (sink["name"], sink["relation"], sink["cursor"], sink["lag"]) == ("k", "d", None, None)
    assert dict(sink["options"]) == {"token": "***", "path": "x"}
    subscriptions = [
        (row["name"], row["relation"], row["cursor"], row["lag"], row["is_open"])
        for row in rows(itself, "subscriptions")
    ]
    assert subscriptions == [("mine", "f", 1, 1, False), (None, "b", 1, 1, True)]


def test_checkpoints_of_every_kind(itself: Any) -> None:
    found = {row["checkpoint_id"]: row for row in rows(itself, "checkpoints")}
    assert {number: row["status"] for number, row in found.items()} == {
        4: "complete",
        6: "under way",
        5: "failed",
    }
    assert (found[4]["duration_ms"], found[5]["error"]) == (250.0, "too slow")


def test_settings_with_their_defaults(itself: Any) -> None:
    found = rows(itself, "settings")
    assert [row["name"] for row in found] == [f"laminar.{name}" for name in SETTINGS]
    assert not any(row["is_set"] for row in found)
    assert all(row["value"] == row["default_value"] for row in found)


def test_counters(itself: Any) -> None:
    found = collect_metrics(itself)
    assert (found.epoch, found.segments, found.stored_rows, found.late_rows) == (2, 3, 7, {"w": 3})
    assert found.groups["b, c, d"] == GroupMetrics(1, 1, 0, 0, 0)
    assert (found.checkpoints.completed, found.checkpoints.last_epoch) == (1, 1)
    assert found.bridges["t"].sent == 9
    told = {(row["name"], row["node"]): row["value"] for row in rows(itself, "metrics")}
    assert told[("stored_rows", None)] == 7.0
    assert told[("group_age", "b, c, d")] == 1.0
    assert told[("bridge_sent", "t")] == 9.0
    assert told[("late_rows", "w")] == 3.0
