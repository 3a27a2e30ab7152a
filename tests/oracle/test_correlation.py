"""Subqueries that read columns further out than Spark looks, compared with other words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from laminar.delta.program import Strategy
from laminar.errors import ColumnOutOfReach, CorrelatedTooFar
from laminar.session import connect
from laminar.testing.bags import assert_same_bag

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

FAR_AND_NEAR = {
    "exists": (
        "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a"
        " AND EXISTS (SELECT 1 FROM w WHERE w.a = u.a AND w.b <= t.b))",
        "SELECT a FROM t WHERE EXISTS"
        " (SELECT 1 FROM u, w WHERE u.a = t.a AND w.a = u.a AND w.b <= t.b)",
    ),
    "counted": (
        "SELECT a, (SELECT COUNT(*) FROM u WHERE u.a = t.a"
        " AND u.b IN (SELECT w.b FROM w WHERE w.a < t.b)) AS n FROM t",
        "SELECT a, (SELECT COUNT(*) FROM u WHERE u.a = t.a"
        " AND (SELECT MIN(w.a) FROM w WHERE w.b = u.b) < t.b) AS n FROM t",
    ),
    "summed": (
        "SELECT a, (SELECT SUM((SELECT COUNT(*) FROM w WHERE w.a = t.a AND w.b >= u.b)) FROM u)"
        " AS n FROM t",
        "SELECT a, CASE WHEN EXISTS (SELECT 1 FROM u) THEN"
        " (SELECT COUNT(*) FROM u, w WHERE w.a = t.a AND w.b >= u.b) END AS n FROM t",
    ),
}
EPOCHS: list[dict[str, list[tuple[int | None, int]]]] = [
    {"t": [(1, 1), (2, 2), (2, 2), (None, 1)], "u": [(1, 2), (2, 3)], "w": [(1, 1), (1, 2)]},
    {"t": [(3, 4)], "u": [(3, 1), (1, 2), (2, 1)], "w": [(2, 3), (2, 2), (3, 1)]},
]
GONE: dict[str, list[tuple[int | None, int]]] = {
    "t": [(2, 2)],
    "u": [(1, 2), (2, 3)],
    "w": [(1, 2), (2, 2)],
}


@pytest.mark.spark
@pytest.mark.long
def test_columns_two_queries_out_are_read(spark: SparkSession, tmp_path: Path) -> None:
    where = str(tmp_path / "db")
    with connect(where, spark=spark) as db:
        db.execute("CREATE TABLE t (a INT, b INT); CREATE TABLE u (a INT, b INT)")
        db.execute("CREATE TABLE w (a INT, b INT)")
        for name, (far, _) in FAR_AND_NEAR.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name}_far AS {far}")
            strategy = db.engine.defined.catalog.programs[f"{name}_far"].strategy
            assert strategy is not Strategy.FULL
        for rows in EPOCHS:
            for table, some in rows.items():
                db.insert(table, some)
            db.step()
        compare(db)
    with connect(where, spark=spark) as db:
        for table, some in GONE.items():
            db.delete(table, some)
        db.step()
        compare(db)


def compare(db: object) -> None:
    for name, (_, near) in FAR_AND_NEAR.items():
        stored = db.sql(f"SELECT * FROM {name}_far").rows()  # type: ignore[attr-defined]
        assert_same_bag(stored, db.sql(near).rows())  # type: ignore[attr-defined]


@pytest.mark.spark
def test_what_cannot_be_read_here_is_said(spark: SparkSession) -> None:
    far = FAR_AND_NEAR["exists"][0]
    with connect(spark=spark) as db:
        db.execute("CREATE TABLE t (a INT, b INT); CREATE TABLE u (a INT, b INT)")
        db.execute("CREATE TABLE w (a INT, b INT)")
        with pytest.raises(ColumnOutOfReach, match=r'"t.b" cannot be read here'):
            db.sql(far)
        with pytest.raises(ColumnOutOfReach, match='"a" cannot be read here'):
            db.execute("CREATE MATERIALIZED VIEW v AS SELECT 1 AS one FROM t HAVING a > 1")
        with pytest.raises(CorrelatedTooFar):
            db.execute(f"CREATE MATERIALIZED VIEW v WITH (refresh_policy = 'full') AS {far}")
