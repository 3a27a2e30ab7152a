"""Columns of types that Arrow or PySpark do not carry: in, stored, out, taken back."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar.errors import RowDoesNotMatch
from laminar.testing import Oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MONTHS = """k INT, m INTERVAL YEAR TO MONTH, y INTERVAL YEAR, d INTERVAL DAY TO SECOND,
    st STRUCT<m: INTERVAL MONTH, xs: ARRAY<INTERVAL YEAR>>, mp MAP<INTERVAL MONTH, INTERVAL YEAR>"""
LITERALS = """(1, INTERVAL '1-2' YEAR TO MONTH, INTERVAL '3' YEAR, INTERVAL '1' DAY,
    named_struct('m', INTERVAL '-5' MONTH, 'xs', array(INTERVAL '1' YEAR, NULL)),
    map(INTERVAL '1' MONTH, INTERVAL '2' YEAR))"""
ONE = (1, 14, 36, timedelta(days=1), (-5, [12, None]), {1: 24})
TWO: tuple[Any, ...] = (2, 14, None, None, (None, []), {})
NOTHING = (2, None, None, None, None, None)


def test_intervals_of_months_are_numbers_of_them_in_python(spark: SparkSession) -> None:
    with laminar.connect(spark=spark) as db:
        db.execute(f"CREATE TABLE t ({MONTHS})")
        views = {
            "rows": "SELECT * FROM t",
            "sums": "SELECT k, MIN(m) AS a, MAX(y) AS b, SUM(m) AS c FROM t GROUP BY k",
            "keys": "SELECT m, COUNT(*) AS n FROM t GROUP BY m",
            "pairs": "SELECT a.k, b.k AS o FROM t a JOIN t b ON a.m = b.m",
        }
        for name, sql in views.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        db.execute(f"INSERT INTO t VALUES {LITERALS}")
        db.insert("t", [TWO, NOTHING])
        for wrong in ({"y": 25}, {"st": {"xs": [13]}}, {"mp": {1: 7}}):
            with pytest.raises(RowDoesNotMatch, match="no whole year"):
                db.insert("t", [wrong])
        with pytest.raises(RowDoesNotMatch):
            db.insert("t", [{"m": "1-2"}])
        db.step()
        assert sorted(db.sql("SELECT * FROM rows").rows(), key=repr) == sorted(
            [ONE, TWO, NOTHING], key=repr
        )
        assert sorted(db.sql("SELECT * FROM sums").rows()) == [(1, 14, 36, 14), (2, 14, None, 14)]
        assert set(db.sql("SELECT * FROM keys").rows()) == {(14, 2), (None, 1)}
        assert len(db.sql("SELECT * FROM pairs").rows()) == 4
        told = db.sql("SELECT CAST(m AS STRING) AS m, m, m FROM t WHERE k = 1")
        assert told.rows() == [("INTERVAL '1-2' YEAR TO MONTH", 14, 14)]
        assert told.arrow().column(1).to_pylist() == [14]
        assert told.pandas().shape == (1, 3)
        db.delete("t", db.sql("SELECT * FROM t WHERE k = 1").rows())
        db.delete("t", db.sql("SELECT * FROM t WHERE m IS NULL").arrow())
        db.execute("UPDATE t SET m = m + INTERVAL '1' MONTH")
        db.step()
        assert db.sql("SELECT * FROM rows").rows() == [(2, 15, *TWO[2:])]
        assert db.sql("SELECT * FROM sums").rows() == [(2, 15, None, 15)]


VARIANTS = """k INT, v VARIANT, a ARRAY<VARIANT>, st STRUCT<v: VARIANT, n: INT>,
    m MAP<STRING, VARIANT>, deep ARRAY<STRUCT<v: ARRAY<VARIANT>, w: ARRAY<INT>>>"""
FULL = (1, 7, [1, None, {"x": [2]}], {"v": None, "n": 1}, {"a": "b", "c": None},
        [None, {"v": [None, 2], "w": [1]}, {"v": None, "w": None}])  # fmt: skip
EMPTY = (2, None, None, None, None, None)


def test_variants_are_anywhere_in_a_type(spark: SparkSession) -> None:
    with laminar.connect(spark=spark) as db:
        db.execute(f"CREATE TABLE t ({VARIANTS})")
        db.execute("CREATE MATERIALIZED VIEW rows AS SELECT * FROM t WHERE k > 0")
        db.insert("t", [FULL, EMPTY, FULL])
        db.execute(
            "INSERT INTO t SELECT 3, parse_json('7'), array(NULL, parse_json('null')), NULL,"
            " map(), array()"
        )
        db.step()
        written = "SELECT k, TO_JSON(STRUCT(v, a, st, m, deep)) AS t FROM rows"
        told: dict[int, str] = dict(db.sql(written).rows())
        assert told[1] == (
            '{"v":7,"a":[1,null,{"x":[2]}],"st":{"n":1},"m":{"a":"b","c":null},'
            '"deep":[null,{"v":[null,2],"w":[1]},{}]}'
        )
        assert told[3] == '{"v":7,"a":[null,null],"m":{},"deep":[]}'
        found = db.sql("SELECT * FROM t WHERE k = 3").rows()[0]
        assert found[2][0] is None
        assert found[2][1].toPython() is None
        db.delete("t", [FULL])
        db.step()
        db.delete("t", db.sql("SELECT * FROM t WHERE k = 1").rows())
        db.delete("t", db.sql("SELECT * FROM t WHERE k > 1").arrow())
        db.step()
        assert db.sql("SELECT * FROM rows").rows() == []


def test_variants_are_counted_by_their_bytes(spark: SparkSession) -> None:
    with laminar.connect(spark=spark) as db:
        db.execute("CREATE TABLE t (k INT, v VARIANT, a ARRAY<VARIANT>)")
        db.execute(
            "CREATE MATERIALIZED VIEW c AS SELECT COUNT(DISTINCT v) AS n,"
            " COUNT(DISTINCT a, k) AS m, COUNT(DISTINCT v:x) FILTER (WHERE k > 0) AS x FROM t"
        )
        one, same, other = "parse_json('1')", "parse_json('{\"x\": 1}')", "CAST(1D AS VARIANT)"
        db.execute(
            f"INSERT INTO t VALUES (1, {one}, array({one})), (1, {other}, array({other})),"
            f" (1, {one}, array({one})), (2, NULL, NULL), (2, {same}, array({one}))"
        )
        db.step()
        assert db.sql("SELECT * FROM c").rows() == [(3, 3, 1)]
        db.execute("DELETE FROM t WHERE k = 2")
        db.step()
        assert db.sql("SELECT * FROM c").rows() == [(2, 2, 0)]


def test_a_column_of_void_is_the_same_in_every_row(spark: SparkSession) -> None:
    with laminar.connect(spark=spark) as db:
        oracle = Oracle(db, spark, may_be_full=frozenset(("counted", "most", "placed")))
        oracle.table("t", "k INT, v VOID")
        for name, sql in {
            "counted": "SELECT v, COUNT(DISTINCT k) AS n FROM t GROUP BY v",
            "most": "SELECT v, MAX(k) AS n FROM t GROUP BY v",
            "placed": "SELECT k, ROW_NUMBER() OVER (PARTITION BY v ORDER BY k) AS n FROM t",
        }.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        oracle.insert("t", [(1, None), (2, None), (3, None)])
        oracle.step()
        oracle.delete("t", [(3, None), (1, None)])
        oracle.step()
