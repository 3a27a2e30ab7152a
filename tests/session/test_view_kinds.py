"""One view of each kind of query through all that reads a definition again, not only CREATE."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar.checkpoint.fingerprint import fingerprints, reads_of
from laminar.cli.explain import explained
from laminar.console.stored_dag import Graph
from laminar.runtime.catalog.definitions import to_json
from laminar.runtime.introspection.status import read_status

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TABLES = """
    CREATE SOURCE a (k INT, x INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND);
    CREATE SOURCE b (k INT, y INT, xs ARRAY<INT>, ts TIMESTAMP, WATERMARK FOR ts AS ts);
"""

ASOF = "a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.k = b.k"
SHORT = {
    "v_asof": f"SELECT a.k, x, y, 1 AS one FROM {ASOF}",
}
LONG = {
    "v_tumble": "SELECT TUMBLE_START(ts, INTERVAL '1' MINUTE) AS w, COUNT(*) AS n, 1 AS one FROM a"
    " GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE) EMIT AFTER WATERMARK",
    "v_lateral": "SELECT a.k, m, 1 AS one FROM a,"
    " LATERAL (SELECT MAX(y) AS m FROM b WHERE b.k = a.k) AS l",
    "v_asof_nested": f"SELECT q.k, 1 AS one FROM (SELECT a.k FROM {ASOF}) q WHERE q.k > 0",
    "v_hop": "SELECT HOP_END(ts, INTERVAL '1' MINUTE, INTERVAL '2' MINUTE) AS w, SUM(x) AS s, 1 AS"
    " one FROM a GROUP BY HOP(ts, INTERVAL '1' MINUTE, INTERVAL '2' MINUTE) EMIT CHANGES",
    "v_cumulate": "SELECT CUMULATE_END(ts, INTERVAL '1' MINUTE, INTERVAL '4' MINUTE) AS w, SUM(x)"
    " AS s, 1 AS one FROM a GROUP BY CUMULATE(ts, INTERVAL '1' MINUTE, INTERVAL '4' MINUTE)",
    "v_session": "SELECT k, SESSION_START(ts, INTERVAL '30' SECOND) AS w, COUNT(*) AS n, 1 AS one"
    " FROM a GROUP BY k, SESSION(ts, INTERVAL '30' SECOND)",
    "v_final": "SELECT TUMBLE_START(ts, INTERVAL '1' MINUTE) AS w, COUNT(*) AS n, 1 AS one"
    " FROM a GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE) EMIT FINAL ALLOW LATENESS"
    " INTERVAL '1' SECOND",
    "v_periodic": "SELECT k, COUNT(*) AS n, 1 AS one FROM a GROUP BY k"
    " EMIT PERIODICALLY INTERVAL '1' SECOND",
    "v_late": "SELECT window(ts, '1 minute').end AS w, COUNT(*) AS n, 1 AS one FROM a GROUP BY"
    " window(ts, '1 minute') EMIT ON WINDOW CLOSE LATE DATA TO too_late",
    "v_aging": "SELECT k, 1 AS one FROM a WHERE ts > now() - INTERVAL '36500' DAY",
    "v_lateral_view": "SELECT k, e, 1 AS one FROM b LATERAL VIEW OUTER explode(xs) AS e",
    "v_recursive": "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3)"
    " SELECT a.k, n, 1 AS one FROM a JOIN r ON r.n = a.k",
    "v_with": "WITH a AS (SELECT * FROM b), c AS (SELECT * FROM a) SELECT k, 1 AS one FROM c",
    "v_pivot": "SELECT *, 1 AS one FROM (SELECT k, x FROM a) PIVOT (SUM(x) FOR k IN (1, 2, 3))",
    "v_unpivot": "SELECT *, 1 AS one FROM (SELECT k, x FROM a) UNPIVOT (v FOR c IN (k, x))",
    "v_top": "SELECT k, x, 1 AS one FROM a ORDER BY x DESC LIMIT 2",
    "v_over": "SELECT k, SUM(x) OVER (PARTITION BY k ORDER BY ts) AS s, 1 AS one FROM a",
    "v_exists": "SELECT k, 1 AS one FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
    "v_scalar": "SELECT k, (SELECT MAX(y) FROM b) AS m, 1 AS one FROM a",
    "v_rollup": "SELECT k, SUM(x) AS s, 1 AS one FROM a GROUP BY ROLLUP (k)",
    "v_set": "(SELECT k, 1 AS one FROM a) EXCEPT ALL TABLE c",
    "v_full_join": "SELECT a.k, b.y, 1 AS one FROM a FULL JOIN b ON a.k = b.k AND a.x > b.y",
    "v_interval_join": "SELECT a.k, b.y, 1 AS one FROM a JOIN b ON a.k = b.k"
    " AND a.ts BETWEEN b.ts AND b.ts + INTERVAL '1' MINUTE",
    "v_values": "SELECT a.k, v.n, 1 AS one FROM a JOIN (VALUES (1, 'one')) AS v(k, n) ON a.k = v.k",
}


def rows(db: laminar.Database, name: str) -> list[Any]:
    return sorted(db.sql(f"SELECT * FROM {name}").rows(), key=repr)


def all_rows(db: laminar.Database) -> dict[str, list[Any]]:
    return {name: rows(db, name) for name in db.engine.defined.catalog.definitions}


def more(db: laminar.Database, minute: int) -> None:
    at = f"TIMESTAMP '2026-01-01 10:{minute:02d}:"
    db.execute(
        f"INSERT INTO a VALUES (1, {minute}, {at}10'), (2, 7, {at}20'), (1, 5, {at}50');"
        f"INSERT INTO b VALUES (1, {minute}, array({minute}), {at}05'), (3, 2, array(), {at}06')"
    )
    db.step()


def create(name: str, query: str) -> str:
    return f"CREATE OR REPLACE MATERIALIZED VIEW {name} AS {query}"


@contextmanager
def filled(path: Path, spark: SparkSession, views: dict[str, str]) -> Iterator[laminar.Database]:
    with laminar.connect(path, spark=spark) as db:
        db.execute(TABLES)
        db.execute("CREATE MATERIALIZED VIEW c AS SELECT k, 1 AS one FROM b")
        more(db, 0)
        for name, query in views.items():
            db.execute(create(name, query))
        more(db, 1)
        yield db


@pytest.mark.parametrize(
    "views",
    [SHORT, pytest.param(LONG, marks=pytest.mark.long)],
    ids=["short", "long"],
)
def test_a_definition_is_read_alike_by_all_who_read_it(
    spark: SparkSession, tmp_path: Path, views: dict[str, str]
) -> None:
    with filled(tmp_path, spark, views) as db:
        catalog = to_json(db.engine.defined.catalog.in_order())
        reads = {each["name"]: {name.lower() for name in reads_of(each)} for each in catalog}
        for name in views:
            assert reads[name] == {*db.engine.defined.catalog.programs[name].sources()}, name
            told = db.execute(f"SHOW CREATE {name}").rows()[0][-1]
            assert told == create(name, views[name])
            assert db.execute(f"EXPLAIN MATERIALIZED VIEW {name}").rows()
            assert db.execute(f"EXPLAIN {create(name, views[name])}").rows()
        assert fingerprints(catalog).keys() == {each["name"] for each in catalog}
        assert {each["name"] for each in explained(db)["views"]} >= views.keys()
        assert {each.name for each in read_status(tmp_path).relations} >= views.keys()
        assert Graph.of(db.engine.ledger.manifest)

        then = all_rows(db)
        revision = db.engine.ledger.manifest.revision
        for name, query in views.items():
            db.execute(create(name, f"/* the same */ {query}"))
        assert db.engine.ledger.manifest.revision == revision
        checkpoint = db.checkpoint()
        for name, query in views.items():
            db.execute(create(name, query.replace("1 AS one", "2 AS one")))
            assert all(row[-1] == 2 for row in rows(db, name)), name
        more(db, 2)
        assert all_rows(db) != then
        db.execute(f"RESTORE FROM CHECKPOINT {checkpoint}")
        assert all_rows(db) == then
    with laminar.connect(tmp_path, spark=spark) as db:
        assert all_rows(db) == then
        more(db, 3)
        after = all_rows(db)
        db.restore(checkpoint, definitions="current")
        assert all_rows(db) == then
        more(db, 3)
        assert all_rows(db) == after


@pytest.mark.long
@pytest.mark.parametrize(
    "views",
    [SHORT, pytest.param(LONG, marks=pytest.mark.long)],
    ids=["short", "long"],
)
def test_a_query_is_an_operator_of_a_dag(
    spark: SparkSession, tmp_path: Path, views: dict[str, str]
) -> None:
    plain = {name: query for name, query in views.items() if "EMIT" not in query}
    with filled(tmp_path, spark, plain) as db:
        builder = laminar.DagBuilder(max_fan_out=64)
        reads = {name: db.engine.defined.catalog.programs[name].sources() for name in plain}
        for source in {each for sources in reads.values() for each in sources}:
            builder.source(source)
        for name, query in plain.items():
            builder.operator(f"dag_{name}", query)
            for source in reads[name]:
                builder.connect(source, f"dag_{name}")
        db.run(builder.build())
        more(db, 2)
        for name in plain:
            assert rows(db, f"dag_{name}") == rows(db, name), name
