"""What a table declares of its rows holds for every way in, after reopening and after a restore."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

import laminar
from laminar.errors import (
    CheckViolated,
    GeneratedOtherwise,
    InvalidQuery,
    LaminarError,
    NonDeterministic,
    NotSupported,
    RowDoesNotMatch,
    TextTooLong,
    UnknownColumn,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KEPT = """CREATE TABLE t (
    k INT NOT NULL COMMENT 'which',
    v VARCHAR(3) DEFAULT 'new' NOT NULL,
    x DECIMAL(6,2) DEFAULT 1 + 0.5 CHECK (x > 0),
    twice DECIMAL(8,2) GENERATED ALWAYS AS (x * 2) COMMENT 'of x',
    CONSTRAINT `short or few` CHECK (v <> 'bad' OR twice < 4)
) COMMENT 'rows with rules' TBLPROPERTIES ('owner' = 'me', a.b = 2)"""


@pytest.fixture(scope="module")
def shared_db(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with laminar.connect(tmp_path_factory.mktemp("rules"), spark=spark) as opened:
        opened.execute(KEPT)
        opened.execute(KEPT.replace("TABLE t", "SOURCE s").replace("NOT NULL COMMENT", "COMMENT"))
        yield opened


@pytest.fixture
def db(shared_db: laminar.Database) -> Iterator[laminar.Database]:
    yield shared_db
    shared_db.execute("DELETE FROM t; DELETE FROM s")
    shared_db.drain()


def rows(db: laminar.Database, name: str = "t") -> list[Any]:
    found = db.sql(f"SELECT k, v, CAST(x AS DOUBLE), CAST(twice AS DOUBLE) FROM {name}").rows()
    return sorted(found, key=repr)


WHOLE = (1, "new", 1.5, 3.0)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("INSERT INTO t (k) VALUES (1)", [WHOLE]),
        ("INSERT INTO t VALUES (1, DEFAULT, DEFAULT, DEFAULT)", [WHOLE]),
        ("INSERT INTO t (x, k) VALUES (DEFAULT, 1), (2.5, 2)", [WHOLE, (2, "new", 2.5, 5.0)]),
        ("INSERT INTO t SELECT 1, 'new', 1.5, 3", [WHOLE]),
        ("INSERT INTO t VALUES (1, 'ab   ', 1, NULL)", [(1, "ab ", 1.0, 2.0)]),
        ("INSERT INTO t VALUES (1, 'äöü', 1, 2)", [(1, "äöü", 1.0, 2.0)]),
        ("INSERT INTO t VALUES (1, 'a', NULL, NULL)", [(1, "a", None, None)]),
        ("INSERT INTO t (k) VALUES (1); UPDATE t SET x = 2", [(1, "new", 2.0, 4.0)]),
        (
            "INSERT INTO t VALUES (1, 'a', 7, DEFAULT); UPDATE t SET x = DEFAULT, v = default",
            [WHOLE],
        ),
        (
            "INSERT INTO t (k) VALUES (1); MERGE INTO t USING (SELECT 1 AS k UNION SELECT 2) AS q"
            " ON t.k = q.k WHEN MATCHED THEN UPDATE SET x = 9, v = DEFAULT"
            " WHEN NOT MATCHED THEN INSERT (k, x) VALUES (q.k, DEFAULT)",
            [(1, "new", 9.0, 18.0), (2, "new", 1.5, 3.0)],
        ),
        (
            "MERGE INTO t USING (SELECT 1 AS k, 'b   ' AS v, 2 AS x) AS q ON t.k = q.k"
            " WHEN NOT MATCHED THEN INSERT *",
            [(1, "b  ", 2.0, 4.0)],
        ),
    ],
)
def test_rows_are_completed(db: laminar.Database, script: str, expected: list[Any]) -> None:
    db.execute(script)
    db.step()
    assert rows(db) == expected


@pytest.mark.long
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([{"k": 1}], [WHOLE]),
        ([{"k": 1}, {"k": 2, "v": "a"}, {"k": 3, "x": None}], None),
        ([(1, "new", 1.5)], [WHOLE]),
        ([(1, "new", 1.5, 3)], [WHOLE]),
        (pd.DataFrame({"k": [1]}), [WHOLE]),
    ],
)
@pytest.mark.parametrize("name", ["t", "s"])
def test_rows_from_python_are_completed(
    db: laminar.Database, name: str, given: Any, expected: Any
) -> None:
    db.insert(name, given)
    db.step()
    mixed = [WHOLE, (2, "a", 1.5, 3.0), (3, "new", None, None)]
    assert rows(db, name) == (expected or mixed)
    db.delete(name, [{"k": 1, "v": "new", "x": 1.5}])
    db.step()
    assert len(rows(db, name)) == len(expected or mixed) - 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("INSERT INTO t VALUES (9, 'long', 1, 2)", TextTooLong),
        ("INSERT INTO t VALUES (9, 'a', -1, -2)", CheckViolated),
        ("INSERT INTO t VALUES (9, 'bad', 5, 10)", CheckViolated),
        ("INSERT INTO t VALUES (9, 'a', 1, 3)", GeneratedOtherwise),
        ("INSERT INTO t VALUES (9, NULL, 1, 2)", RowDoesNotMatch),
        ("INSERT INTO t (v) VALUES ('a')", RowDoesNotMatch),
        ("UPDATE t SET v = 'long'", TextTooLong),
        ("UPDATE t SET v = 'bad', x = 100", CheckViolated),
        ("UPDATE t SET x = -x", CheckViolated),
        ("UPDATE t SET twice = 5", NotSupported),
        ("UPDATE t SET v = NULL", RowDoesNotMatch),
        (
            "MERGE INTO t USING (SELECT 1 AS k) AS q ON t.k = q.k"
            " WHEN MATCHED THEN UPDATE SET x = -1",
            CheckViolated,
        ),
        (
            "MERGE INTO t USING (SELECT 1 AS k) AS q ON t.k = q.k"
            " WHEN MATCHED THEN UPDATE SET twice = 1",
            NotSupported,
        ),
        (
            "MERGE INTO t USING (SELECT 2 AS k) AS q ON t.k = q.k"
            " WHEN NOT MATCHED THEN INSERT (k, v) VALUES (q.k, 'long')",
            TextTooLong,
        ),
    ],
)
def test_rows_that_break_a_rule_are_refused(
    db: laminar.Database, script: str, error: type[LaminarError]
) -> None:
    db.execute("INSERT INTO t (k) VALUES (1)")
    with pytest.raises(error) as caught:
        db.execute(script)
    assert not caught.value.message.endswith(".")
    db.step()
    assert rows(db) == [WHOLE]


@pytest.mark.parametrize("name", ["t", "s"])
def test_a_row_from_python_that_breaks_a_rule_is_named(db: laminar.Database, name: str) -> None:
    with pytest.raises(CheckViolated) as caught:
        db.insert(name, [{"k": 1}, {"k": 2, "x": -5}, {"k": 3, "x": -6}])
    assert (caught.value.row, caught.value.constraint) == (2, "check_1")
    assert "row 2" in caught.value.detail
    with pytest.raises(TextTooLong, match="too long"):
        db.insert(name, [(1, "long", 1)])
    with pytest.raises(GeneratedOtherwise):
        db.insert(name, [(1, "a", 1, 1)])
    assert db.step() is None


@pytest.mark.long
@pytest.mark.parametrize(
    ("column", "error"),
    [
        ("b INT DEFAULT a", UnknownColumn),
        ("b INT DEFAULT (SELECT MAX(k) FROM t)", LaminarError),
        ("b INT DEFAULT rand()", NonDeterministic),
        ("b INT DEFAULT 'x y' || nope('z')", LaminarError),
        ("b INT GENERATED ALWAYS AS (rand())", NonDeterministic),
        ("b INT GENERATED ALWAYS AS (now())", NonDeterministic),
        ("b INT GENERATED ALWAYS AS (c)", UnknownColumn),
        ("b INT GENERATED ALWAYS AS (b + 1)", UnknownColumn),
        ("b INT GENERATED ALWAYS AS (SUM(a))", InvalidQuery),
        ("b INT GENERATED ALWAYS AS (ROW_NUMBER() OVER (ORDER BY a))", InvalidQuery),
        ("CHECK (nope > 1)", UnknownColumn),
        ("CHECK (a + 1)", InvalidQuery),
        ("CHECK (SUM(a) > 1)", InvalidQuery),
        ("CHECK (a IN (SELECT k FROM t))", LaminarError),
        ("CHECK (rand() > 0.5)", NonDeterministic),
        ("c CHAR(3), CHECK (c = 'a')", NotSupported),
        ("c CHAR(3), d BOOLEAN GENERATED ALWAYS AS (`C` = 'a')", NotSupported),
        ("c INTERVAL", NotSupported),
        ("c STRUCT<>", NotSupported),
        ("c STRUCT<a: INT, A: INT>", NotSupported),
    ],
)
def test_what_cannot_be_declared(
    db: laminar.Database, column: str, error: type[LaminarError]
) -> None:
    before = db.engine.ledger.manifest.revision
    with pytest.raises(error) as caught:
        db.execute(f"CREATE TABLE wrong (a INT, {column})")
    assert caught.value.place is not None
    assert not db.engine.defined.catalog.exists("wrong")
    assert db.engine.ledger.manifest.revision == before
    db.execute("CREATE TABLE wrong (a INT); DROP TABLE wrong")


def test_connectors_have_no_rules(db: laminar.Database) -> None:
    for column in ("a VARCHAR(3)", "a INT DEFAULT 1", "a INT, CHECK (a > 1)"):
        with pytest.raises(NotSupported, match="with a connector"):
            db.execute(f"CREATE SOURCE x ({column}) WITH (connector = 'files', path = 'x')")


def test_rules_survive_reopening_and_restoring(spark: SparkSession, tmp_path: Path) -> None:
    with laminar.connect(tmp_path, spark=spark) as db:
        db.execute(KEPT)
        db.execute(
            "CREATE MATERIALIZED VIEW v COMMENT 'sums' TBLPROPERTIES ('q' = 'r')"
            " WITH (refresh_policy = 'auto') AS SELECT v, SUM(x) AS s FROM t GROUP BY v"
        )
        db.execute("INSERT INTO t (k) VALUES (1)")
        db.step()
        checkpoint, told = db.checkpoint(), db.execute("DESCRIBE t").rows()
        db.execute("ALTER MATERIALIZED VIEW v SET (schedule = '1h')")
        assert (
            "COMMENT 'sums' TBLPROPERTIES ('q' = 'r')" in db.execute("SHOW CREATE v").rows()[0][-1]
        )
        db.execute("DROP TABLE t CASCADE")
        db.restore(checkpoint)
    with laminar.connect(tmp_path, spark=spark) as db:
        assert db.execute("DESCRIBE t").rows() == told
        assert ("v", "varchar(3)", "no", "", "DEFAULT 'new'", "") in told
        assert ("# Property a.b", "", "", "", "2", "") in told
        assert db.execute("SHOW CREATE t").rows()[0][-1] == KEPT
        assert ("# Comment", "", "", "", "sums", "") in db.execute("DESCRIBE v").rows()
        db.execute("INSERT INTO t (k) VALUES (1)")
        with pytest.raises(TextTooLong):
            db.execute("INSERT INTO t VALUES (1, 'long', 1, 2)")
        db.step()
        assert rows(db) == [WHOLE, WHOLE]
        db.restore(checkpoint, definitions="current")


def test_times_of_day_go_all_the_way(db: laminar.Database) -> None:
    at = datetime.time(1, 2, 3, 4)
    db.execute("CREATE TABLE clock (a TIME, b INT); CREATE TABLE coarse (a TIME(0))")
    db.execute(
        "CREATE MATERIALIZED VIEW times AS SELECT a, COUNT(*) AS n FROM clock GROUP BY a;"
        "INSERT INTO clock VALUES (TIME'10:11:12.123456', 1), (NULL, 2)"
    )
    db.insert("clock", [(at, 3), (at, 3)])
    db.step()
    db.delete("clock", [(at, 3)])
    db.execute("UPDATE clock SET a = TIME'00:00:00' WHERE a IS NULL")
    db.step()
    found = sorted(db.sql("SELECT * FROM times").rows())
    assert found == [(datetime.time(), 1), (at, 1), (datetime.time(10, 11, 12, 123456), 1)]
    db.execute("DROP TABLE clock CASCADE; DROP TABLE coarse")


def test_variants_come_in_and_out(db: laminar.Database) -> None:
    db.execute("CREATE TABLE j (k INT, v VARIANT)")
    db.execute(
        "CREATE MATERIALIZED VIEW paths AS SELECT k, variant_get(v, '$.a', 'int') AS a FROM j"
    )
    db.execute('INSERT INTO j VALUES (1, parse_json(\'{"a": 1, "b": [1.5, null]}\')), (2, NULL)')
    db.insert("j", [(3, {"a": 7}), {"k": 4, "v": [1, "two", None]}, (5, "text"), (6, None)])
    db.insert("j", db.sql("SELECT 7 AS k, parse_json('[true]') AS v").arrow())
    with pytest.raises(RowDoesNotMatch, match="does not match"):
        db.insert("j", [(1, {1, 2})])
    db.step()
    found = dict(db.sql("SELECT k, v FROM j").rows())
    values = {key: value and value.toPython() for key, value in found.items()}
    assert values == {
        1: {"a": 1, "b": [Decimal("1.5"), None]},
        2: None,
        3: {"a": 7},
        4: [1, "two", None],
        5: "text",
        6: None,
        7: [True],
    }
    db.execute("INSERT INTO j SELECT k + 10, v FROM j WHERE k < 4")
    db.step()
    paths = [(1, 1), (2, None), (3, 7), (11, 1), (12, None), (13, 7)]
    assert sorted(db.sql("SELECT * FROM paths WHERE k < 4 OR k > 7").rows()) == paths
    db.execute("DROP TABLE j CASCADE")
