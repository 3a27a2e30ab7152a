"""A second oracle: DuckDB runs the same statements, and every view holds what it answers.

Spark's recompute cannot tell where a view and Spark are wrong alike, in a rule that Spark gave us or a
row that both lost. So the tables here are DuckDB's own, changed by the same text. A line is a query
that means the same in both: no ties, no NULL whose place is left open, no division of whole numbers,
no ROLLUP or CUBE of no rows (of which Spark makes no row, and DuckDB one, as the standard has it).
"""

# ruff: noqa: E501 - a query is one line

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import laminar
from laminar.errors import LaminarError
from laminar.testing.bags import Row, assert_same_bag

from .queries import TABLES as MADE
from .queries import Writer
from .script import SEED, THOROUGH, tell

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = {
    "t": "id INT, k INT, g STRING, x INT, d DATE, m DECIMAL(8,2)",
    "u": "k INT, w INT, s STRING, day DATE",
    "e": "a INT, b INT",
}

QUERIES = """
SELECT * FROM t
SELECT id + 1 AS a, x * 2 - k AS b, g || '-' || s AS c FROM t CROSS JOIN (SELECT 'z' AS s) z WHERE x > 1 OR g IS NULL
SELECT COALESCE(x, -1) AS a, NULLIF(k, 2) AS b, GREATEST(x, k) AS c, LEAST(x, k, id) AS d FROM t
SELECT CASE WHEN x > 2 THEN 'big' WHEN x IS NULL THEN g ELSE 'small' END AS a, CASE k WHEN 1 THEN m WHEN 2 THEN -m END AS b FROM t
SELECT id, m + 1.5 AS a, m * 3 AS b, ABS(m) AS c FROM t WHERE m BETWEEN -5 AND 50
SELECT id, EXTRACT(YEAR FROM d) AS y, EXTRACT(MONTH FROM d) AS o, d < DATE '2024-03-01' AS c FROM t
SELECT id FROM t WHERE g LIKE 'a%' OR g IN ('b', 'B') OR UPPER(g) = 'C'
SELECT id, LENGTH(g) AS l, SUBSTRING(g, 1, 1) AS f, TRIM(g) AS r, REPLACE(g, 'a', 'o') AS o FROM t
SELECT id, x IS DISTINCT FROM k AS a, NOT (x = k) AS b, x > 1 AND k > 1 AS c, x > 1 OR k > 1 AS o FROM t
SELECT CAST(x AS BIGINT) AS a, CAST(x AS DOUBLE) AS b, CAST(id AS STRING) AS c, CAST(d AS STRING) AS e FROM t
SELECT t.id, u.w FROM t JOIN u ON t.k = u.k
SELECT t.id, u.w FROM t LEFT JOIN u ON t.k = u.k AND u.w > 2
SELECT t.id, u.w FROM t RIGHT JOIN u ON t.k = u.k AND t.x > 2
SELECT t.id, u.w FROM t FULL JOIN u ON t.k = u.k
SELECT t.id, u.w FROM t FULL JOIN u ON t.k = u.k AND t.d = u.day
SELECT t.id, u.w, e.b FROM t JOIN u ON t.k = u.k LEFT JOIN e ON e.a = u.w
SELECT k, id, w FROM t FULL JOIN u USING (k)
SELECT * FROM u NATURAL JOIN (SELECT a AS k, b FROM e) q
SELECT t.id FROM t SEMI JOIN u ON t.k = u.k AND u.w < 5
SELECT t.id FROM t ANTI JOIN u ON t.k = u.k AND u.w < 5
SELECT t.id, u.w FROM t LEFT JOIN u ON t.x < u.w
SELECT t.id, u.w FROM t JOIN u ON t.x < u.w AND t.g <> u.s
SELECT a.id, b.id AS o FROM t a JOIN t b ON a.k = b.x
SELECT a.a, b.b, c.b AS c FROM e a JOIN e b ON a.b = b.a JOIN e c ON b.b = c.a
SELECT t.id, u.w FROM t JOIN u ON t.k IS NOT DISTINCT FROM u.k
SELECT k, COUNT(*) AS n, COUNT(x) AS c, SUM(x) AS s, MIN(x) AS l, MAX(x) AS h, AVG(x) AS a FROM t GROUP BY k
SELECT k, g, SUM(m) AS s, MIN(d) AS f, MAX(g) AS l FROM t GROUP BY k, g
SELECT COUNT(*) AS n, SUM(x) AS s, SUM(m) AS t, MAX(d) AS d, MIN(g) AS g FROM t
SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING COUNT(*) > 1 AND MAX(x) > 3
SELECT COUNT(*) AS n FROM t HAVING COUNT(*) > 3
SELECT k, COUNT(DISTINCT g) AS n, SUM(DISTINCT x) AS s FROM t GROUP BY k
SELECT k, COUNT(*) FILTER (WHERE x > 2) AS n, SUM(x) FILTER (WHERE g = 'a') AS s FROM t GROUP BY k
SELECT k % 2 AS h, BOOL_AND(x > 1) AS a, BOOL_OR(x > 5) AS o FROM t GROUP BY k % 2
SELECT * FROM (SELECT k, g, COUNT(*) AS n, GROUPING(k) AS q FROM t GROUP BY ROLLUP (k, g)) r WHERE EXISTS (SELECT 1 FROM t)
SELECT * FROM (SELECT k, g, SUM(x) AS s FROM t GROUP BY CUBE (k, g)) r WHERE EXISTS (SELECT 1 FROM t)
SELECT k, g, SUM(x) AS s FROM t GROUP BY GROUPING SETS ((k), (g), (k, g))
SELECT k, STDDEV_POP(x) AS s, VAR_SAMP(x) AS v FROM t GROUP BY k
SELECT u.s, SUM(t.m) AS m, COUNT(DISTINCT t.id) AS n FROM t JOIN u ON t.k = u.k GROUP BY u.s
SELECT n, COUNT(*) AS c FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) q GROUP BY n
SELECT DISTINCT k, g FROM t
SELECT DISTINCT d FROM t WHERE d > DATE '2024-01-01'
SELECT k FROM t UNION ALL SELECT w FROM u
SELECT k FROM t UNION SELECT w FROM u
SELECT k FROM t EXCEPT SELECT w FROM u
SELECT k FROM t EXCEPT ALL SELECT w FROM u
SELECT k FROM t INTERSECT SELECT w FROM u
SELECT k FROM t INTERSECT ALL SELECT w FROM u
SELECT k, g FROM t EXCEPT ALL SELECT k, s FROM u UNION ALL SELECT a, 'e' FROM e
SELECT k FROM t UNION SELECT a FROM e INTERSECT SELECT w FROM u
SELECT id, ROW_NUMBER() OVER (PARTITION BY k ORDER BY id, x NULLS FIRST, g NULLS FIRST, d NULLS FIRST, m NULLS FIRST) AS n FROM t
SELECT id, RANK() OVER (ORDER BY x NULLS FIRST) AS r, DENSE_RANK() OVER (PARTITION BY g ORDER BY k DESC NULLS LAST) AS q FROM t
SELECT id, LAG(id) OVER (PARTITION BY k ORDER BY id) AS p, LEAD(id, 2, -1) OVER (PARTITION BY k ORDER BY id) AS f FROM t
SELECT id, SUM(x) OVER (PARTITION BY k) AS s, COUNT(*) OVER () AS n, MAX(m) OVER (PARTITION BY g) AS m FROM t
SELECT id, SUM(id) OVER (PARTITION BY k ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s FROM t
SELECT id, SUM(id) OVER (PARTITION BY k ORDER BY id RANGE BETWEEN 2 PRECEDING AND CURRENT ROW) AS s FROM t
SELECT id, FIRST_VALUE(id) OVER (PARTITION BY k ORDER BY id) AS f, LAST_VALUE(id) OVER (PARTITION BY k ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS l FROM t
SELECT id, NTILE(2) OVER (PARTITION BY k ORDER BY id) AS n, PERCENT_RANK() OVER (PARTITION BY k ORDER BY id) AS p, CUME_DIST() OVER (PARTITION BY k ORDER BY id) AS c FROM t
SELECT * FROM (SELECT id, k, RANK() OVER (PARTITION BY k ORDER BY id DESC) AS r FROM t) q WHERE r = 1
SELECT k, SUM(x) AS s, RANK() OVER (ORDER BY SUM(x) NULLS FIRST) AS r FROM t GROUP BY k
SELECT id, x FROM t ORDER BY x DESC NULLS LAST, id LIMIT 3
SELECT k, COUNT(*) AS n FROM t GROUP BY k ORDER BY n DESC, k NULLS FIRST LIMIT 2 OFFSET 1
WITH q AS (SELECT k, SUM(x) AS s FROM t GROUP BY k) SELECT u.s, q.s AS x FROM q JOIN u ON q.k = u.k
WITH q AS (SELECT k, MAX(x) AS s FROM t GROUP BY k) SELECT a.k, b.k AS o FROM q a JOIN q b ON a.s = b.s WHERE a.k < b.k
WITH p AS (SELECT DISTINCT k FROM t), q AS (SELECT k FROM p EXCEPT SELECT k FROM u) SELECT COUNT(*) AS n FROM q
WITH RECURSIVE r AS (SELECT a, b FROM e WHERE a = 1 UNION ALL SELECT r.a, f.b FROM r JOIN (SELECT * FROM e WHERE a < b) f ON r.b = f.a) SELECT * FROM r
SELECT id FROM t WHERE k IN (SELECT k FROM u)
SELECT id FROM t WHERE k NOT IN (SELECT k FROM u)
SELECT id FROM t WHERE k NOT IN (SELECT k FROM u WHERE k IS NOT NULL)
SELECT id FROM t WHERE (k, g) IN (SELECT k, s FROM u)
SELECT id FROM t WHERE x IN (1, 2, NULL) OR k NOT IN (1, 2)
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.w > t.x)
SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.w > t.x)
SELECT id FROM t WHERE k = 1 OR EXISTS (SELECT 1 FROM u WHERE u.k = t.k)
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND EXISTS (SELECT 1 FROM e WHERE e.a = u.w))
SELECT id, (SELECT MAX(w) FROM u WHERE u.k = t.k) AS m, (SELECT COUNT(*) FROM u WHERE u.k = t.k) AS n FROM t
SELECT id FROM t WHERE x > (SELECT AVG(x) FROM t) OR x = (SELECT MIN(w) FROM u WHERE u.s = t.g)
SELECT k, SUM(x) AS s FROM t GROUP BY k HAVING SUM(x) > (SELECT AVG(w) FROM u)
SELECT t.id, q.n FROM t JOIN LATERAL (SELECT COUNT(*) AS n FROM u WHERE u.k = t.k) q ON TRUE
SELECT t.id, q.w FROM t LEFT JOIN LATERAL (SELECT w FROM u WHERE u.k = t.k AND u.w > 1) q ON TRUE
SELECT id, CASE WHEN k IN (SELECT a FROM e) THEN 'in' WHEN k IS NULL THEN 'none' ELSE 'out' END AS c FROM t
SELECT v.n, COUNT(t.id) AS c FROM (VALUES (1, 'one'), (2, 'two'), (9, 'nine')) AS v(k, n) LEFT JOIN t ON t.k = v.k GROUP BY v.n
""".strip().splitlines()

TOGETHER = 8
"""Views read by one query: each has a column of its own, of rows."""

CHOSEN = QUERIES if THOROUGH else QUERIES[::10]
SEEDS = range(4 if THOROUGH else 1)
EPOCHS = 6 if THOROUGH else 4

IS_SOAK = "LAMINAR_SOAK" in os.environ
FIRST = SEED or int(datetime.now(UTC).strftime("%Y%m%d"))
COUNT = int(os.environ.get("LAMINAR_EXAMPLES", "8")) if IS_SOAK else 1
VIEWS, MOST = (40, 12) if IS_SOAK else (12, 4)
"""Random views in a database, and epochs; `make test-all` runs what it has never run before."""


def literal(chance: random.Random, kind: str) -> str:
    if chance.random() < 0.15:
        return "NULL"
    match kind:
        case "INT":
            return str(chance.choice((1, 1, 2, 3, 4, 7)))
        case "STRING":
            return chance.choice(("'a'", "'ab'", "'b'", "'B'", "'c '", "''"))
        case "DATE":
            return (
                f"DATE '{chance.choice(('2024-02-29', '2024-03-31', '1969-12-31', '2024-10-27'))}'"
            )
    return chance.choice(("0.00", "1.50", "-1.50", "99.99"))


def statements(chance: random.Random, tables: Mapping[str, str], *, fill: bool) -> Iterator[str]:
    """Give changes of some tables, in the SQL of both."""
    for name, ddl in tables.items():
        kinds = [each.split()[1].partition("(")[0] for each in ddl.split(", ")]
        if fill or chance.random() < 0.7:
            rows = [
                f"({', '.join(literal(chance, kind) for kind in kinds)})"
                for _ in range(chance.randint(1, 8 if fill else 3))
            ]
            yield f"INSERT INTO {name} VALUES {', '.join([*rows, rows[0]])}"
        column, other = chance.sample([each.split()[0] for each in ddl.split(", ")[:2]], 2)
        if not fill and chance.random() < 0.4:
            yield f"UPDATE {name} SET {column} = {other} WHERE {other} = {literal(chance, 'INT')}"
        if not fill and chance.random() < 0.3:
            yield f"DELETE FROM {name} WHERE {column} = {literal(chance, 'INT')}"
        if chance.random() < 0.05:
            yield f"DELETE FROM {name}"


def opened() -> duckdb.DuckDBPyConnection:
    """Return a DuckDB that has NULL where Spark has it."""
    duck = duckdb.connect()
    duck.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
    return duck


class Pair:
    """A database and DuckDB with the same tables."""

    def __init__(self, db: laminar.Database, tables: Mapping[str, str]) -> None:
        self.db = db
        self.tables = tables
        self.duck = opened()
        for name, ddl in tables.items():
            self.run(f"CREATE TABLE {name} ({ddl})")

    def run(self, statement: str) -> None:
        self.db.execute(statement)
        self.duck.execute(statement)

    def change(self, chance: random.Random, *, fill: bool) -> None:
        """Change both; an epoch is left to run."""
        for statement in statements(chance, self.tables, fill=fill):
            self.run(statement)
        if not fill:
            self._take_some(chance)

    def _take_some(self, chance: random.Random) -> None:
        """Delete single rows, one of several that are the same."""
        for name in self.tables:
            rows = self.duck.execute(f"SELECT rowid, * FROM {name}").fetchall()
            gone = chance.sample(rows, min(len(rows), chance.randint(0, 2)))
            for number, *_ in gone:
                self.duck.execute(f"DELETE FROM {name} WHERE rowid = {number}")
            if gone:
                self.db.delete(name, [tuple(row) for _, *row in gone])

    def stored(self, views: list[str]) -> dict[str, list[Row]]:
        """Read several views at once."""
        parts = []
        for place, view in enumerate(views):
            cells = ["NULL"] * len(views)
            cells[place] = f"STRUCT({view}.*)"
            listed = ", ".join(f"{cell} AS r{at}" for at, cell in enumerate(cells))
            parts.append(f"SELECT {place} AS view, {listed} FROM {view}")
        found: dict[str, list[Row]] = {view: [] for view in views}
        for place, *cells in self.db.sql(" UNION ALL ".join(parts)).rows():
            found[views[place]].append(tuple(cells[place]))
        return found

    def wrong(self, views: dict[str, str]) -> Iterator[str]:
        """Tell which views and tables are not what DuckDB answers."""
        queries = views | {name: f"FROM {name}" for name in self.tables}
        names = list(queries)
        for at in range(0, len(names), TOGETHER):
            for name, rows in self.stored(names[at : at + TOGETHER]).items():
                try:
                    assert_same_bag(rows, self.answer(queries[name]))
                except AssertionError as error:
                    yield f"{queries[name]}: {error}"

    def answer(self, query: str) -> list[tuple[Any, ...]]:
        return self.duck.execute(query).fetchall()


@pytest.mark.spark
@pytest.mark.parametrize("seed", SEEDS)
def test_views_hold_what_duckdb_answers(spark: SparkSession, seed: int) -> None:
    chance = random.Random(seed)
    views = {f"v{at}": query for at, query in enumerate(CHOSEN)}
    with laminar.connect(spark=spark) as db:
        pair = Pair(db, TABLES)

        def define(names: list[str]) -> None:
            for name in names:
                db.execute(f"CREATE MATERIALIZED VIEW {name} AS {views[name]}")

        define(list(views)[::2])
        for epoch in range(EPOCHS):
            pair.change(chance, fill=epoch == 0)
            db.step()
            if epoch == 0:
                define(list(views)[1::2])
            assert not list(pair.wrong(views)), epoch


NUMBERS = {name: ", ".join(f"{each} INT" for each in columns) for name, columns in MADE.items()}
WORDS = {
    "LEFT SEMI JOIN": "SEMI JOIN",
    "LEFT ANTI JOIN": "ANTI JOIN",
    "<=>": "IS NOT DISTINCT FROM",
}
"""What Spark says otherwise, in the words of both."""
OTHERWISE = ("AVG(", "STDDEV(", "ROLLUP", "CUBE")


def random_query(chance: random.Random, duck: duckdb.DuckDBPyConnection) -> str:
    """Make one up that DuckDB runs, and means the same; it rounds fractions that are cast."""
    while True:
        query = Writer(chance).query(2)[0]
        for word, other in WORDS.items():
            query = query.replace(word, other)
        if not any(word in query for word in OTHERWISE):
            with suppress(duckdb.Error):
                duck.execute(query)
                return query


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_random_views_hold_what_duckdb_answers(spark: SparkSession, seed: int) -> None:
    chance = random.Random(seed)
    views: dict[str, str] = {}
    compared = 0
    with laminar.connect(spark=spark) as db:
        pair = Pair(db, NUMBERS)

        def define(count: int) -> None:
            while len(views) < count:
                name, query = f"v{len(views)}", random_query(chance, pair.duck)
                with suppress(LaminarError):  # Spark takes no nested query there
                    db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
                    views[name] = query

        define(VIEWS // 2)
        for epoch in range(MOST):
            pair.change(chance, fill=epoch == 0)
            db.step()
            if epoch == 0:
                define(VIEWS)
            assert not list(pair.wrong(views)), epoch
            compared += len(views)
    tell(f"duckdb {seed}", compared)


def test_every_query_has_an_answer() -> None:
    """What is always empty proves nothing."""
    chance = random.Random(1)
    seen: set[str] = set()
    duck = opened()
    for name, ddl in TABLES.items():
        duck.execute(f"CREATE TABLE {name} ({ddl})")
    for epoch in range(6):
        for statement in statements(chance, TABLES, fill=epoch == 0):
            duck.execute(statement)
        seen |= {query for query in QUERIES if duck.execute(query).fetchall()}
    assert seen == set(QUERIES)
