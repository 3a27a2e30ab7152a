"""Checkpoints of a running database: with epochs, on request, in the background."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import laminar
from laminar.runtime.catalog.settings import TimeSettings
from laminar.store import durable_files
from laminar.testing.clock import ManualClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_checkpoints_come_by_interval_and_on_request(spark: SparkSession, tmp_path: Path) -> None:
    clock = ManualClock(datetime(2026, 1, 1))
    with laminar.connect(tmp_path, spark=spark, settings=TimeSettings(clock=clock)) as db:
        db.execute(
            "CREATE TABLE t (n BIGINT);"
            "CREATE MATERIALIZED VIEW l AS SELECT n FROM t WHERE n > 1;"
            "CREATE MATERIALIZED VIEW r AS SELECT SUM(n) AS n FROM t;"
            "CREATE MATERIALIZED VIEW d AS SELECT l.n, r.n AS total FROM l CROSS JOIN r;"
        )
        first = db.checkpoint()
        assert first == 1
        for n in (1, 2):
            db.insert("t", [(n,)])
            db.step()
        assert [each.checkpoint_id for each in db.engine.work.checkpoints.complete] == [1]
        clock.advance(30)
        db.insert("t", [(3,)])
        db.step()
        db.engine.work.checkpoints.settle()
        found = db.sql(
            "SELECT checkpoint_id, epoch, status, trigger, nodes, new_files > 0, error"
            " FROM laminar_system.checkpoints ORDER BY 1"
        ).rows()
        assert found == [
            (1, 0, "complete", "manual", 4, True, None),
            (2, 3, "complete", "interval", 4, True, None),
        ]
        # Idle, nothing new: the next one waits until there is something to keep.
        clock.advance(30)
        assert db.step() is None
        db.engine.work.checkpoints.settle()
        assert len(db.engine.work.checkpoints.complete) == 2
        db.execute("SET laminar.checkpoint_interval_ms = 0; SET laminar.checkpoint_retained = 2")
        clock.advance(3600)
        db.insert("t", [(4,)])
        db.step()
        made = db.execute("CHECKPOINT").dicts()
        assert [(row["checkpoint_id"], row["epoch"]) for row in made] == [("3", "4")]
        shown = db.execute("SHOW CHECKPOINTS").dicts()
        assert [row["checkpoint_id"] for row in shown] == ["2", "3"]
        counted = db.metrics().checkpoints
        assert (counted.completed, counted.failed) == (2, 0)
        assert (counted.last_id, counted.last_epoch) == (3, 4)
        assert 0 < counted.last_new_bytes < counted.last_bytes
        assert db.topology().nodes.keys() == db.engine.work.executor.get().dag.nodes.keys()
    with laminar.connect(tmp_path, spark=spark) as db:
        assert db.execute("SHOW CHECKPOINTS").dicts()[-1]["checkpoint_id"] == "3"
        assert db.checkpoint() == 4


def test_one_that_fails_is_told_and_the_pipeline_goes_on(
    db: laminar.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.execute("CREATE TABLE t (n BIGINT); INSERT INTO t VALUES (1)")
    db.step()
    first = db.checkpoint()

    def full(point: str) -> None:
        if point == "checkpoint.before_files":
            raise OSError(28, "No space left on device")

    db.insert("t", [(2,)])
    db.step()
    with monkeypatch.context() as patch:
        patch.setattr(durable_files, "failpoint", full)
        with pytest.raises(laminar.StoreUnwritable, match="LMR-6006"):
            db.checkpoint()
    db.insert("t", [(3,)])
    db.step()
    rows = db.sql("SELECT checkpoint_id, status FROM laminar_system.checkpoints ORDER BY 1").rows()
    assert rows == [(first, "complete"), (first + 1, "failed")]
    assert db.checkpoint() == first + 2
    assert db.sql("SELECT SUM(n) FROM t").rows() == [(6,)]
