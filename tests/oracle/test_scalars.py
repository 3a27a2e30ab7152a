"""A scalar subquery without an aggregate: no row, one row, and one too many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from laminar.errors import LaminarError
from laminar.session import connect
from laminar.testing import Oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.long
@pytest.mark.spark
def test_a_second_row_fails_the_epoch_once_it_is_needed(spark: SparkSession) -> None:
    with connect(spark=spark) as db:
        oracle = Oracle(db, spark)
        oracle.table("t", "k INT")
        oracle.table("u", "k INT, w INT")
        db.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT k, (SELECT w FROM u WHERE u.k = t.k) AS w FROM t"
        )
        oracle.insert("t", [(1,), (1,), (3,)])
        oracle.insert("u", [(1, 10), (2, 20), (2, 21)])  # nobody asks for the two of 2
        oracle.step()
        assert sorted(db.sql("SELECT * FROM v").rows(), key=str) == [(1, 10), (1, 10), (3, None)]
        oracle.insert("t", [(2,)])
        with pytest.raises(LaminarError, match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
            db.step()
        assert len(db.sql("SELECT * FROM v").rows()) == 3
        oracle.delete("u", [(2, 20)])
        oracle.step()


@pytest.mark.spark
def test_what_spark_leaves_open_is_sorted(spark: SparkSession) -> None:
    with connect(spark=spark) as db:
        db.execute("CREATE TABLE t (k INT, x STRING)")
        db.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT k, COLLECT_LIST(x) AS l, LISTAGG(x, '+') AS s,"
            " MODE(x) AS m FROM t GROUP BY k"
        )
        db.insert("t", [(1, "b"), (1, "c"), (1, "a")])
        db.step()
        assert db.sql("SELECT * FROM v").rows() == [(1, ["a", "b", "c"], "a+b+c", "a")]
        db.insert("t", [(1, "a"), (1, None)])
        db.delete("t", [(1, "b")])
        db.step()
        assert db.sql("SELECT * FROM v").rows() == [(1, ["a", "a", "c"], "a+a+c", "a")]
