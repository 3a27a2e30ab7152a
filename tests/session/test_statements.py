"""What statements show, which names they take, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

import laminar

pytestmark = pytest.mark.spark


@pytest.fixture
def db(db: laminar.Database) -> laminar.Database:
    db.execute(
        "CREATE TABLE t (id BIGINT, name STRING);"
        "CREATE SOURCE src (id BIGINT) WITH (connector = 'datagen', rows_total = '5');"
        "CREATE MATERIALIZED VIEW s AS SELECT name, COUNT(*) AS n FROM t GROUP BY name;"
        "CREATE MATERIALIZED VIEW f WITH (refresh_policy = 'full') AS SELECT id FROM t"
    )
    return db


def listed(db: laminar.Database, statement: str) -> list[tuple[Any, ...]]:
    found = db.execute(statement)
    assert isinstance(found, laminar.Result)
    return found.rows()


def text(db: laminar.Database, statement: str) -> str:
    return "\n".join(line for (line,) in listed(db, statement))


def test_show_and_describe(db: laminar.Database) -> None:
    assert listed(db, "SHOW TABLES") == [("t", "")]
    assert listed(db, "SHOW SOURCES") == [("src", "datagen")]
    assert listed(db, "SHOW MATERIALIZED VIEWS") == [
        ("s", "incremental", "running"),
        ("f", "full", "running"),
    ]
    assert listed(db, "DESCRIBE S") == [
        ("name", "string", "yes", "", "", ""),
        ("n", "bigint", "yes", "", "", ""),
    ]
    described = [("id", "bigint", "yes", "", "", ""), ("name", "string", "yes", "", "", "")]
    assert listed(db, "DESCRIBE TABLE t") == described
    assert listed(db, "SHOW CREATE TABLE t") == [("CREATE TABLE t (id BIGINT, name STRING)",)]
    with pytest.raises(laminar.UnknownRelation):
        db.execute("DESCRIBE nope")


def test_explain(db: laminar.Database) -> None:
    incremental = text(db, "EXPLAIN MATERIALIZED VIEW s")
    assert "strategy: incremental" in incremental
    assert "reads: t" in incremental
    assert "mergeable accumulators" in incremental
    assert "SELECT" in incremental
    full = text(db, "EXPLAIN MATERIALIZED VIEW f")
    assert "strategy: full" in full
    assert "REQUESTED: refresh_policy is full" in full
    planned = text(db, "EXPLAIN CREATE MATERIALIZED VIEW x AS SELECT MAX(id) AS m FROM t")
    assert "view: x" in planned
    assert "strategy: incremental" in planned
    assert ("x", "incremental", "running") not in listed(db, "SHOW MATERIALIZED VIEWS")
    dag = text(db, "EXPLAIN DAG")
    assert "Shared stages: t (2 consumers)" in dag
    assert "t->s" in dag
    assert "Strategy of f: full" in dag
    with pytest.raises(laminar.UnknownRelation):
        db.execute("EXPLAIN MATERIALIZED VIEW t")


def test_if_not_exists(db: laminar.Database) -> None:
    db.execute("CREATE TABLE IF NOT EXISTS T (other STRING)")
    db.execute("CREATE MATERIALIZED VIEW IF NOT EXISTS s AS SELECT nothing FROM nowhere")
    assert [row[:2] for row in listed(db, "DESCRIBE t")] == [("id", "bigint"), ("name", "string")]


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("CREATE SOURCE x (a TIMESTAMP, WATERMARK FOR a AS f(a))", laminar.NotSupported),
        ("CREATE SOURCE x (a INT, WATERMARK FOR a AS a)", laminar.NotSupported),
        ("CREATE MATERIALIZED VIEW x AS SELECT id FROM t EMIT AFTER WATERMARK", laminar.NoWindow),
        ("CREATE MATERIALIZED VIEW x AS SELECT id FROM t EMIT FINAL", laminar.NoWindow),
        (
            "CREATE MATERIALIZED VIEW x AS SELECT id FROM t ALLOW LATENESS INTERVAL '1' MINUTE",
            laminar.NoWindow,
        ),
        (
            "CREATE MATERIALIZED VIEW x AS SELECT id FROM t LATE DATA TO y",
            laminar.NotSupported,
        ),
        ("CREATE MATERIALISED VIEW x AS SELECT 1", laminar.SqlSyntaxError),
    ],
)
def test_what_is_not_done_is_refused(
    shared: laminar.Database, statement: str, error: type[laminar.LaminarError]
) -> None:
    before = shared.execute("SHOW MATERIALIZED VIEWS").rows(), shared.execute("SHOW TABLES").rows()
    with pytest.raises(error) as caught:
        shared.execute(f"SELECT 1;\n{statement}")
    assert caught.value.code.startswith("LMR-")
    if isinstance(caught.value, laminar.SqlError):
        assert caught.value.line == 2
    after = shared.execute("SHOW MATERIALIZED VIEWS").rows(), shared.execute("SHOW TABLES").rows()
    assert after == before


def test_a_script_with_a_typing_mistake_does_nothing_at_all(db: laminar.Database) -> None:
    with pytest.raises(laminar.SqlSyntaxError):
        db.execute("CREATE TABLE first (a INT);\nCREAT TABLE second (a INT)")
    assert listed(db, "SHOW TABLES") == [("t", "")]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name", ["ohlc_1", "order", "select me", "Größe", "日本", "it's", 'say "hi"', "1st", "c1"]
)
def test_names_may_be_anything(shared: laminar.Database, name: str) -> None:
    quoted = f"`{name}`"
    shared.execute(
        f"CREATE TABLE {quoted} ({quoted} BIGINT, c2 BIGINT);"
        f"CREATE MATERIALIZED VIEW `{name}m` AS"
        f" SELECT {quoted}, SUM(c2) AS `sum of {name}` FROM {quoted} GROUP BY {quoted}"
    )
    shared.insert(name, [(1, 2), (1, 3)])
    shared.step()
    shared.execute(f"UPDATE {quoted} SET {quoted} = {quoted} + 1 WHERE {quoted}.c2 = 2")
    shared.step()
    found = shared.sql(f"SELECT * FROM `{name}M` ORDER BY 1").dicts()
    assert found == [
        {name: 1, f"sum of {name}": 3},
        {name: 2, f"sum of {name}": 2},
    ]
    shared.execute(f"DROP TABLE {quoted} CASCADE")
