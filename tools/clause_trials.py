"""One view for every clause of a query: which strategy it gets.

That such views hold what Spark answers is tried in `tests/oracle/cases.py`, in many more ways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from view_trials import FAILS

import laminar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = (
    "CREATE TABLE t (id INT, k INT, g STRING, x INT, y DOUBLE, ts TIMESTAMP, xs ARRAY<INT>)",
    "CREATE TABLE u (k INT, w INT, name STRING, ts TIMESTAMP)",
)

CLAUSES = {
    "SELECT, expressions, aliases": "SELECT id, x + 1 AS a, a * 2 AS b FROM t",
    "SELECT * EXCEPT": "SELECT * EXCEPT (ts) FROM t",
    "WHERE": "SELECT id FROM t WHERE x > 1 AND g LIKE 'a%'",
    "WHERE with now()": "SELECT id FROM t WHERE ts > now() - INTERVAL '1' HOUR",
    "ORDER BY without LIMIT": "SELECT id FROM t ORDER BY x",
    "ORDER BY ... LIMIT, OFFSET": "SELECT id FROM t ORDER BY x, id LIMIT 3 OFFSET 1",
    "LIMIT without ORDER BY": "SELECT id FROM t LIMIT 3",
    "SORT BY": "SELECT id FROM t SORT BY x",
    "DISTRIBUTE BY, CLUSTER BY": "SELECT id FROM t CLUSTER BY x",
    "DISTINCT": "SELECT DISTINCT g FROM t",
    "VALUES": "SELECT * FROM VALUES (1, 'a'), (2, 'b') AS v(n, s)",
    "range(...) in FROM": "SELECT id FROM range(5)",
    "TABLE t": "TABLE t",
    "FROM t SELECT": "FROM t SELECT id WHERE x > 1",
    "pipes": "FROM t |> WHERE x > 1 |> AGGREGATE COUNT(*) AS n GROUP BY k",
    "pipes: LIMIT, then WHERE": "FROM t |> ORDER BY x, id |> LIMIT 3 |> WHERE x > 1",
    "TABLESAMPLE": "SELECT id FROM t TABLESAMPLE (50 PERCENT)",
    "TABLESAMPLE REPEATABLE": "SELECT id FROM t TABLESAMPLE (50 PERCENT) REPEATABLE (1)",
    "hints": "SELECT /*+ BROADCAST(u) */ id FROM t JOIN u ON t.k = u.k",
    "INNER JOIN on equal keys": "SELECT id, w FROM t JOIN u ON t.k = u.k",
    "INNER JOIN on other conditions": "SELECT id, w FROM t JOIN u ON t.x > u.w",
    "JOIN USING": "SELECT id, w FROM t JOIN u USING (k)",
    "NATURAL JOIN": "SELECT id, w FROM t NATURAL JOIN u",
    "CROSS JOIN": "SELECT id, w FROM t CROSS JOIN u",
    "LEFT JOIN": "SELECT id, w FROM t LEFT JOIN u ON t.k = u.k",
    "RIGHT JOIN": "SELECT id, w FROM t RIGHT JOIN u ON t.k = u.k",
    "FULL JOIN": "SELECT id, w FROM t FULL JOIN u ON t.k = u.k",
    "LEFT JOIN on equal keys and more": "SELECT id, w FROM t LEFT JOIN u ON t.k = u.k AND x > w",
    "LEFT JOIN on other conditions": "SELECT id, w FROM t LEFT JOIN u ON t.x > u.w",
    "FULL JOIN on equal keys and more": "SELECT id, w FROM t FULL JOIN u ON t.k = u.k AND x > w",
    "FULL JOIN on other conditions": "SELECT id, w FROM t FULL JOIN u ON t.x > u.w",
    "LEFT SEMI JOIN": "SELECT id FROM t LEFT SEMI JOIN u ON t.k = u.k",
    "LEFT ANTI JOIN": "SELECT id FROM t LEFT ANTI JOIN u ON t.k = u.k",
    "LEFT SEMI JOIN on equal keys and more": "SELECT id FROM t SEMI JOIN u ON t.k = u.k AND x > w",
    "LEFT ANTI JOIN on other conditions": "SELECT id FROM t ANTI JOIN u ON t.x > u.w",
    "ASOF JOIN": "SELECT id, w FROM t ASOF JOIN u MATCH_CONDITION (t.ts >= u.ts) ON t.k = u.k",
    "LATERAL subquery": "SELECT id, m FROM t, LATERAL (SELECT MAX(w) AS m FROM u WHERE u.k = t.k)",
    "LATERAL VIEW": "SELECT id, e FROM t LATERAL VIEW EXPLODE(xs) q AS e",
    "LATERAL VIEW OUTER": "SELECT id, e FROM t LATERAL VIEW OUTER POSEXPLODE(xs) q AS p, e",
    "generator in SELECT": "SELECT id, EXPLODE(xs) AS e FROM t",
    "STACK with a computed number of rows": "SELECT STACK(1 + 1, k, x) AS v FROM t",
    "UNION ALL": "SELECT k FROM t UNION ALL SELECT k FROM u",
    "UNION": "SELECT k FROM t UNION SELECT k FROM u",
    "INTERSECT": "SELECT k FROM t INTERSECT SELECT k FROM u",
    "INTERSECT ALL": "SELECT k FROM t INTERSECT ALL SELECT k FROM u",
    "EXCEPT": "SELECT k FROM t EXCEPT SELECT k FROM u",
    "EXCEPT ALL": "SELECT k FROM t EXCEPT ALL SELECT k FROM u",
    "GROUP BY": "SELECT k, COUNT(*) AS n, SUM(x) AS s, AVG(x) AS a, MAX(x) AS m FROM t GROUP BY k",
    "GROUP BY ALL": "SELECT k, COUNT(*) AS n FROM t GROUP BY ALL",
    "aggregates without GROUP BY": "SELECT COUNT(*) AS n, SUM(x) AS s FROM t",
    "COUNT(DISTINCT ...)": "SELECT k, COUNT(DISTINCT g) AS n FROM t GROUP BY k",
    "FILTER (WHERE ...)": "SELECT k, COUNT(*) FILTER (WHERE x > 1) AS n FROM t GROUP BY k",
    "WITHIN GROUP": "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x) AS p FROM t GROUP BY k",
    "HAVING": "SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING COUNT(*) > 1",
    "GROUPING SETS": "SELECT g, k, COUNT(*) AS n FROM t GROUP BY GROUPING SETS ((g, k), (g), ())",
    "ROLLUP": "SELECT g, k, COUNT(*) AS n, GROUPING_ID() AS i FROM t GROUP BY ROLLUP (g, k)",
    "CUBE": "SELECT g, k, COUNT(*) AS n, GROUPING(g) AS i FROM t GROUP BY CUBE (g, k)",
    "GROUP BY window(...)": "SELECT window.start AS a, COUNT(*) AS n FROM t GROUP BY "
    "window(ts, '1 hour')",
    "GROUP BY session_window(...)": "SELECT session_window.start AS a, COUNT(*) AS n FROM t GROUP "
    "BY session_window(ts, '1 hour')",
    "OVER (PARTITION BY ... ORDER BY)": "SELECT id, RANK() OVER (PARTITION BY k ORDER BY x) AS r "
    "FROM t",
    "OVER without PARTITION BY": "SELECT id, RANK() OVER (ORDER BY x) AS r FROM t",
    "OVER with ROWS BETWEEN": "SELECT SUM(x) OVER (PARTITION BY k ORDER BY id ROWS BETWEEN 1 "
    "PRECEDING AND 1 FOLLOWING) AS s FROM t",
    "OVER with RANGE BETWEEN": "SELECT SUM(x) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN "
    "INTERVAL '1' HOUR PRECEDING AND CURRENT ROW) AS s FROM t",
    "WINDOW w AS": "SELECT SUM(x) OVER w AS s FROM t WINDOW w AS (PARTITION BY k)",
    "QUALIFY": "SELECT id FROM t QUALIFY RANK() OVER (PARTITION BY k ORDER BY x) = 1",
    "PIVOT": "SELECT * FROM (SELECT k, g, x FROM t) PIVOT (SUM(x) FOR g IN ('a', 'b'))",
    "UNPIVOT": "SELECT * FROM (SELECT id, k, x FROM t) UNPIVOT (v FOR n IN (k, x))",
    "WITH": "WITH c AS (SELECT k, COUNT(*) AS n FROM t GROUP BY k) SELECT n FROM c",
    "WITH RECURSIVE": "WITH RECURSIVE r(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM r WHERE v < 3) "
    "SELECT v FROM r JOIN t ON v = k",
    "EXISTS": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
    "NOT EXISTS": "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
    "IN (SELECT ...)": "SELECT id FROM t WHERE k IN (SELECT k FROM u)",
    "NOT IN (SELECT ...)": "SELECT id FROM t WHERE k NOT IN (SELECT k FROM u)",
    "EXISTS under OR": "SELECT id FROM t WHERE x > 1 OR EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
    "EXISTS on more than equal keys": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE "
    "u.k = t.k AND w < x)",
    "scalar subquery": "SELECT id, (SELECT MAX(w) FROM u) AS m FROM t",
    "correlated scalar subquery": "SELECT id, (SELECT SUM(w) FROM u WHERE u.k = t.k) AS m FROM t",
    "LIMIT in a correlated subquery": "SELECT id, (SELECT w FROM u WHERE u.k = t.k ORDER BY w "
    "LIMIT 1) AS m FROM t",
    "TRANSFORM ... USING a script": "SELECT TRANSFORM (id) USING 'cat' AS (a STRING) FROM t",
    "VERSION AS OF": "SELECT id FROM t VERSION AS OF 1",
}


def try_clauses(spark: SparkSession) -> dict[str, str]:
    """Return the strategy of a view with each clause, or why it is refused."""
    with laminar.connect(spark=spark) as db:
        for table in TABLES:
            db.execute(table)
        return {clause: _strategy(db, query) for clause, query in CLAUSES.items()}


def _strategy(db: laminar.Database, query: str) -> str:
    try:
        db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    except FAILS as error:
        message = getattr(error, "message", str(error)).removeprefix('view "v" ')
        return f"refused: {getattr(error, 'code', 'bare')}, {message}"
    program = db.engine.defined.catalog.programs["v"]
    db.execute("DROP MATERIALIZED VIEW v")
    return program.strategy.value.replace("_", " ")
