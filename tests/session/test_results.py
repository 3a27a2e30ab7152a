"""A result, in all its forms."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal

import pytest

import laminar

pytestmark = pytest.mark.spark

QUERY = """
SELECT CAST(1 AS BIGINT) AS id, 'a' AS name, CAST(NULL AS STRING) AS missing,
       CAST('1.50' AS DECIMAL(5, 2)) AS price, STRUCT(1 AS x, ARRAY(2) AS y) AS nested
"""


def test_forms(db: laminar.Database, capsys: pytest.CaptureFixture[str]) -> None:
    result = db.sql(QUERY)
    assert result.columns == ["id", "name", "missing", "price", "nested"]
    assert result.epoch == 0
    assert result.rows() == [(1, "a", None, Decimal("1.50"), (1, [2]))]
    assert result.dicts()[0]["nested"] == {"x": 1, "y": [2]}
    assert result.arrow().column("id").to_pylist() == [1]
    assert result.pandas()["name"].tolist() == ["a"]
    assert result.spark().count() == 1
    result.show()
    shown = capsys.readouterr().out
    assert "name" in shown
    assert "NULL" in shown
    db.sql("SELECT id AS `[red]` FROM RANGE(30)").show(limit=5)
    shown = capsys.readouterr().out
    assert "[red]" in shown
    assert "more than 5 rows" in shown


def test_a_result_stays_at_its_epoch(db: laminar.Database) -> None:
    db.execute("CREATE TABLE t (n BIGINT)")
    db.insert("t", [(1,)])
    db.step()
    before = db.sql("SELECT * FROM t")
    db.insert("t", [(2,)])
    db.step()
    assert (before.epoch, before.rows()) == (1, [(1,)])


def test_mistakes_in_queries(db: laminar.Database) -> None:
    db.execute("CREATE TABLE trades (price DOUBLE, n BIGINT); CREATE TABLE other (prices DOUBLE)")
    with pytest.raises(laminar.UnknownColumn) as column:
        db.sql("SELECT 1,\n  prise FROM trades")
    assert column.value.suggestion == "price"
    assert (column.value.line, column.value.column) == (2, 3)
    assert "prices" not in column.value.detail  # of another table
    with pytest.raises(laminar.UnknownRelation) as relation:
        db.execute("SELECT 1;\nSELECT * FROM trade")
    assert (relation.value.line, relation.value.column) == (2, 15)
    with pytest.raises(laminar.SqlSyntaxError):
        db.sql("DROP TABLE trades")
    with pytest.raises(laminar.SqlSyntaxError):
        db.sql("SELECT 1; SELECT 2")
    failing = db.sql("SELECT 1 / (id - 1) FROM RANGE(3)")
    for form in (failing.rows, failing.dicts, failing.arrow, failing.pandas, failing.show):
        with pytest.raises(laminar.InvalidQuery, match="DIVIDE_BY_ZERO") as failed:
            form()
        assert "\tat " not in str(failed.value)


@pytest.fixture
def in_new_york() -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = "America/New_York"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.usefixtures("in_new_york")
def test_times_do_not_depend_on_the_machine(db: laminar.Database) -> None:
    db.execute("CREATE TABLE t (ts TIMESTAMP, parts ARRAY<TIMESTAMP>)")
    noon = datetime(2026, 7, 1, 12)
    db.insert("t", [(noon, [noon, None])])
    db.step()
    assert db.sql("SELECT * FROM t").rows() == [(noon, [noon, None])]
    assert db.sql("SELECT * FROM t").dicts() == [{"ts": noon, "parts": [noon, None]}]
    assert db.sql("SELECT CAST(ts AS STRING) FROM t").rows() == [("2026-07-01 12:00:00",)]
    assert db.delete("t", db.sql("SELECT * FROM t").rows()) == 1
