"""Rows of a source are counted where they go, durably, and once: whatever crashes in between."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

import laminar
from laminar.errors import SourceGap
from laminar.model.row_counts import RowCounts
from laminar.store import Range, durable_files
from laminar.testing.counted import counts
from laminar.testing.crashes import Crash, crash_at

from .numbers_source import MADE, declared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from laminar.runtime.ingest.connector_inlet import SourceInlet

pytestmark = pytest.mark.spark
EVERY = 1 if os.environ.get("LAMINAR_TESTS") == "all" else 9


def held(db: laminar.Database, table: str) -> list[int]:
    return sorted(n for (n,) in db.sql(f"SELECT n FROM {table}").rows())


def test_rows_that_come_in_are_counted_and_it_lasts(spark: SparkSession, tmp_path: Path) -> None:
    with laminar.connect(tmp_path, spark=spark) as db:
        db.execute(
            declared("s", total=25)
            + ";CREATE TABLE t (n BIGINT); CREATE SOURCE k (n BIGINT, v INT, PRIMARY KEY (n))"
        )
        db.insert("t", [(1,), (2,)])
        db.insert("k", [(1, 1), (1, 2), (2, 1)])
        assert counts(db)["t"] == RowCounts(0, 0)
        db.drain()
        db.delete("t", [(1,)])
        db.drain()
        assert counts(db) == {
            "s": RowCounts(25, 25),
            "t": RowCounts(3, 3),
            "k": RowCounts(2, 2),
        }
        db.execute("DROP TABLE t; CREATE TABLE t (n BIGINT)")
        assert counts(db)["t"] == RowCounts(0, 0)
        kept = db.checkpoint()
        db.insert("t", [(1,)])
        db.step()
    with laminar.connect(tmp_path, spark=spark) as db:
        assert counts(db)["s"].read == 25
        assert counts(db)["t"].read == 1
        db.restore(kept)
        assert counts(db)["t"].read == 0
    with laminar.connect(tmp_path, spark=spark, read_only=True) as db:
        assert counts(db)["s"].read == 25


def test_what_is_not_used_is_read_and_what_lies_ahead_is_late(
    spark: SparkSession, tmp_path: Path
) -> None:
    with laminar.connect(tmp_path, spark=spark) as db:
        db.execute(
            declared("s", total=20, retain="used")
            + ";CREATE MATERIALIZED VIEW v AS SELECT n FROM s WHERE n < 5;"
            "CREATE SOURCE f (n BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts)"
        )
        db.insert("f", [(1, "2020-01-01 00:00:00"), (2, "2999-01-01 00:00:00")])
        db.drain()
        assert held(db, "v") == [0, 1, 2, 3, 4]
        assert counts(db) == {"s": RowCounts(20, 20), "f": RowCounts(2, 1, late=1)}


@pytest.mark.parametrize("strategy", ["pause", "drop", "spill"])
def test_a_crash_at_any_point_changes_no_count(
    strategy: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that were dropped before a crash are dropped after it, or read after all."""
    state, total = tmp_path / "state", 400
    with laminar.connect(state, spark=spark) as db:
        db.execute(
            declared("s", total=0, backpressure=strategy, buffer_rows=30, max_rows=10)
            + ";CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n, SUM(n) AS t FROM s"
        )

    def poll(db: laminar.Database, upto: int) -> None:
        """Poll as the loop does, while no epoch takes anything."""
        MADE["s"].total = upto
        inlets = db.engine.work.inlets
        inlets.running = True
        try:
            cast("SourceInlet", inlets.ways.of("s"))._keep_polling()
        finally:
            inlets.running = False

    def cycle(db: laminar.Database) -> None:
        poll(db, total - 20)
        db.step()
        poll(db, total)
        db.step()
        db.step()

    seen: list[str] = []
    points, at = ["none"], 0
    dropped = 0
    while at < len(points):
        db = laminar.connect(state, spark=spark)
        try:
            now = counts(db)["s"]
            read, stored, gone = now.read, now.stored, now.dropped
            rows = held(db, "s")
            assert len(rows) == len(set(rows)) == stored
            assert gone >= dropped
            dropped = gone
            if strategy != "drop":
                assert rows == list(range(read))
            else:
                end = db.engine.ledger.manifest.offsets.get("s") or 0
                assert (read, sorted(rows)) == (end, rows)
            if at == 0:
                with monkeypatch.context() as patch:
                    patch.setattr(durable_files, "failpoint", seen.append)
                    cycle(db)
                points += list(dict.fromkeys(seen))[::EVERY]
            else:
                total += 60
                with monkeypatch.context() as patch:
                    patch.setattr(durable_files, "failpoint", crash_at(points[at]))
                    with suppress(Crash):
                        cycle(db)
        finally:
            db.close()
        at += 1
    assert at > 2
    with laminar.connect(state, spark=spark) as db:
        MADE["s"].total = total
        db.drain()
        now = counts(db)["s"]
        read, stored, gone = now.read, now.stored, now.dropped
        assert read == total
        assert stored == len(held(db, "s"))
        assert (gone > 0) == (strategy == "drop")


def test_a_range_that_does_not_follow_commits_nothing(spark: SparkSession, tmp_path: Path) -> None:
    with laminar.connect(tmp_path, spark=spark) as db:
        db.execute(declared("s", total=30) + ";" + declared("o", total=30))
        db.step()
        before = db.engine.ledger.manifest
        for start, end in ((0, 10), (5, 20), (15, 20), (None, 10)):
            with pytest.raises(SourceGap):
                db.engine.work.runner.run([Range("o", 10, 20), Range("s", start, end)])
            assert db.engine.ledger.manifest == before
            assert not db.engine.has_logged()
        db.drain()
        assert held(db, "s") == held(db, "o") == list(range(30))


def test_a_logged_range_that_does_not_follow_is_not_replayed(
    spark: SparkSession, tmp_path: Path
) -> None:
    with laminar.connect(tmp_path, spark=spark) as db:
        db.execute(declared("s", total=10))
        db.step()
        db.engine.ledger.wal.begin(2, [Range("s", 0, 10)])
    with laminar.connect(tmp_path, spark=spark) as db:
        assert held(db, "s") == list(range(10))
        MADE["s"].total = 30
        db.drain()
        assert held(db, "s") == list(range(30))
        assert counts(db)["s"] == RowCounts(30, 30)
