"""Sources that are read in parts: the slowest part that is not idle holds the watermark back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar.runtime.catalog.settings import TimeSettings
from laminar.testing import ManualClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Parted:
    """Batches of (x, second, part); an offset is how many batches were read."""

    append_only = True

    def __init__(self) -> None:
        self.batches: list[list[tuple[int, int, str]]] = []

    def latest_offset(self, start: Any) -> int | None:
        return len(self.batches) if len(self.batches) > (start or 0) else None

    def read(self, spark: SparkSession, start: Any, end: Any) -> DataFrame:
        rows = [
            (x, EPOCH + timedelta(seconds=second), part)
            for batch in self.batches[start or 0 : end]
            for x, second, part in batch
        ]
        return spark.createDataFrame(rows, "x INT, ts TIMESTAMP, __partition STRING")


@pytest.mark.long
@pytest.mark.parametrize("limit", [0, 500_000], ids=["written by Spark", "through Arrow"])
def test_the_slowest_part_counts(tmp_path: Path, spark: SparkSession, limit: int) -> None:
    clock, source, state = ManualClock(EPOCH + timedelta(days=1)), Parted(), tmp_path / "state"
    laminar.register_source("parted", lambda _spec: source)
    settings = TimeSettings(clock=clock, idle_timeout_ms=10_000)

    def windows(db: laminar.Database) -> list[tuple[Any, ...]]:
        return db.sql("SELECT * FROM w ORDER BY start").rows()

    with laminar.connect(state, spark=spark, settings=settings) as db:
        db.execute(
            f"SET laminar.collect_limit_rows = {limit};"
            "CREATE SOURCE s (x INT, ts TIMESTAMP, WATERMARK FOR ts AS ts)"
            " WITH (connector = 'parted');"
            "CREATE MATERIALIZED VIEW w AS SELECT"
            " UNIX_SECONDS(TUMBLE_START(ts, INTERVAL '10' SECOND)) AS start, SUM(x) AS x"
            " FROM s GROUP BY TUMBLE(ts, INTERVAL '10' SECOND) EMIT AFTER WATERMARK"
        )
        source.batches.append([(1, 5, "a"), (2, 35, "b")])
        db.step()
        assert windows(db) == []  # part a is at 5
        source.batches.append([(4, 12, "a")])
        db.step()
        assert windows(db) == [(0, 1)]
        assert "__partition" not in db.sql("SELECT * FROM s").columns
    with laminar.connect(state, spark=spark, settings=settings) as db:
        # After a restart the parts are where they were: a is at 12, and nobody is late at 13.
        source.batches.append([(8, 13, "a"), (16, 61, "b")])
        db.step()
        assert windows(db) == [(0, 1)]
        # A part that is silent for long holds nobody back any more.
        clock.advance(11)
        source.batches.append([(32, 62, "b")])
        db.step()
        db.step()
        assert windows(db) == [(0, 1), (10, 12), (30, 2)]
        # It speaks again, too late for what was shown; time does not go back.
        source.batches.append([(64, 14, "a")])
        db.step()
        assert windows(db) == [(0, 1), (10, 12), (30, 2)]
        assert db.sql("SELECT COUNT(*) FROM laminar_system.late_rows").rows() == [(1,)]
