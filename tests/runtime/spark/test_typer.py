"""Spark's analyzer is asked for types, and for what a string is read as."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import laminar
from laminar.delta.program import Shape
from laminar.runtime.spark.session import own_session
from laminar.runtime.spark.typer import SparkTyper

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = {
    "ts": "timestamp",
    "d": "date",
    "k": "int",
    "n": "string",
    "ntz": "timestamp_ntz",
    "v": "variant",
    "m": "map<string,array<struct<a:decimal(38,18)>>>",
    "i": "interval year to month",
}


@pytest.fixture(scope="module")
def typer(spark: SparkSession) -> SparkTyper:
    made = SparkTyper(own_session(spark, 2))
    made.declare(Shape("t", tuple(COLUMNS), tuple(COLUMNS.values())))
    return made


def test_declared_columns_have_the_types_they_were_declared_with(typer: SparkTyper) -> None:
    assert typer.of_query("SELECT * FROM t") == list(COLUMNS.items())


def test_a_function_of_sparks_may_read_a_table_of_sparks(
    typer: SparkTyper, spark: SparkSession
) -> None:
    spark.sql("CREATE OR REPLACE VIEW beside AS SELECT * FROM VALUES (1), (2) AS b(x)")
    spark.sql("CREATE OR REPLACE FUNCTION most() RETURNS INT RETURN (SELECT MAX(x) FROM beside)")
    spark.sql("CREATE OR REPLACE FUNCTION twice(x INT) RETURNS INT RETURN x * 2")
    spark.sql("CREATE OR REPLACE FUNCTION most_again() RETURNS INT RETURN most()")
    try:
        assert typer.body_of("twice") == "x * 2"
        assert typer.body_of("most") == "(SELECT MAX(x) FROM beside)"
        assert typer.body_of("upper") == typer.body_of("nope") == ""
        with laminar.connect(spark=spark) as db:
            db.execute("CREATE TABLE beside (x INT)")
            for call in ("twice(most())", "most_again()"):
                with pytest.raises(laminar.NotSupported, match=r"that reads tables: most"):
                    db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT {call} AS a FROM beside")
            db.execute("CREATE MATERIALIZED VIEW v AS SELECT twice(2) AS a")
    finally:
        for each in ("FUNCTION most_again", "FUNCTION most", "FUNCTION twice", "VIEW beside"):
            spark.sql(f"DROP {each}")


COMPARED = [
    ("int", "string", "=", (("bigint",), ("bigint",))),
    ("date", "string", "<=>", ((), ("date",))),
    ("decimal(10,2)", "int", "=", (("decimal(12,2)",), ("decimal(10,0)", "decimal(12,2)"))),
    ("timestamp", "date", ">=", ((), ("timestamp",))),
    ("bigint", "double", "IN", (("double",), ())),
    ("struct<a:int>", "struct<a:string>", "IN", (("struct<a:bigint>",),) * 2),
    ("int", "date", "=", None),
    ("map<int,int>", "map<int,string>", "IN", None),
]


@pytest.mark.parametrize(("left", "right", "operator", "casts"), COMPARED)
def test_what_is_compared_is_cast(
    typer: SparkTyper, left: str, right: str, operator: str, casts: object
) -> None:
    assert typer.compared(left, right, operator) == casts


TIMES = [
    ("ts < 'now'", "now"),
    ("ts < '09:00'", "09:00"),
    ("d = 'today'", "today"),
    ("ntz > 'yesterday'", "yesterday"),
    ("ts BETWEEN 'today' AND '2030-01-01'", "today"),
    ("ts IN ('2030-01-01', 'now')", "now"),
    ("TO_TIMESTAMP('now') > ts", "now"),
    ("TRY_TO_TIMESTAMP('now') > ts", "now"),
    ("TO_DATE('today') > d", "today"),
    ("HOUR('09:00') > k", "09:00"),
    ("DATE_TRUNC('day', 'now') > ts", "now"),
    ("COALESCE(ts, 'now') > ts", "now"),
    ("TRY_CAST('09:00' AS TIMESTAMP) > ts", "09:00"),
    ("TIMESTAMP '09:00' > ts", "09:00"),
    ("n = '09:00' AND ts > '09:00'", "09:00"),
    ("k IN (SELECT MAX(HOUR('tomorrow CET')) FROM t)", "tomorrow CET"),
    ("k > 1 UNION ALL SELECT 'now'", "now"),
]

WORDS = [
    ("n = 'now'", "now"),
    ("n IN ('today', '09:00')", "09:00"),
    ("TO_TIMESTAMP('09:00', 'HH:mm') > ts", "09:00"),
    ("ts > TIMESTAMP '2030-01-01' + INTERVAL '09:00' HOUR TO MINUTE", "09:00"),
    ("n = 'now' AND ts > '2030-01-01'", "now"),
    ("CONCAT(CAST(ts AS STRING), 'now') = n", "now"),
]


@pytest.mark.parametrize(("text", "string"), TIMES)
def test_a_string_that_stands_for_a_time(typer: SparkTyper, text: str, string: str) -> None:
    assert typer.reads_as_time(f"SELECT ts FROM t WHERE {text}", string)


@pytest.mark.parametrize(("text", "string"), WORDS)
def test_a_string_that_is_a_string(typer: SparkTyper, text: str, string: str) -> None:
    assert not typer.reads_as_time(f"SELECT ts FROM t WHERE {text}", string)


def test_a_string_is_found_where_spark_would_compute_the_time_at_once(spark: SparkSession) -> None:
    session = own_session(spark, 2)
    session.conf.set("spark.sql.ansi.enabled", "false")
    typer = SparkTyper(session)
    assert typer.reads_as_time("SELECT TO_DATE('today') AS d", "today")
    assert typer.reads_as_time("SELECT TO_DATE('today') AS d FROM VALUES (1), (2)", "today")


def test_a_string_is_found_in_a_plan_of_any_length(typer: SparkTyper) -> None:
    wide = ", ".join(f"k + {number} AS c{number}" for number in range(300))
    assert typer.reads_as_time(f"SELECT {wide}, ts < 'now' AS late FROM t", "now")
