"""DAGs that are built in Python: functions, stateful operators, sinks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar import DagBuilder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

TRADES = "id INT, symbol STRING, volume INT"


class Dedup:
    """Lets each id pass once."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def process(self, delta: DataFrame, ctx: Any) -> DataFrame:
        kept = []
        for row in delta.collect():
            if row["volume"] < 0:
                raise ValueError("negative volume")
            if row["id"] not in self.seen:
                self.seen.add(row["id"])
                kept.append(row)
        made: DataFrame = ctx.spark.createDataFrame(kept, delta.schema)
        return made

    def snapshot(self) -> bytes:
        return json.dumps(sorted(self.seen)).encode()

    def restore(self, state: bytes) -> None:
        self.seen = set(json.loads(state))


def double(df: DataFrame) -> DataFrame:
    return df.selectExpr("symbol", "volume * 2 AS volume")


def build(sink: Any, dedup: Any = None) -> laminar.StreamingDag:
    return (
        DagBuilder()
        .source("trades", schema=TRADES)
        .operator("dedup", dedup or Dedup(), schema=TRADES)
        .connect("trades", "dedup")
        .operator("doubled", double)
        .connect("dedup", "doubled")
        .fan_out(
            "doubled",
            lambda b: b.branch(
                "totals", "SELECT symbol, SUM(volume) AS v FROM doubled GROUP BY symbol"
            ).branch("large", "SELECT * FROM doubled WHERE volume > 10"),
        )
        .sink("totals_out", sink)
        .connect("totals", "totals_out")
        .build()
    )


def test_a_dag_of_operators_runs_and_feeds_its_sink(spark: SparkSession) -> None:
    seen: list[tuple[int, list[Any]]] = []

    def sink(epoch: int, delta: DataFrame) -> None:
        seen.append((epoch, sorted(tuple(row) for row in delta.collect())))

    with laminar.connect(spark=spark) as db:
        db.run(build(sink))
        db.insert("trades", [(1, "a", 3), (2, "b", 7), (1, "a", 3)])
        db.step()
        db.insert("trades", [(2, "b", 7), (3, "a", 1)])
        db.step()
        assert sorted(db.sql("SELECT * FROM totals").rows()) == [("a", 8), ("b", 14)]
        assert db.sql("SELECT * FROM large").rows() == [("b", 14)]
    assert seen == [(1, [("a", 6, 1), ("b", 14, 1)]), (2, [("a", 6, -1), ("a", 8, 1)])]


def test_state_survives_a_restart_and_must_be_given_its_operator(
    spark: SparkSession, tmp_path: Path
) -> None:
    with laminar.connect(tmp_path, spark=spark) as db:
        db.run(build(lambda _epoch, _delta: None))
        db.insert("trades", [(1, "a", 3)])
        db.step()
    with laminar.connect(tmp_path, spark=spark) as db:
        db.insert("trades", [(1, "a", 3), (2, "b", 1)])
        with pytest.raises(laminar.OperatorNotFound):
            db.step()
        db.run(build(lambda _epoch, _delta: None))
        db.step()
        assert sorted(db.sql("SELECT id FROM dedup").rows()) == [(1,), (2,)]


def test_an_operator_that_raises_loses_nothing(spark: SparkSession) -> None:
    dedup = Dedup()
    with laminar.connect(spark=spark) as db:
        db.run(build(lambda _epoch, _delta: None, dedup))
        db.insert("trades", [(1, "a", 3)])
        db.step()
        db.insert("trades", [(5, "a", 1), (6, "b", -1)])
        with pytest.raises(laminar.OperatorError, match="dedup") as raised:
            db.step()
        assert "negative volume" in raised.value.detail
        assert dedup.seen == {1}, "the state of the failed try is taken back"
        assert db.sql("SELECT * FROM totals").rows() == [("a", 6)]
        db.delete("trades", [(6, "b", -1)])
        db.step()
        assert db.sql("SELECT * FROM totals").rows() == [("a", 8)]


def test_a_linear_function_takes_retractions(spark: SparkSession) -> None:
    dag = (
        DagBuilder()
        .source("trades", schema=TRADES)
        .operator("doubled", double)
        .connect("trades", "doubled")
        .build()
    )
    with laminar.connect(spark=spark) as db:
        db.run(dag)
        db.insert("trades", [(1, "a", 3), (2, "a", 3), (3, "b", 4)])
        db.step()
        db.delete("trades", [(1, "a", 3)])
        db.insert("trades", [(4, "c", 5)])
        db.step()
        assert sorted(db.sql("SELECT * FROM doubled").rows()) == [("a", 6), ("b", 8), ("c", 10)]


@pytest.mark.parametrize(
    ("dag", "error"),
    [
        (
            DagBuilder().source("s").operator("o", "SELECT 1").connect("s", "o"),
            laminar.InvalidSchema,
        ),
        (
            DagBuilder().source("s", schema="a INT").operator("o", Dedup()).connect("s", "o"),
            laminar.InvalidSchema,
        ),
        (
            DagBuilder()
            .source("s", schema="a INT")
            .operator("o", "SELECT * FROM elsewhere")
            .connect("s", "o"),
            laminar.InvalidSchema,
        ),
        (
            DagBuilder().source("s", object(), schema="a INT").sink("k", print).connect("s", "k"),
            laminar.InvalidOperator,
        ),
        (
            DagBuilder()
            .source("s", schema="a INT")
            .operator("o", "SELECT * FROM s")
            .connect("s", "o", partitioning=laminar.HashBy("a")),
            laminar.NotSupported,
        ),
        (
            DagBuilder()
            .source("s", schema="a INT")
            .operator("o", "SELECT * FROM s")
            .connect("s", "o", source_port=1),
            laminar.NotSupported,
        ),
    ],
    ids=[
        "no schema",
        "no output schema",
        "not connected",
        "not a connector",
        "partitioning",
        "output port",
    ],
)
def test_a_dag_that_cannot_run_is_refused(
    spark: SparkSession, dag: DagBuilder, error: type[laminar.LaminarError]
) -> None:
    with laminar.connect(spark=spark) as db, pytest.raises(error):
        db.run(dag.build())


@pytest.mark.spark
def test_edges_place_rows(spark: SparkSession) -> None:
    """Each row is handed on with the partition it arrived in, and the number of partitions."""
    ways = {
        "single": laminar.Single(),
        "dealt": laminar.RoundRobin(3),
        "hashed": laminar.HashBy("a % 2", 4),
        "own": laminar.Custom("p", 3),
    }

    def where(rows: DataFrame) -> DataFrame:
        partitions = rows.rdd.getNumPartitions()
        return rows.selectExpr("a", "p", "spark_partition_id() AS at", f"{partitions} AS n")

    builder = DagBuilder().source("s", schema="a INT, p INT")
    for name, way in ways.items():
        builder.operator(name, where, schema="a INT, p INT, at INT, n INT")
        builder.connect("s", name, partitioning=way)
    sunk: list[int] = []
    builder.sink("k", lambda _, rows: sunk.append(rows.rdd.getNumPartitions()))
    builder.connect("s", "k", partitioning=laminar.RoundRobin(5))
    with laminar.connect(spark=spark) as db:
        db.run(builder.build())
        db.insert("s", [(i, i % 3) for i in range(12)])
        db.step()
        found = {name: db.sql(f"SELECT * FROM {name}").rows() for name in ways}
    assert {name: {row[3] for row in rows} for name, rows in found.items()} == {
        "single": {1},
        "dealt": {3},
        "hashed": {4},
        "own": {3},
    }
    assert {row[2] for row in found["dealt"]} == {0, 1, 2}
    places: dict[int, set[int]] = {}
    for a, _, at, _ in found["hashed"]:
        places.setdefault(a % 2, set()).add(at)
    assert all(len(each) == 1 for each in places.values())
    assert all(row[1] == row[2] for row in found["own"])
    assert sunk == [5]


@pytest.mark.long
def test_names_may_hold_the_signs_of_parts_and_stay_apart(
    spark: SparkSession, tmp_path: Path
) -> None:
    total = "SELECT symbol, SUM(volume) + 1 AS v FROM {} GROUP BY symbol HAVING COUNT(*) > 1"
    builder = DagBuilder().source("t#b", schema=TRADES)
    for name in ("t", "t!b", "t#b!"):
        builder = builder.operator(name, total.format("`t#b`")).connect("t#b", name)
    with laminar.connect(tmp_path, spark=spark) as db:
        db.run(builder.build())
        db.insert("t#b", [(1, "a", 3), (2, "a", 3), (3, "b", 4)])
        db.step()
        traces = set(db.engine.ledger.manifest.traces)
        assert {"t#1!partial", "t!b#1!partial", "t#b!#1!partial"} <= traces
        db.execute("DROP MATERIALIZED VIEW t")
        assert not [name for name in db.engine.ledger.manifest.traces if name.startswith("t#1")]
    with laminar.connect(tmp_path, spark=spark) as db:
        db.delete("t#b", [(1, "a", 3)])
        db.insert("t#b", [(4, "b", 5)])
        db.step()
        for name in ("t!b", "t#b!"):
            assert db.sql(f"SELECT * FROM `{name}`").rows() == [("b", 10)]


@pytest.mark.parametrize("name", ["t#1", "t!partial", "t#2!pending", "t!late"])
def test_a_name_that_belongs_to_a_part_is_refused(spark: SparkSession, name: str) -> None:
    with laminar.connect(spark=spark) as db, pytest.raises(laminar.NotSupported, match="the name"):
        db.run(DagBuilder().source(name, schema=TRADES).operator("v").connect(name, "v").build())
