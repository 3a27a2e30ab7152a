"""INSERT, UPDATE and DELETE as SQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import laminar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def table(db: laminar.Database) -> laminar.Database:
    db.execute("CREATE TABLE t (id BIGINT NOT NULL, name STRING, v DOUBLE)")
    db.insert("t", [(1, "a", 1.0), (2, "b", 2.0), (2, "b", 2.0)])
    db.step()
    return db


@pytest.fixture(scope="module")
def unchanged(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[laminar.Database]:
    """A database for all tests that leave it as it was."""
    with laminar.connect(tmp_path_factory.mktemp("unchanged"), spark=spark) as db:
        db.execute("CREATE TABLE t (id BIGINT NOT NULL, name STRING, v DOUBLE)")
        db.insert("t", [(1, "a", 1.0)])
        db.step()
        yield db


def stepped(db: laminar.Database, query: str = "SELECT * FROM t") -> list[tuple[Any, ...]]:
    db.step()
    return sorted(db.sql(query).rows(), key=repr)


def test_insert(table: laminar.Database) -> None:
    assert table.execute("INSERT INTO t VALUES (3, 'c', 0.1), (4, NULL, NULL)") == 2
    assert table.execute("INSERT INTO t (name, ID) VALUES ('e', 5)") == 1
    assert table.execute("INSERT INTO T SELECT id + 10, upper(name), v FROM t WHERE id = 1") == 1
    table.insert("t", [(6, "f", 6.0)])  # pushed and written rows meet in one epoch
    assert stepped(table) == [
        (1, "a", 1.0),
        (11, "A", 1.0),
        (2, "b", 2.0),
        (2, "b", 2.0),
        (3, "c", 0.1),
        (4, None, None),
        (5, "e", None),
        (6, "f", 6.0),
    ]


def test_update_and_delete_see_what_is_pending(table: laminar.Database) -> None:
    table.execute("CREATE MATERIALIZED VIEW total AS SELECT SUM(v) AS v, COUNT(*) AS n FROM t")
    table.insert("t", [(3, "c", 30.0)])
    assert table.execute("UPDATE t SET v = v + 1, name = concat(name, '!') WHERE t.id >= 2") == 3
    assert table.execute("DELETE FROM t WHERE id = 1 -- and nothing else") == 1
    assert stepped(table) == [(2, "b!", 3.0), (2, "b!", 3.0), (3, "c!", 31.0)]
    assert stepped(table, "SELECT * FROM total") == [(37.0, 3)]
    assert table.execute("DELETE FROM t WHERE id = 99") == 0
    assert table.execute("UPDATE t SET v = 0 WHERE false") == 0
    assert table.step() is None
    assert table.execute("DELETE FROM t") == 3
    assert stepped(table, "SELECT * FROM total") == [(None, 0)]


def test_conditions_may_ask_other_relations(table: laminar.Database) -> None:
    table.execute("CREATE TABLE gone (id BIGINT)")
    assert table.sql("SELECT * FROM gone").rows() == []
    table.insert("gone", [(1,)])
    table.step()
    assert table.execute("UPDATE t SET v = (SELECT MAX(v) FROM t) + v WHERE id = 2") == 2
    assert table.execute("DELETE FROM t WHERE id IN (SELECT id FROM gone)") == 1
    assert stepped(table) == [(2, "b", 4.0), (2, "b", 4.0)]


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("INSERT INTO t VALUES (1)", laminar.InvalidQuery),
        ("INSERT INTO t VALUES ('x', 'y', 1)", laminar.InvalidQuery),
        ("INSERT INTO t VALUES (array(1), 'y', 1)", laminar.InvalidQuery),
        ("INSERT INTO t (name) VALUES ('no id')", laminar.RowDoesNotMatch),
        ("INSERT INTO t (nam) VALUES ('x')", laminar.UnknownColumn),
        ("INSERT INTO tt VALUES (1)", laminar.UnknownRelation),
        ("UPDATE t SET nam = 1", laminar.UnknownColumn),
        ("UPDATE t SET id = NULL", laminar.RowDoesNotMatch),
        ("UPDATE t SET v = vv", laminar.UnknownColumn),
        ("UPDATE t SET v = 'abc'", laminar.InvalidQuery),
        ("DELETE FROM t WHERE nosuch = 1", laminar.UnknownColumn),
        ("DELETE FROM t WHERE 1 / (id - id) = 1", laminar.InvalidQuery),
        ("DELETE FROM t WHERE id IN (SELECT id FROM u)", laminar.UnknownRelation),
        ("DELETE FROM t WHERE true LIMIT 1", laminar.SqlError),
        ("DELETE FROM t WHERE true) UNION ALL (SELECT * FROM t", laminar.SqlError),
    ],
)
def test_a_mistake_changes_nothing(
    unchanged: laminar.Database, statement: str, error: type[laminar.LaminarError]
) -> None:
    with pytest.raises(error) as caught:
        unchanged.execute(statement)
    assert "\tat " not in str(caught.value)
    assert "JVM" not in str(caught.value)
    assert unchanged.step() is None


def test_a_row_is_updated_once_whatever_chance_says(table: laminar.Database) -> None:
    table.execute("DELETE FROM t; INSERT INTO t SELECT id, 'x', 0 FROM RANGE(50)")
    changed = table.execute("UPDATE t SET name = 'y' WHERE rand() < 0.5")
    found = stepped(table, "SELECT name, COUNT(*) FROM t GROUP BY name")
    assert sum(count for _, count in found) == 50
    assert dict(found).get("y", 0) == changed
