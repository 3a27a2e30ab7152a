"""Many epochs: traces are compacted under way, and every view stays right."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from laminar.session import connect
from laminar.testing import Oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VIEWS = {
    "sums": "SELECT k, SUM(x) AS s, COUNT(*) AS n, AVG(y) AS a FROM t GROUP BY k",
    "best": "SELECT k, MAX(x) AS m, MIN(y) AS l FROM t GROUP BY k",
    "doubles": "SELECT k, SUM(y) AS s FROM t GROUP BY k",
    "over": "SELECT COUNT(*) AS n, MAX(s) AS m FROM doubles",
    "kinds": "SELECT DISTINCT k, x FROM t",
    "pairs": "SELECT t.k, t.x, g.w FROM t JOIN g ON t.k = g.k",
    "grown": "SELECT k, COUNT(*) AS n, SUM(w) AS s, MAX(w) AS m FROM g GROUP BY k",
    "grown_over": "SELECT n, COUNT(*) AS c FROM grown GROUP BY n",
}
EPOCHS = 12


@pytest.mark.long
@pytest.mark.spark
def test_views_stay_right_while_traces_are_compacted(spark: SparkSession) -> None:
    chance = random.Random(5)
    merged: set[str] = set()
    with connect(spark=spark) as db:
        oracle = Oracle(db, spark)
        db.execute("SET laminar.compaction_fanout = 3")
        oracle.table("t", "k INT, x INT, y DOUBLE")
        oracle.table("g", "k INT, w INT")  # only ever grows
        for name, sql in VIEWS.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        for epoch in range(EPOCHS):
            rows = [
                (chance.randint(1, 3), chance.randint(0, 5), chance.choice([0.1, 0.2, 0.7]))
                for _ in range(2)
            ]
            if epoch % 3 == 2:
                oracle.delete("t", oracle.tables["t"].some(chance, 2))
            oracle.insert("t", rows)
            oracle.insert("g", [(chance.randint(1, 3), chance.randint(0, 9))])
            db.step()
            merged |= {
                name
                for name, trace in db.engine.ledger.manifest.traces.items()
                if any(segment.lo < segment.hi for segment in trace.segments)
            }
            if epoch % 4 == 3:
                oracle.check()
    # Rows of a table, results, partial rows with resets, and partial rows that only grow.
    assert {"t", "g", "pairs", "doubles#1!partial", "best#1!partial", "grown#1!partial"} <= merged
