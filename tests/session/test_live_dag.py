"""The DAG of a database: sinks, columns and kinds of its nodes; what a builder says is heeded."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import laminar
from laminar import DagBuilder, DagCheckpointConfig, DagNodeType, MvState, Schema
from laminar.runtime.relations.bindings import Bindings


class Queue:
    """A source that hears how far it was read, and may fail to."""

    append_only = True

    def __init__(self, total: int = 9, per_poll: int = 3) -> None:
        self.total, self.per_poll = total, per_poll
        self.heard: list[int] = []
        self.fails = False
        self.on_heard: Callable[[int], object] = lambda _end: None

    def latest_offset(self, start: Any) -> Any:
        end = min((start or 0) + self.per_poll, self.total)
        return end if end > (start or 0) else None

    def read_arrow(self, start: Any, end: Any) -> pa.Table:
        return pa.table({"n": pa.array(range(start or 0, end), pa.int64())})

    def read(self, *_: Any) -> Any:
        raise AssertionError("Arrow is enough")

    def acknowledge(self, end: Any) -> None:
        if self.fails:
            raise ConnectionError("the queue is away")
        self.heard.append(end)
        self.on_heard(end)


def double(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("n * 2 AS n")


def built(source: Any, written: list[Any]) -> laminar.StreamingDag:
    return (
        DagBuilder()
        .source("s", source, schema="n BIGINT")
        .operator("twice", double)
        .connect("s", "twice")
        .operator("total", "SELECT SUM(n) AS n FROM twice")
        .connect("twice", "total")
        .sink("out", lambda epoch, rows: written.append((epoch, rows.count())))
        .connect("total", "out")
        .checkpoint_config(DagCheckpointConfig(interval=None, retained=7, copies=True))
        .build()
    )


def test_a_connector_an_operator_and_a_sink_end_to_end(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source, written = Queue(), list[Any]()
    durable: list[tuple[int, int]] = []
    with laminar.connect(tmp_path, spark=spark) as db:

        def heard(end: int) -> None:
            # Nobody has a turn or a lock: it may ask, and what it hears of is committed.
            offsets = db.engine.ledger.timeline.store.latest().offsets  # type: ignore[union-attr]
            durable.append((end, offsets["s"]))
            assert not db.engine.ledger.turn.is_inside

        source.on_heard = heard
        db.run(built(source, written))
        db.step()
        source.fails = True
        with caplog.at_level(logging.WARNING, "laminar.sources"):
            db.step()
        assert "the queue is away" in caplog.text
        source.fails = False
        db.drain()
        assert db.sql("SELECT n FROM total").rows() == [(72,)]
        assert written
        assert source.heard == sorted(set(source.heard))
        assert source.heard[-1] == 9
        assert all(end <= at for end, at in durable)

        dag = db.topology()
        kinds = {node.name: node.node_type for node in dag.nodes.values()}
        assert kinds == {
            "s": DagNodeType.SOURCE,
            "twice": DagNodeType.STATELESS_OPERATOR,
            "total": DagNodeType.MATERIALIZED_VIEW,
            "out": DagNodeType.SINK,
        }
        assert dag.node("twice").output_schema == Schema.parse("n BIGINT")
        assert dag.node("out").input_schema == Schema.parse("n BIGINT")
        assert dag.dependency_map()["out"] == ("total",)
        assert db.engine.defined.catalog.dag.nodes.keys() < dag.nodes.keys()
        settings = db.engine.defined.settings
        assert [settings.number(f"checkpoint_{each}") for each in ("interval_ms", "retained")] == [
            0,
            7,
        ]
        assert settings.is_on("checkpoint_copies")
        counted = db.metrics()
        assert counted.events_per_node["twice"] == 9
        assert counted.events_processed >= 12
    # A restart: what was committed is said once more, then only what is new.
    again = Queue(total=12)
    with laminar.connect(tmp_path, spark=spark) as db:
        db.run(built(again, written))
        db.drain()
    assert again.heard[-1] == 12


def test_columns_that_do_not_fit_are_refused_as_they_are_now(
    spark: SparkSession, tmp_path: Path
) -> None:
    with laminar.connect(tmp_path, spark=spark) as db:
        db.execute("CREATE TABLE t (k STRING)")
        wrong = (
            DagBuilder()
            .source("t")
            .operator("v", "SELECT k FROM t", input_schema="k BIGINT")
            .connect("t", "v")
            .build()
        )
        with pytest.raises(laminar.SchemaMismatch, match='"k"'):
            db.run(wrong)
        other = (
            DagBuilder()
            .source("t")
            .operator("v", "SELECT k FROM t", schema="k BIGINT")
            .connect("t", "v")
            .build()
        )
        with pytest.raises(laminar.SchemaMismatch):
            db.run(other)
        assert [node.name for node in db.topology().nodes.values()] == ["t"]


def test_a_source_of_a_dag_may_take_rows_back(spark: SparkSession, tmp_path: Path) -> None:
    class Undoing(Queue):
        append_only = False

        def read_arrow(self, start: Any, end: Any) -> pa.Table:
            """Deliver a row, and take it back two later."""
            numbers = range(start or 0, end)
            come = [(n, 1) for n in numbers] + [(n - 2, -1) for n in numbers if n >= 2]
            columns = ([each[at] for each in come] for at in (0, 1))
            return pa.table(dict(zip(("n", "__weight"), columns, strict=True)))

    with laminar.connect(tmp_path, spark=spark) as db:
        db.run(built(Undoing(), []))
        db.drain()
        assert sorted(db.sql("SELECT n FROM s").rows()) == [(7,), (8,)]
        assert db.sql("SELECT n FROM total").rows() == [(2 * (7 + 8),)]


def test_the_registry_says_which_views_fail(spark: SparkSession, tmp_path: Path) -> None:
    def state(db: Any) -> MvState:
        found: MvState = db.engine.defined.catalog.registry.view("v").state
        return found

    with laminar.connect(tmp_path, spark=spark) as db:
        db.execute("CREATE TABLE t (n INT); CREATE MATERIALIZED VIEW v AS SELECT 1 / n AS x FROM t")
        assert state(db) is MvState.RUNNING
        db.insert("t", [(0,)])
        with pytest.raises(laminar.OperatorError):
            db.step()
        assert state(db) is MvState.ERROR
    with laminar.connect(tmp_path, spark=spark) as db:
        assert state(db) is MvState.ERROR
        db.execute("PAUSE MATERIALIZED VIEW v")
        assert state(db) is MvState.PAUSED
        db.delete("t", [(0,)])
        db.step()
        db.execute("RESUME MATERIALIZED VIEW v")
        db.drain()
        assert state(db) is MvState.RUNNING


def test_a_shared_stage_that_costs_something_is_computed_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is cached is what readers read: it is in memory when the last of them lets go of it."""
    loaded: list[tuple[str, bool]] = []
    unshare = Bindings.unshare

    def watched(bindings: Bindings, name: str) -> None:
        for frame in [f for key, f in bindings._shared.items() if key.startswith(name)]:
            plan = frame.select("*")._jdf.queryExecution().withCachedData()
            (leaf,) = (plan.collectLeaves().apply(at) for at in range(plan.collectLeaves().size()))
            loaded.append((name, leaf.cacheBuilder().isCachedColumnBuffersLoaded()))
        unshare(bindings, name)

    monkeypatch.setattr(Bindings, "unshare", watched)
    with laminar.connect(tmp_path, spark=spark) as db:
        db.execute("""
            CREATE TABLE t (k INT, v STRING);
            CREATE MATERIALIZED VIEW dear AS SELECT k, UPPER(v) AS v FROM t;
            CREATE MATERIALIZED VIEW cheap AS SELECT k FROM t WHERE k > 0;
            CREATE MATERIALIZED VIEW a AS SELECT v, COUNT(*) AS n FROM dear GROUP BY v;
            CREATE MATERIALIZED VIEW b AS SELECT x.k FROM dear x JOIN t ON x.k = t.k;
            CREATE MATERIALIZED VIEW c AS SELECT COUNT(*) AS n FROM cheap;
            CREATE MATERIALIZED VIEW d AS SELECT k, SUM(k) AS n FROM cheap GROUP BY k;
        """)
        for number in range(3):
            db.insert("t", [(number, "x")])
            db.step()
        lines = [line for (line,) in db.execute("EXPLAIN DAG").rows()]
        assert "Stage dear: its delta is computed once, for all of its readers" in lines
        said = "Stage cheap: computed by each of its readers, which is cheaper than keeping it"
        assert said in lines
        assert {"dear", "t"} <= set(db.metrics().shared_stages)
        assert db.metrics().shared_stages["dear"] == {"a": 3, "b": 3}
    assert loaded == [("dear", True)] * 3


def test_other_sql_for_a_view_that_is_there_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    def with_total(sql: str) -> laminar.StreamingDag:
        nodes = DagBuilder().source("s", Queue(), schema="n BIGINT").operator("total", sql)
        return nodes.connect("s", "total").build()

    with laminar.connect(tmp_path, spark=spark) as db:
        db.run(with_total("SELECT SUM(n) AS n FROM s"))
        db.run(with_total("SELECT  SUM(n) AS n\nFROM s"))
        with pytest.raises(laminar.NotSupported, match='another definition of "total"'):
            db.run(with_total("SELECT MAX(n) AS n FROM s"))
        db.drain()
        assert db.sql("SELECT n FROM total").rows() == [(36,)]
