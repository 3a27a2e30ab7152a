"""What the tests about groups share: a diamond, and the faults they inject."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import laminar
from laminar.runtime.catalog.settings import TimeSettings
from laminar.testing.clock import ManualClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DIAMOND = (
    "CREATE TABLE a (k INT, x BIGINT);"
    "CREATE MATERIALIZED VIEW b AS SELECT k, SUM(x) AS x FROM a GROUP BY k;"
    "CREATE MATERIALIZED VIEW c AS SELECT k, SUM(100 / x) AS y FROM a GROUP BY k;"
    "CREATE MATERIALIZED VIEW d AS SELECT b.k, x, y FROM b JOIN c ON b.k = c.k;"
    "CREATE MATERIALIZED VIEW other AS SELECT COUNT(*) AS n FROM a"
)
"""c fails for a row in which x is 0."""


@contextmanager
def opened(
    path: Path, spark: SparkSession, script: str = "", clock: ManualClock | None = None
) -> Iterator[laminar.Database]:
    """A database whose clock stands still."""
    settings = TimeSettings(clock=clock or new_clock())
    with laminar.connect(path, spark=spark, settings=settings) as db:
        if script:
            db.execute(script)
        yield db


def new_clock() -> ManualClock:
    return ManualClock(datetime(2026, 1, 1, tzinfo=UTC))


def rows(db: laminar.Database, query: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in db.sql(query).rows())


def cursors(db: laminar.Database, *views: str) -> list[int]:
    """The epoch that each view's rows are of, as a read tells it."""
    return [db.sql(f"SELECT * FROM {view}").epoch for view in views]
