"""Schemas: two relations of one name are two, wherever one is named, and whatever comes between."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar.errors import HasDependents, SchemaNotEmpty, UnknownRelation, UnknownSchema
from laminar.runtime.introspection.status import read_status
from laminar.testing.oracle import Oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> Iterator[laminar.Database]:
    with laminar.connect(tmp_path / "state", spark=spark) as opened:
        opened.execute("CREATE SCHEMA a; CREATE SCHEMA b COMMENT 'second'")
        yield opened


def rows(db: laminar.Database, query: str) -> list[Any]:
    return sorted(map(tuple, db.sql(query).rows()))


def schemas(db: laminar.Database) -> list[str]:
    return [name for (name,) in db.execute("SHOW SCHEMAS").rows()]


VIEWS = {
    # name: the query, and the same with names that leave nothing to be resolved
    "both": (
        "SELECT a.t.k, a.t.x AS ax, b.t.x AS bx, default.t.x FROM a.t JOIN b.t ON a.t.k = b.t.k"
        " JOIN default.t ON default.t.k = b.t.k",
        "SELECT p.k, p.x AS ax, q.x AS bx, r.x FROM `a.t` p JOIN `b.t` q ON p.k = q.k"
        " JOIN t r ON r.k = q.k",
    ),
    "a.v": (
        "SELECT k, SUM(t.x) AS x FROM a.t GROUP BY k",
        "SELECT k, SUM(x) AS x FROM `a.t` GROUP BY k",
    ),
    "b.v": (
        "SELECT t.k, MAX(x) AS x FROM b.t WHERE EXISTS"
        " (SELECT 1 FROM a.t WHERE t.k = b.t.k) GROUP BY t.k",
        "SELECT k, MAX(x) AS x FROM `b.t` WHERE k IN (SELECT k FROM `a.t`) GROUP BY k",
    ),
    "a.all": (
        "SELECT k, x FROM a.v UNION ALL SELECT k, x FROM b.v UNION ALL SELECT * FROM default.t",
        "SELECT * FROM `a.v` UNION ALL SELECT * FROM `b.v` UNION ALL SELECT * FROM t",
    ),
    "b.best": (
        "SELECT a.v.k, a.v.x FROM a.v LEFT ANTI JOIN b.v ON a.v.k = b.v.k AND a.v.x <= b.v.x",
        "SELECT p.k, p.x FROM `a.v` p LEFT ANTI JOIN `b.v` q ON p.k = q.k AND p.x <= q.x",
    ),
}


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_views_over_two_schemas_are_the_truth(
    db: laminar.Database, spark: SparkSession, seed: int
) -> None:
    truths = {name: truth for name, (_, truth) in VIEWS.items()}
    chance, oracle = random.Random(seed), Oracle(db, spark, truths=truths)
    for table in ("a.t", "b.t", "t"):
        oracle.table(table, "k INT, x BIGINT")
    for name, (query, _) in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    for number in range(4):
        db.execute(f"USE {chance.choice(['a', 'b', 'default'])}")
        for table, live in oracle.tables.items():
            full = table if "." in table else f"default.{table}"
            new = [(chance.randrange(3), chance.randrange(9)) for _ in range(4)]
            db.insert(full, new)
            live.insert(new)
            if number:
                old = chance.sample(live.rows, 2)
                db.delete(full, old)
                live.delete(old)
        oracle.step()
    db.execute("USE b")
    query, truth = (each.replace("MAX", "MIN") for each in VIEWS["b.v"])
    oracle.truths["b.v"] = truth
    db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {query}")
    oracle.check()


def test_a_view_means_the_same_whatever_is_current_later(
    db: laminar.Database, spark: SparkSession
) -> None:
    db.execute("CREATE TABLE a.t (n INT); CREATE TABLE t (n INT); USE a")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT t.n FROM t WHERE a.t.n > 0")
    db.insert("t", [(1,)])
    db.insert("default.t", [(9,)])
    db.execute("USE b; CREATE TABLE t (n INT)")
    db.step()
    assert rows(db, "SELECT * FROM a.v") == [(1,)]
    shown = db.execute("SHOW CREATE a.v").rows()[0][0]
    assert shown == "CREATE MATERIALIZED VIEW a.v AS SELECT t.n FROM a.t WHERE a.t.n > 0"
    again = shown.replace("CREATE", "CREATE OR REPLACE")
    epoch = db.engine.ledger.manifest
    db.execute(again)  # says the same: nothing has to be done
    assert db.engine.ledger.manifest is epoch
    db.close()
    with laminar.connect(db.path, spark=spark) as opened:
        assert opened.current_schema == "default"
        assert schemas(opened) == ["default", "a", "b", "laminar_system"]
        assert opened.execute("DESCRIBE SCHEMA b").rows()[2] == ("comment", "second")
        opened.insert("a.t", [(2,)])
        opened.step()
        assert rows(opened, "SELECT n FROM a.v") == [(1,), (2,)]
        assert opened.execute("SHOW CREATE a.v").rows()[0][0] == shown
    assert [each.name for each in read_status(db.path).relations] == ["a.t", "t", "b.t", "a.v"]


def test_statements_change_the_rows_of_the_table_that_they_name(db: laminar.Database) -> None:
    db.execute(
        "CREATE TABLE a.t (k INT, x INT); CREATE TABLE b.t (k INT PRIMARY KEY, x INT);"
        "CREATE TABLE t (k INT, x INT); USE a;"
        "INSERT INTO t VALUES (1, 1), (2, 2); INSERT INTO b.t VALUES (1, 10);"
        "INSERT INTO default.t VALUES (9, 9); INSERT INTO t SELECT k + 1, t.x FROM default.t;"
        "UPDATE t SET x = t.x + 100 WHERE a.t.k = 2;"
        "DELETE FROM a.t WHERE k IN (SELECT t.k + 1 FROM default.t WHERE default.t.k < a.t.k);"
        "MERGE INTO b.t USING a.t ON b.t.k = a.t.k WHEN MATCHED THEN UPDATE SET b.t.x = a.t.x"
        " WHEN NOT MATCHED THEN INSERT *"
    )
    db.step()
    assert rows(db, "SELECT * FROM t") == [(1, 1), (2, 102)]
    assert rows(db, "SELECT * FROM b.t") == [(1, 1), (2, 102)]
    assert rows(db, "SELECT * FROM default.t") == [(9, 9)]
    first = "SELECT o.x, n.x FROM b.t AS OF EPOCH 0 AS o RIGHT JOIN t AS OF EPOCH 1 AS n USING (k)"
    assert db.sql(f"{first} ORDER BY 2").rows() == [(None, 1), (None, 102)]
    changed = "SELECT k, _change_type FROM table_changes('t', 1) ORDER BY k"
    assert db.sql(changed).rows() == [(1, "insert"), (2, "insert")]


def test_calls_from_python_take_names_of_several_parts(db: laminar.Database) -> None:
    db.execute("CREATE SOURCE a.s (ts TIMESTAMP, n INT, WATERMARK FOR ts AS ts); USE a")
    db.execute(
        "CREATE MATERIALIZED VIEW b.w AS SELECT window(ts, '1 minute').end AS e, COUNT(*) AS n"
        " FROM s GROUP BY window(ts, '1 minute') EMIT AFTER WATERMARK LATE DATA TO late"
    )
    assert db.known_as("s") == db.known_as("laminar.A.s") == "a.s"
    db.configure_source("s", policy=laminar.BatchPolicy(max_rows=5))
    db.execute("INSERT INTO s VALUES (TIMESTAMP '2026-01-01 00:00:10', 1)")
    db.advance_watermark("a.s", "2026-01-01T00:02:00")
    db.step()
    followed = db.subscribe("b.w", timeout=0)
    assert [(epoch, len(told)) for epoch, told in followed] == [(1, 1)]
    db.execute("INSERT INTO laminar.a.s VALUES (TIMESTAMP '2026-01-01 00:00:20', 2)")
    db.end_of_stream("s")
    db.step()
    assert rows(db, "SELECT n FROM a.late") == [(2,)]
    with pytest.raises(UnknownSchema, match="did you mean"):
        db.insert("bb.s", [])
    with pytest.raises(UnknownRelation):
        db.subscribe("default.s")


def test_dropping_a_schema_drops_what_is_in_it_and_what_reads_that(
    db: laminar.Database, tmp_path: Path
) -> None:
    db.execute(
        "CREATE TABLE a.t (n INT); CREATE TABLE b.t (n INT);"
        "CREATE MATERIALIZED VIEW a.v AS SELECT n FROM b.t;"
        "CREATE MATERIALIZED VIEW b.v AS SELECT a.t.n FROM a.t JOIN a.v USING (n);"
        "CREATE MATERIALIZED VIEW b.w AS SELECT n FROM b.t;"
        f"CREATE SINK b.k FROM b.v WITH (connector = 'files', path = '{tmp_path / 'k'}');"
        f"CREATE SINK a.k FROM b.w WITH (connector = 'files', path = '{tmp_path / 'l'}')"
    )
    db.insert("a.t", [(1,)])
    db.insert("b.t", [(1,), (2,)])
    db.step()
    checkpoint = db.checkpoint()
    with pytest.raises(SchemaNotEmpty, match="in it are: t, v, k"):
        db.execute("DROP SCHEMA a RESTRICT")
    with pytest.raises(HasDependents):
        db.execute("DROP TABLE a.t")
    before = db.engine.ledger.manifest.revision
    db.execute("USE a; DROP SCHEMA a CASCADE")
    assert db.engine.ledger.manifest.revision == before + 1  # one commit for all
    assert schemas(db) == ["default", "b", "laminar_system"]
    assert list(db.engine.defined.catalog.definitions) == ["b.t", "b.w"]
    assert db.execute("SHOW SINKS IN b").rows() == []
    assert db.sql("SELECT current_schema()").rows() == [("a",)]
    with pytest.raises(UnknownSchema):
        db.sql("SELECT * FROM t")
    db.execute("USE default")
    db.restore(checkpoint)
    assert schemas(db) == ["default", "a", "b", "laminar_system"]
    assert rows(db, "SELECT n FROM b.v") == [(1,)]
    assert [name for name, *_ in db.execute("SHOW SINKS IN a").rows()] == ["k"]


def test_a_reader_follows(db: laminar.Database, spark: SparkSession) -> None:
    with laminar.connect(db.path, spark=spark, read_only=True) as reader:
        reader.execute("USE a")
        db.execute("CREATE TABLE a.t (n INT); CREATE SCHEMA c; CREATE TABLE c.t (n INT)")
        db.insert("a.t", [(1,)])
        db.step()
        assert rows(reader, "SELECT t.n FROM t LEFT JOIN c.t AS o USING (n)") == [(1,)]
        assert schemas(reader) == ["default", "a", "b", "c", "laminar_system"]
        db.execute("DROP SCHEMA c CASCADE; DROP TABLE a.t")
        with pytest.raises(UnknownSchema):
            reader.sql("SELECT * FROM c.t")
        with pytest.raises(laminar.ReadOnlyDatabase):
            reader.execute("CREATE SCHEMA d")


def test_nothing_is_created_in_a_schema_that_was_dropped_meanwhile(db: laminar.Database) -> None:
    turn, raised = db.engine.ledger.turn, list[Exception]()

    def create() -> None:
        try:
            db.execute("CREATE TABLE b.t (n INT)")
        except laminar.LaminarError as error:
            raised.append(error)

    other = threading.Thread(target=create)
    with turn("a test"):
        other.start()
        while not turn._queue:
            threading.Event().wait(0.001)
        db.execute("DROP SCHEMA b")
    other.join(60)
    assert isinstance(raised[0], UnknownSchema)
    assert not db.engine.defined.catalog.definitions


def test_a_dag_of_python_may_name_schemas(db: laminar.Database) -> None:
    dag = (
        laminar.DagBuilder()
        .source("a.t", schema="n INT")
        .source("t", schema="n INT")
        .operator("b.v", "SELECT a.t.n FROM a.t JOIN default.t ON a.t.n = default.t.n")
        .connect("a.t", "b.v")
        .connect("t", "b.v")
        .build()
    )
    db.execute("USE b")
    db.run(dag)
    db.insert("a.t", [(1,)])
    db.insert("default.t", [(1,)])
    db.step()
    assert rows(db, "SELECT * FROM v") == [(1,)]
    assert "FROM a.t JOIN default.t" in db.execute("SHOW CREATE v").rows()[0][0]
