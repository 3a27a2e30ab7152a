"""Epochs: their numbers, their reports, reading older ones, and each shared stage once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

import laminar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def test_epochs_count_changes_of_data_only(db: laminar.Database) -> None:
    seen: list[laminar.EpochReport] = []
    db.on_epoch(seen.append)
    assert db.sql("SELECT 1").epoch == 0
    assert db.step() is None
    db.execute("CREATE TABLE t (k STRING, n BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW s AS SELECT k, SUM(n) AS n FROM t GROUP BY k")
    db.execute("CREATE MATERIALIZED VIEW untouched AS SELECT 1 AS one")
    assert db.sql("SELECT 1").epoch == 0
    db.insert("t", [("a", 1), ("a", 2)])
    db.insert("t", [("b", 3)])
    report = db.step()
    assert report is not None
    assert (report.epoch, report.rows_in) == (1, 3)
    assert report.duration_ms > 0
    assert set(report.views) == {"s"}
    assert report.views["s"].strategy == "incremental"
    assert 0 < report.views["s"].duration_ms <= report.duration_ms
    assert db.step() is None
    assert db.drain() is None
    db.insert("t", [("c", 4)])
    last = db.drain()
    assert last is not None
    assert last.epoch == 2
    assert [each.epoch for each in seen] == [1, 2]
    assert db.metrics().epoch == 2


def test_a_report_says_how_many_rows_of_a_view_changed(db: laminar.Database) -> None:
    db.execute("CREATE TABLE t (k STRING, n BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW s AS SELECT k, SUM(n) AS n FROM t GROUP BY k")
    db.insert("t", [("a", 1), ("b", 2)])
    report = db.step()
    assert report is not None
    assert report.views["s"].rows_out == 2


def test_a_source_is_drained_in_several_epochs(db: laminar.Database) -> None:
    db.execute(
        "CREATE SOURCE s (id BIGINT, v BIGINT)"
        " WITH (connector = 'datagen', rows_total = '25', rows_per_batch = '10');"
        "CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM s"
    )
    last = db.drain()
    assert last is not None
    assert (last.epoch, last.rows_in) == (3, 5)
    assert db.sql("SELECT * FROM n").rows() == [(25,)]
    with pytest.raises(laminar.NotSupported, match="datagen"):
        db.insert("s", [(1, 1)])


def test_an_older_epoch_can_be_read_again(db: laminar.Database) -> None:
    db.execute(
        "CREATE TABLE t (n BIGINT); CREATE MATERIALIZED VIEW s AS SELECT SUM(n) AS n FROM t;"
        "CREATE MATERIALIZED VIEW d AS SELECT n * 2 AS n FROM t"
    )
    for n in (1, 2, 3):
        db.insert("t", [(n,)])
        db.step()
    db.delete("t", [(1,)])
    db.step()
    old = db.sql("SELECT * FROM s AS OF EPOCH 2")
    assert (old.epoch, old.rows()) == (2, [(3,)])
    assert db.execute("SELECT * FROM s AS OF EPOCH 3").rows() == [(6,)]
    assert sorted(db.sql("SELECT * FROM d", as_of_epoch=2).rows()) == [(2,), (4,)]
    assert db.sql("SELECT n FROM t", as_of_epoch=0).rows() == []
    assert db.sql("SELECT * FROM s").rows() == [(5,)]
    with pytest.raises(laminar.EpochNotFound, match="LMR-6003"):
        db.sql("SELECT * FROM s AS OF EPOCH 9")
    with pytest.raises(laminar.NotSupported):
        db.sql("SELECT * FROM s AS OF EPOCH 2", as_of_epoch=1)


def persistent(spark: SparkSession) -> int:
    return len(spark.sparkContext._jsc.getPersistentRDDs())


def test_a_shared_stage_runs_once_and_is_let_go(db: laminar.Database, spark: SparkSession) -> None:
    db.execute(
        "CREATE TABLE raw (k STRING, n BIGINT);"
        "CREATE MATERIALIZED VIEW clean AS SELECT upper(k) AS k, n + 1 AS n FROM raw;"
        "CREATE MATERIALIZED VIEW total AS SELECT k, SUM(n) AS n FROM clean GROUP BY k;"
        "CREATE MATERIALIZED VIEW large AS SELECT * FROM clean WHERE n > 10;"
        "CREATE MATERIALIZED VIEW top AS SELECT MAX(n) AS n FROM clean"
    )
    before = persistent(spark)
    for n in (1, 10, 20):
        db.insert("raw", [("a", n), ("b", n)])
        db.step()
        assert persistent(spark) == before
    metrics = db.metrics()
    assert {name: node.executions for name, node in metrics.nodes.items()} == {
        "clean": 3,
        "total": 3,
        "large": 3,
        "top": 3,
    }
    assert metrics.multicast_publishes == 3
    assert sorted(db.sql("SELECT * FROM total").rows()) == [("A", 34), ("B", 34)]
    assert len(db.sql("SELECT * FROM large").rows()) == 4
    assert db.sql("SELECT * FROM top").rows() == [(21,)]


def test_a_shared_operator_sees_each_row_once(
    db: laminar.Database, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql.functions import udf

    monkeypatch.setattr(spark.sparkContext, "pythonExec", sys.executable)

    seen = spark.sparkContext.accumulator(0)

    def count(value: Any) -> Any:
        seen.add(1)
        return value + 1

    count.__annotations__.clear()  # PySpark would take them for the hints of a pandas function
    counted = udf(count, "BIGINT")

    def normalize(rows: DataFrame) -> DataFrame:
        return rows.select(counted("n").alias("n"))

    db.execute("CREATE TABLE raw (n BIGINT)")
    dag = (
        laminar.DagBuilder()
        .source("raw")
        .operator("normalize", normalize, schema="n BIGINT")
        .connect("raw", "normalize")
        .fan_out(
            "normalize",
            lambda b: b.branch("total", "SELECT SUM(n) AS n FROM normalize").branch(
                "top", "SELECT MAX(n) AS n FROM normalize"
            ),
        )
        .build()
    )
    db.run(dag)
    db.insert("raw", [(each,) for each in range(7)])
    db.step()
    assert seen.value == 7
    assert db.sql("SELECT total.n, top.n FROM total CROSS JOIN top").rows() == [(28, 7)]
