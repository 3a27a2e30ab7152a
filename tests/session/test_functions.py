"""Functions that users bring: expressions of SQL, and Python code."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

import laminar
from laminar.errors import DependentRefused, FunctionNotRegistered, InvalidFunction, OperatorError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FUNCTIONS = {
    "tag": "(x INT, y STRING DEFAULT 'a') RETURNS STRING RETURN concat(y, x, length(tag.y))",
    "cents": "(x DOUBLE) RETURNS DECIMAL(6, 1) RETURN CASE WHEN x > 1 THEN x / 3 END",
    "steps": "(n INT, c1 INT) RETURNS ARRAY<INT> RETURN transform(array(1, n), c -> c + c1)",
    "as_json": "(a INT, b INT) RETURNS STRING RETURN to_json(struct(a, b AS c, a + b AS d))",
    "nested": "(x BIGINT) RETURN tag(y => tag(x), x => x + 1)",
    "whole": "(r STRUCT<p: INT, q: STRING>) RETURNS STRING RETURN concat(r.q, r.p)",
}
QUERIES = {
    "plain": "SELECT tag(k), tag(v, name), cents(v) + 1 AS c, steps(k, v) FROM t"
    " WHERE cents(v) > 1",
    "grouped": "SELECT tag(k) AS g, SUM(cents(v)), cents(SUM(v)) FROM t GROUP BY tag(k)",
    "joined": "SELECT a.k, b.v FROM t a LEFT JOIN t b ON tag(a.k) = tag(b.v) AND cents(b.v) > 1",
    "found": "SELECT k FROM t WHERE tag(k) IN (SELECT tag(v) FROM t) OR as_json(k, v) = '{}'",
    "over": "SELECT k, SUM(cents(v)) OVER (PARTITION BY tag(k % 2) ORDER BY k, v, name) AS s"
    " FROM t",
    "shown": "SELECT as_json(k, v), nested(k), whole(struct(k, name)), steps(c1 => 1, n => k) AS z"
    " FROM t",
}
FULL = " WITH (refresh_policy = 'full')"


def code() -> tuple[Callable[..., Any], Any]:
    """Return a plain function and one of pandas; workers cannot import this module."""

    def up(text: str | None) -> str | None:
        if text == "boom":
            raise ValueError("no booms\nhere")
        return None if text is None else text.upper()

    def one_more(values: pd.Series) -> pd.Series:
        return values + 1

    functions: Any = importlib.import_module("pyspark.sql.functions")
    return up, functions.pandas_udf(one_more, "bigint")


def filled(path: Path, spark: SparkSession, **functions: Any) -> laminar.Database:
    db = laminar.connect(path, spark=spark, functions=functions)
    db.execute("CREATE TABLE t (k INT, v INT, name STRING)")
    db.insert("t", [(1, 10, "a"), (2, None, "b"), (2, 2, None), (None, 1, "c")])
    db.step()
    return db


def bag(db: laminar.Database, relation: str) -> Counter[str]:
    return Counter(map(repr, db.sql(f"SELECT * FROM {relation}").rows()))


@pytest.mark.long
def test_views_over_functions_are_what_spark_answers(spark: SparkSession, tmp_path: Path) -> None:
    truth = spark.newSession()
    for name, text in FUNCTIONS.items():
        truth.sql(f"CREATE TEMPORARY FUNCTION {name}{text}")
    with filled(tmp_path, spark) as db:
        for name, text in FUNCTIONS.items():
            db.execute(f"CREATE FUNCTION {name}{text}")
        for name, query in QUERIES.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        db.execute(f"CREATE MATERIALIZED VIEW plain_full{FULL} AS {QUERIES['plain']}")
        db.insert("t", [(2, 2, "dd"), (5, 3, "e")])
        db.execute("DELETE FROM t WHERE k = 1")
        db.step()
        db.sql("SELECT * FROM t").spark().toPandas()
        rows = [tuple(each) for each in db.sql("SELECT * FROM t").rows()]
        frame = truth.createDataFrame(rows, "k INT, v INT, name STRING")
        frame.createOrReplaceTempView("t")
        for name, query in (*QUERIES.items(), ("plain_full", QUERIES["plain"])):
            wanted = truth.sql(query)
            assert bag(db, name) == Counter(repr(tuple(row)) for row in wanted.collect()), name
            assert db.sql(f"SELECT * FROM {name}").columns == wanted.columns
        said = db.sql("SELECT name, strategy FROM laminar_system.materialized_views").rows()
        assert {name for name, strategy in said if strategy == "full"} == {"plain_full"}


def test_a_view_uses_a_function_where_spark_takes_none(spark: SparkSession, tmp_path: Path) -> None:
    with filled(tmp_path, spark) as db:
        db.execute("CREATE FUNCTION neg(x INT) RETURN -x")
        db.execute(
            "CREATE MATERIALIZED VIEW top AS SELECT k FROM t WHERE k > 0 ORDER BY neg(k), v LIMIT 1"
        )
        db.execute(
            "CREATE MATERIALIZED VIEW l AS SELECT transform(array(k), e -> neg(e)) AS a FROM t"
        )
        assert bag(db, "top") == Counter(["(2,)"])
        assert db.sql("SELECT k FROM t ORDER BY neg(k) NULLS LAST, v").rows()[0] == (2,)
        assert "([-1],)" in bag(db, "l")


def test_another_body_rebuilds_what_calls_it_at_once(spark: SparkSession, tmp_path: Path) -> None:
    with filled(tmp_path, spark) as db:
        db.execute("CREATE FUNCTION f(x INT) RETURN x + 1")
        db.execute("CREATE FUNCTION g(x INT) RETURN f(x) * 2")
        db.execute("CREATE MATERIALIZED VIEW a AS SELECT g(k) AS w FROM t")
        db.execute("CREATE MATERIALIZED VIEW b AS SELECT SUM(w) AS s FROM a")
        number = db.checkpoint()
        assert bag(db, "b") == Counter(["(16,)"])
        db.execute("CREATE OR REPLACE FUNCTION f(x INT) RETURN x + 2")
        assert bag(db, "b") == Counter(["(22,)"])
        with pytest.raises(DependentRefused):
            db.execute("CREATE OR REPLACE FUNCTION f(x INT, y INT) RETURN x + y")
        with pytest.raises(laminar.LaminarError):
            db.execute("CREATE OR REPLACE FUNCTION f(x INT) RETURNS STRING RETURN 'z'")
        db.insert("t", [(7, 0, "z")])
        db.step()
        assert bag(db, "b") == Counter(["(40,)"])
    with laminar.connect(tmp_path, spark=spark) as db:
        db.insert("t", [(8, 0, "z")])
        db.step()
        assert bag(db, "b") == Counter(["(60,)"])
        db.restore(number, definitions="current")
        assert bag(db, "b") == Counter(["(22,)"])
        db.restore(number)
        assert bag(db, "b") == Counter(["(16,)"])
        assert db.sql("SELECT g(1)").rows() == [(4,)]
        db.execute("DROP FUNCTION f CASCADE")
        assert db.execute("SHOW MATERIALIZED VIEWS").rows() == []


@pytest.mark.long
def test_python_functions_are_called_and_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    up, plus = code()
    with filled(tmp_path, spark, up=(up, "STRING"), plus=plus) as db:
        db.execute("CREATE FUNCTION both(x STRING) RETURN up(x) || up(x)")
        db.execute("CREATE MATERIALIZED VIEW p AS SELECT both(name) AS u, plus(v) AS w FROM t")
        db.execute("CREATE MATERIALIZED VIEW s AS SELECT u, plus(SUM(w)) FROM p GROUP BY u")
        db.execute("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM t")
        db.execute("DELETE FROM t WHERE k = 1")
        db.step()
        assert bag(db, "s") == Counter(["(None, 4)", "('BB', None)", "('CC', 3)"])
        with pytest.raises(InvalidFunction):
            db.register_function("up", lambda x: x, "STRING")
        db.register_function("up", up, "STRING")
    with laminar.connect(tmp_path, spark=spark) as db:
        db.insert("t", [(9, 1, "c")])
        report = db.step()
        assert report is not None
        assert "function" in report.held["p"].reason
        assert report.views.keys() == {"n"}
        assert len(bag(db, "s")) == 3  # what was computed can be read
        with pytest.raises(FunctionNotRegistered):
            db.sql("SELECT up('a')")
        with pytest.raises(FunctionNotRegistered):
            db.execute("CREATE MATERIALIZED VIEW x AS SELECT up(name) FROM t")
        db.register_function("up", up, "STRING")
        db.register_function("plus", plus)
        db.step()
        assert bag(db, "s") == Counter(["(None, 4)", "('BB', None)", "('CC', 5)"])
        db.insert("t", [(9, 1, "boom")])
        with pytest.raises(OperatorError, match='"p"') as caught:
            db.step()
        assert caught.value.detail == "function up raised ValueError: no booms"
        assert bag(db, "n") == Counter(["(5,)"])
        with pytest.raises(laminar.LaminarError, match="function up raised"):
            db.sql("SELECT up('boom')").rows()
        db.execute("DELETE FROM t WHERE name = 'boom'")
        db.register_function("up", lambda _: "new", "STRING", or_replace=True)
        db.drain()
        assert bag(db, "s") == Counter(["('newnew', 8)"])
