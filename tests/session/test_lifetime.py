"""Opening, closing, and what is still there afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import laminar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_everything_is_there_after_opening_again(spark: SparkSession, tmp_path: Path) -> None:
    with laminar.connect(tmp_path, spark=spark) as db:
        db.execute(
            "CREATE TABLE t (k STRING, n BIGINT NOT NULL);"
            "CREATE MATERIALIZED VIEW p AS SELECT k, n * 2 AS n FROM t;"
            "CREATE MATERIALIZED VIEW s AS SELECT k, SUM(n) AS n FROM p GROUP BY k;"
            "CREATE MATERIALIZED VIEW held AS SELECT COUNT(*) AS n FROM t"
        )
        db.insert("t", [("a", 1), ("b", 2)])
        db.step()
        db.execute("PAUSE MATERIALIZED VIEW held")
        db.insert("t", [("a", 10)])
        db.delete("t", [("b", 2)])
    with laminar.connect(str(tmp_path), spark=spark) as db:
        found = db.sql("SELECT * FROM s")
        assert (found.epoch, sorted(found.rows())) == (1, [("a", 2), ("b", 4)])
        report = db.step()
        assert report is not None
        assert (report.epoch, report.rows_in) == (2, 2)
        assert db.sql("SELECT * FROM s").rows() == [("a", 22)]
        assert db.sql("SELECT * FROM p AS OF EPOCH 1 ORDER BY n").rows() == [("a", 2), ("b", 4)]
        assert db.sql("SELECT * FROM held").rows() == [(2,)]
        db.execute("RESUME MATERIALIZED VIEW held")
        assert db.sql("SELECT * FROM held").rows() == [(2,)]
        with pytest.raises(laminar.RowDoesNotMatch):
            db.insert("t", [("c", None)])
    with laminar.connect(tmp_path, spark=spark) as db:
        assert db.step() is None
        assert db.sql("SELECT * FROM s").rows() == [("a", 22)]


def test_a_temporary_database_leaves_nothing_behind(spark: SparkSession) -> None:
    with laminar.connect(spark=spark) as db:
        db.execute("CREATE TABLE t (n BIGINT)")
        db.insert("t", [(1,)])
        folder = db.path
        assert folder.is_dir()
    assert not folder.exists()
    for use in (
        lambda: db.insert("t", [(1,)]),
        lambda: db.delete("t", [(1,)]),
        lambda: db.execute("SELECT 1"),
        lambda: db.sql("SELECT 1"),
        db.step,
        db.drain,
    ):
        with pytest.raises(laminar.DatabaseClosed):
            use()
    db.close()
    assert not folder.exists()


def test_a_folder_that_cannot_be_is_an_error_of_ours(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    for path in (file, file / "below"):
        with pytest.raises(laminar.StoreUnwritable, match="LMR-6006"):
            laminar.connect(path, spark=spark)


def test_two_databases_do_not_mix(spark: SparkSession, tmp_path: Path) -> None:
    with (
        laminar.connect(tmp_path / "a", spark=spark) as a,
        laminar.connect(tmp_path / "b", spark=spark) as b,
    ):
        a.execute(
            "CREATE TABLE t (n BIGINT); CREATE MATERIALIZED VIEW v AS SELECT SUM(n) AS n FROM t"
        )
        b.execute(
            "CREATE TABLE t (n STRING); CREATE MATERIALIZED VIEW v AS SELECT MAX(n) AS n FROM t"
        )
        a.insert("t", [(1,), (2,)])
        b.insert("t", [("x",)])
        a.step()
        assert (a.sql("SELECT * FROM v").rows(), b.sql("SELECT * FROM v").rows()) == (
            [(3,)],
            [(None,)],
        )
        b.step()
        assert (a.sql("SELECT * FROM v").rows(), b.sql("SELECT * FROM v").rows()) == (
            [(3,)],
            [("x",)],
        )
    assert not spark.catalog.tableExists("t")
    assert not spark.catalog.tableExists("v")


def test_a_process_may_change_its_directory(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with laminar.connect("state", spark=spark) as db:
        db.execute("SET laminar.retained_epochs = 1; SET laminar.compaction_fanout = 2")
        db.execute("CREATE TABLE t (n BIGINT); CREATE MATERIALIZED VIEW v AS SELECT n FROM t")
        monkeypatch.chdir(tmp_path / "there")
        for n in range(5):
            db.insert("t", [(n,)])
            db.step()
        db.engine.settle()
        db.restore(db.checkpoint())
        assert len(db.sql("SELECT * FROM v").rows()) == 5
    assert list((tmp_path / "there").iterdir()) == []
    assert [each.name for each in (tmp_path / "here").iterdir()] == ["state"]
