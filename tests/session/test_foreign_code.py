"""Nobody who may ask a question runs a program by it, unless the database says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

import laminar

UUID = "reflect('java.lang.Math', 'abs', -5)"
REFUSED = (
    f"SELECT {UUID}",
    f"EXPLAIN SELECT {UUID}",
    "SELECT TRANSFORM (k) USING 'cat' AS (k STRING) FROM t",
    "SELECT IDENTIFIER('reflect')('java.lang.Math', 'abs', -5)",
    f"CREATE MATERIALIZED VIEW v AS SELECT {UUID} AS x FROM t",
    f"CREATE FUNCTION f() RETURN {UUID}",
    f"CREATE TABLE u (a STRING DEFAULT {UUID})",
    f"INSERT INTO t SELECT {UUID}",
    f"UPDATE t SET k = {UUID}",
    f"DELETE FROM t WHERE k = {UUID}",
    f"MERGE INTO t USING t AS s ON t.k = {UUID} WHEN MATCHED THEN DELETE",
    f"FROM t |> SELECT {UUID}",
    f"SELECT * FROM t WHERE k = (SELECT {UUID} FROM t AS x)",
)


@pytest.fixture(scope="module")
def db(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with laminar.connect(tmp_path_factory.mktemp("state"), spark=spark) as made:
        made.execute("CREATE TABLE t (k STRING)")
        made.insert("t", [("5",)])
        made.step()
        yield made


@pytest.mark.parametrize("statement", REFUSED)
def test_it_is_refused_in_every_statement(db: Any, statement: str) -> None:
    with pytest.raises(laminar.ForeignCode, match="LMR-3040") as found:
        db.execute(f"SELECT 1;\n{statement}")
    assert found.value.place is not None
    assert found.value.place[0] == 2
    underlined = found.value.detail.splitlines()[-2:]
    start = underlined[1].index("^")
    assert underlined[0][start:].startswith(("reflect", "USING", "IDENTIFIER"))


def test_it_is_refused_to_readers_and_with_arguments(db: Any, spark: SparkSession) -> None:
    with pytest.raises(laminar.ForeignCode):
        db.sql(f"SELECT {UUID} WHERE :a = 1", args={"a": 1})
    with laminar.connect(db.path, spark=spark, read_only=True) as reader:
        with pytest.raises(laminar.ForeignCode):
            reader.sql(f"SELECT {UUID}")
        with pytest.raises(laminar.ReadOnlyDatabase):
            reader.execute("SET laminar.trusted_functions = 'all'")


def test_a_database_may_trust_who_asks(db: Any, spark: SparkSession) -> None:
    db.execute("SET laminar.trusted_functions = 'reflect'")
    assert db.sql(f"SELECT {UUID}").rows() == [("5",)]
    with laminar.connect(db.path, spark=spark, read_only=True) as reader:
        assert reader.sql(f"SELECT {UUID}").rows() == [("5",)]
    with pytest.raises(laminar.ForeignCode):
        db.sql("SELECT java_method('java.lang.Math', 'abs', -5)")
    # A view holds rows: what is no function of other rows is none of them, trusted or not.
    with pytest.raises(laminar.NonDeterministic):
        db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT {UUID} AS x FROM t")
    db.execute("RESET laminar.trusted_functions")
    with pytest.raises(laminar.ForeignCode):
        db.sql(f"SELECT {UUID}")


def test_a_function_that_was_trusted_is_not_for_ever(db: Any) -> None:
    db.execute("SET laminar.trusted_functions = 'all'")
    try:
        db.execute(f"CREATE FUNCTION hidden() RETURN {UUID}")
    except laminar.LaminarError:
        return  # bodies are deterministic, so they have none of it
    finally:
        db.execute("RESET laminar.trusted_functions")
    with pytest.raises(laminar.LaminarError):
        db.sql("SELECT hidden()")
