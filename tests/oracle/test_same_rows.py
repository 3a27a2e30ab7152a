"""Values that are equal to Spark but not the same, and sums at the edge of their types."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from laminar.errors import LaminarError, OperatorError, RowNotFound
from laminar.session import connect
from laminar.testing import Oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LEAST = "(MIN(s COLLATE UTF8_BINARY) COLLATE UTF8_LCASE)"
_COLLATED = "(s COLLATE UTF8_LCASE)"

VIEWS = {
    "rows": "SELECT * FROM t",
    "told": "SELECT CAST(d AS STRING) AS d, MAP_KEYS(m) AS m, TO_JSON(st) AS st FROM t",
    "keys": "SELECT d, COUNT(*) AS n FROM t GROUP BY d",
    "both": "SELECT d FROM t INTERSECT ALL SELECT d FROM t WHERE k > 1",
    "joined": "SELECT a.d, b.d AS e FROM t a JOIN t b ON a.d = b.d AND a.k < b.k",
    "asked": "SELECT d, (SELECT COUNT(*) FROM t u WHERE CAST(u.d AS STRING) < CAST(t.d AS STRING))"
    " AS n FROM t",
    "paired": "SELECT a.d, b.k FROM t a LEFT JOIN t b ON CAST(a.d AS STRING) < CAST(b.d AS STRING)",
    "nested": "SELECT xs FROM t UNION ALL SELECT xs FROM t WHERE k = 1",
    "spelled": f"SELECT {_COLLATED} AS s FROM t",
    "of_text": f"SELECT {_COLLATED} AS s, COUNT(*) AS n FROM t GROUP BY {_COLLATED}",
    "of_spread": f"SELECT {_COLLATED} AS s, STDDEV(k) AS n FROM t GROUP BY {_COLLATED}",
    "of_groups": "SELECT s || '!' AS s, n FROM of_text",
    "one_side": f"SELECT {_COLLATED} AS s FROM t WHERE k > 1 INTERSECT SELECT {_COLLATED} FROM t",
    "least": "SELECT MIN(d) AS a, MAX(d) AS b FROM t WHERE d = 0",
    "first": f"SELECT {_COLLATED} AS s FROM t ORDER BY s LIMIT 2",
}

SOME = ("told", "of_text", "first")
"""What every run looks at."""

TRUTHS = {
    "of_text": f"SELECT {_LEAST} AS s, COUNT(*) AS n FROM t GROUP BY {_COLLATED}",
    "of_spread": f"SELECT {_LEAST} AS s, STDDEV(k) AS n FROM t GROUP BY {_COLLATED}",
    "one_side": f"SELECT {_LEAST} AS s FROM t WHERE k > 1 GROUP BY {_COLLATED}",
    "least": "SELECT DOUBLE(MIN(STRING(d))) AS a, DOUBLE(MAX(STRING(d))) AS b FROM t WHERE d = 0",
    "first": f"SELECT {_COLLATED} AS s FROM t ORDER BY s, s COLLATE UTF8_BINARY LIMIT 2",
}
"""Where Spark answers what it meets first."""

DDL = (
    "k INT, d DOUBLE, l BIGINT, s STRING, xs ARRAY<FLOAT>, m MAP<STRING, INT>, st STRUCT<a: DOUBLE>"
)

Row = tuple[Any, ...]
MOST, LEAST = 2**63 - 1, -(2**63)
MINUS: Row = (1, -0.0, LEAST, "a", [-0.0], {"y": 1, "x": 2}, (-0.0,))
PLUS: Row = (1, 0.0, 5, "A", [0.0], {"x": 2, "y": 1}, (0.0,))
NAN: Row = (3, math.nan, MOST, "B", [math.nan], {"x": 1}, (math.nan,))
OTHER: Row = (2, 0.0, MOST, "A", [0.0], {"x": 2, "y": 1}, (0.0,))


@pytest.mark.spark
@pytest.mark.parametrize("names", [SOME, pytest.param(tuple(VIEWS), marks=pytest.mark.long)])
def test_rows_that_are_equal_but_not_the_same(names: tuple[str, ...], spark: SparkSession) -> None:
    with connect(spark=spark) as db:
        oracle = Oracle(db, spark, truths=TRUTHS)
        oracle.table("t", DDL)
        for name in names:
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
        oracle.insert("t", [MINUS, PLUS, PLUS, NAN])
        oracle.step()
        oracle.insert("t", [MINUS, OTHER])
        oracle.delete("t", [PLUS, NAN])
        oracle.step()
        oracle.delete("t", [MINUS, MINUS])
        oracle.insert("t", [NAN, (4, -0.0, 1, "b", None, None, None)])
        oracle.step()
        with pytest.raises(RowNotFound):
            db.delete("t", [MINUS])
        assert db.execute("DELETE FROM t WHERE d = 0") is not None
        oracle.tables["t"].delete([row for row in oracle.tables["t"].rows if row[1] == 0])
        oracle.step()


COLLATED = {
    "rows": "SELECT * FROM t",
    "found": "SELECT k FROM t WHERE s = 'A'",
    "counted": "SELECT COUNT(DISTINCT s) AS n FROM t",
    "pairs": "SELECT a.k, b.k AS o FROM t a LEFT JOIN t b ON a.s = b.s AND a.k < b.k",
}


@pytest.mark.spark
def test_a_column_may_have_a_collation(spark: SparkSession) -> None:
    with connect(spark=spark) as db:
        oracle = Oracle(db, spark)
        oracle.table("t", "k INT, s STRING COLLATE UTF8_LCASE NOT NULL")
        for name, sql in COLLATED.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        oracle.insert("t", [(1, "a"), (2, "A"), (3, "b")])
        oracle.step()
        oracle.delete("t", [(2, "A")])
        oracle.insert("t", [(4, "B")])
        oracle.step()
        with pytest.raises(RowNotFound):
            db.delete("t", [(1, "A")])


@pytest.mark.spark
def test_a_sum_that_outgrew_its_type_is_there_again(spark: SparkSession) -> None:
    with connect(spark=spark) as db:
        oracle = Oracle(db, spark)
        oracle.table("t", "k INT, l BIGINT")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, SUM(l) AS s FROM t GROUP BY k")
        oracle.insert("t", [(1, LEAST), (1, MOST), (2, 1)])
        oracle.step()
        oracle.delete("t", [(1, LEAST)])
        oracle.step()
        oracle.insert("t", [(1, MOST), (1, MOST)])
        db.step()
        with pytest.raises(LaminarError, match="overflow"):
            db.sql("SELECT * FROM v").rows()
        oracle.delete("t", [(1, MOST), (1, MOST)])
        oracle.step()


DECIMAL_SUMS = {
    "by_group": "SELECT k, SUM(d) AS s FROM t GROUP BY k",
    "in_all": "SELECT SUM(d) AS s, SUM(w) AS w FROM t WHERE k = 1",
    "of_sums": "SELECT COUNT(s) AS n, MAX(s) AS hi FROM by_group",
    "distinct": "SELECT k, SUM(DISTINCT d) AS s FROM t GROUP BY k",
    "windows": "SELECT k, w, SUM(d) OVER (PARTITION BY k) AS s FROM t",
}
MUCH, LITTLE = Decimal("9" * 28 + ".9999999999"), Decimal("0.0000000001")
WIDEST = Decimal("9" * 38)


@pytest.mark.spark
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_sum_of_decimals_is_there_whenever_it_fits(spark: SparkSession, ansi: str) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", ansi)
    settings = {"spark.sql.ansi.enabled": ansi}
    with connect(spark=session) as db:
        db.execute("SET laminar.retry_backoff_ms = 0; SET laminar.max_failures = 9")
        oracle = Oracle(db, spark, settings=settings)
        oracle.table("t", "k INT, d DECIMAL(38,10), w DECIMAL(38,0)")
        for name, sql in DECIMAL_SUMS.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        oracle.insert("t", [(1, MUCH, WIDEST), (2, -LITTLE, Decimal(0)), (2, -LITTLE, None)])
        oracle.step()
        oracle.delete("t", [(1, MUCH, WIDEST)])
        oracle.insert("t", [(1, MUCH.copy_negate(), WIDEST.copy_negate())])
        oracle.step()
        too_much = [(3, MUCH, WIDEST), (3, LITTLE, WIDEST)]
        oracle.insert("t", too_much)
        if ansi == "true":
            with pytest.raises(OperatorError, match="cannot be represented"):
                db.step()
        else:
            oracle.step()
        oracle.delete("t", too_much[1:])
        oracle.step()


@pytest.mark.spark
def test_a_sum_of_decimals_outgrows_its_type_on_the_way_only(spark: SparkSession) -> None:
    """Spark's own answer depends on the order of its rows here."""
    with connect(spark=spark) as db:
        db.execute("CREATE TABLE t (k INT, d DECIMAL(38,10))")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, SUM(d) AS s FROM t GROUP BY k")
        least = MUCH.copy_negate()
        db.insert("t", [(1, MUCH), (1, MUCH), (1, MUCH), (1, least), (1, least), (1, LITTLE)])
        db.insert("t", [(1, LITTLE.copy_negate())])
        db.step()
        assert db.sql("SELECT * FROM v").rows() == [(1, MUCH)]
        db.insert("t", [(1, LITTLE)])
        db.step()
        with pytest.raises(LaminarError, match="cannot be represented"):
            db.sql("SELECT * FROM v").rows()
        db.delete("t", [(1, MUCH), (1, MUCH)])
        db.insert("t", [(1, MUCH)])
        db.delete("t", [(1, LITTLE)])
        db.step()
        assert db.sql("SELECT * FROM v").rows() == [(1, Decimal(0))]


@pytest.mark.spark
def test_a_key_is_equal_as_spark_has_it(spark: SparkSession) -> None:
    with connect(spark=spark) as db:
        db.execute("CREATE SOURCE t (k DOUBLE, x INT, PRIMARY KEY (k))")
        db.insert("t", [(0.0, 1), (-0.0, 2)])
        db.step()
        db.insert("t", [(0.0, 2)])
        db.step()
        ((key, x),) = db.sql("SELECT * FROM t").rows()
        assert (math.copysign(1, key), x) == (1.0, 2)


@pytest.mark.spark
def test_a_condition_on_fractions_skips_no_rows_of_a_file(spark: SparkSession) -> None:
    with connect(spark=spark) as db:
        oracle = Oracle(db, spark)
        oracle.table("t", "k INT, d DOUBLE, st STRUCT<f: FLOAT>")
        for number, test in enumerate(("d > 0", "NOT d <= 5", "d = 0", "st.f IN (0, 7)")):
            db.execute(f"CREATE MATERIALIZED VIEW v{number} AS SELECT k FROM t WHERE {test}")
        none, odd = (1, 0.0, (math.nan,)), (2, math.nan, (-0.0,))
        oracle.insert("t", [none, odd])
        oracle.step()
        oracle.insert("t", [(3, -0.0, (-0.0,))] * 3)
        oracle.step()
        oracle.insert("t", [(4, 0.0, None), (5, math.nan, None)])
        db.execute("DELETE FROM t WHERE d > 5")
        oracle.tables["t"].delete([odd, (5, math.nan, None)])
        oracle.step()


@pytest.mark.spark
def test_a_view_that_is_computed_when_read_sees_no_row_that_is_gone(spark: SparkSession) -> None:
    with connect(spark=spark) as db:
        oracle = Oracle(db, spark)
        oracle.table("t", "k INT")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k + 1 AS q FROM t")
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT MAX(q) AS m FROM v")
        oracle.insert("t", [(2147483647,), (5,)])
        with pytest.raises(LaminarError, match="ARITHMETIC_OVERFLOW"):
            db.step()
        oracle.delete("t", [(2147483647,)])
        db.step()
        assert db.sql("SELECT * FROM v").rows() == [(6,)]
        assert db.sql("SELECT * FROM w").rows() == [(6,)]
