"""Every operator as a view: one line each. Kinds share a database, tables and a script."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Row = tuple[Any, ...]

TABLES = {
    "t": "id INT, k INT, g STRING, x INT, y DOUBLE, d DECIMAL(10,3), b BOOLEAN, ts TIMESTAMP",
    "u": "k INT, w BIGINT, name STRING",
    "s": "k INT, tag STRING",
    "n": "id INT, st STRUCT<a: INT, b: STRING>, xs ARRAY<INT>, m MAP<STRING, INT>",
    "p": "id INT, big DECIMAL(38,18), wide DECIMAL(20,4), f FLOAT, y DOUBLE, ti TINYINT, "
    "da DATE, ntz TIMESTAMP_NTZ, bin BINARY",
    "odd": "`select` INT, `größe` INT, `a b` STRING, c1 INT, c2 INT, `back``tick` INT",
}


@dataclass(frozen=True)
class Case:
    """A view and the strategy it must get: I(ncremental), G(roups) or F(ull)."""

    name: str
    sql: str
    strategy: str = "I"


C = Case

LINEAR = [
    C("project", "SELECT k, x + 1 AS x1, y * 2 AS y2 FROM t"),
    C("star", "SELECT * FROM t"),
    C("star_except", "SELECT * EXCEPT (y, ts) FROM t"),
    C("star_table", "SELECT t.*, x + 1 AS more FROM t"),
    C("filter", "SELECT k, g FROM t WHERE x > 3 AND g <> 'b' OR b"),
    C("filter_null", "SELECT id FROM t WHERE g IS NULL OR x IS NOT NULL AND NOT b"),
    C("between_in", "SELECT id FROM t WHERE x BETWEEN 2 AND 5 AND k IN (1, 2, NULL)"),
    C("null_safe", "SELECT id, k <=> x AS same, k IS DISTINCT FROM x AS other FROM t"),
    C("case", "SELECT id, CASE WHEN x > 5 THEN 'hi' WHEN x > 2 THEN g ELSE 'lo' END AS c FROM t"),
    C("simple_case", "SELECT CASE g WHEN 'a' THEN 1 WHEN 'b' THEN 2 END AS c FROM t"),
    C("cast", "SELECT CAST(x AS STRING) AS s, CAST(y AS INT) AS i, CAST(d AS DOUBLE) AS f FROM t"),
    C("try_cast", "SELECT TRY_CAST(g AS INT) AS i, x::BIGINT AS l FROM t"),
    C("quotes", "SELECT 'it''s' AS a, \"dou\"\"ble\" AS b, 'a\\'b' AS c, 'l\\nm' AS d, g FROM t"),
    C("raw", "SELECT r'a\\d' AS r, g RLIKE '[ab]' AS m, g LIKE 'a%' AS l FROM t"),
    C("literals", "SELECT 1L AS l, 2S AS s, 3Y AS y, 1.5BD AS d, 1e3 AS e, X'1F' AS h, id FROM t"),
    C("arith", "SELECT x DIV 2 AS q, x % 3 AS r, -x AS n, x / 4 AS f, k & x AS a FROM t"),
    C("strings", "SELECT UPPER(g) || '-' || CAST(k AS STRING) AS s, SUBSTRING(g, 1, 1) AS c FROM t"),
    C("coalesce", "SELECT COALESCE(g, 'none') AS g, NVL(x, -1) AS x, IF(b, 1, 0) AS i FROM t"),
    C("dates", "SELECT DATE(ts) AS d, HOUR(ts) AS h, DATE_TRUNC('HOUR', ts) AS u FROM t"),
    C("dates_more", "SELECT ts + INTERVAL '1' DAY AS n, DATE_ADD(DATE(ts), 3) AS a, "
      "DATEDIFF(DATE(ts), DATE '2026-01-01') AS d, EXTRACT(DAY FROM ts) AS e FROM t"),
    C("zones", "SELECT TO_UTC_TIMESTAMP(ts, 'Europe/Berlin') AS a, DATE_FORMAT(ts, 'HH:mm') AS f, "
      "TIMESTAMP '2026-01-01 00:00:00+02:00' AS l, ts > TIMESTAMP '2026-01-02 00:00:00' AS c FROM t"),
    C("alias_reuse", "SELECT x + 1 AS one, one + 1 AS two FROM t"),
    C("struct_make", "SELECT STRUCT(k, g AS name, x + 1) AS s, NAMED_STRUCT('q', x) AS q FROM t"),
    C("struct_json", "SELECT TO_JSON(STRUCT(k, g)) AS j FROM t"),
    C("struct_star", "SELECT TO_JSON(STRUCT(*)) AS j FROM u", "F"),
    C("count_all_columns", "SELECT COUNT(u.*) AS n, COUNT(k, w) AS m FROM u", "F"),
    C("arrays_zip", "SELECT TO_JSON(ARRAYS_ZIP(xs, xs)) AS j FROM n", "F"),
    C("struct_field", "SELECT st.a, n.st.b AS sb, st.a + 1 AS a1 FROM n"),
    C("array_item", "SELECT id, xs[0] AS h, SIZE(xs) AS z, ELEMENT_AT(m, 'p') AS p, m['q'] AS q "
      "FROM n WHERE SIZE(xs) > 0"),
    C("array_functions", "SELECT SORT_ARRAY(xs) AS s, ARRAY_CONTAINS(xs, 2) AS c, "
      "ARRAY_DISTINCT(xs) AS d, CONCAT(xs, ARRAY(9)) AS n, MAP_KEYS(m) AS k FROM n"),
    C("higher_order", "SELECT id, TRANSFORM(xs, e -> e + id) AS t, FILTER(xs, e -> e > 1) AS f, "
      "AGGREGATE(xs, 0, (acc, e) -> acc + COALESCE(e, 0)) AS s FROM n"),
    C("higher_order_shadow", "SELECT TRANSFORM(xs, id -> id * 2) AS t, "
      "TRANSFORM(xs, (e, i) -> e + i) AS ti FROM n"),
    C("array_exists", "SELECT id FROM n WHERE EXISTS(xs, e -> e > 2)"),
    C("nested_columns", "SELECT id, st, xs, m FROM n"),
    C("map_filter", "SELECT MAP_FILTER(m, (k, v) -> v > 1) AS f FROM n"),
    C("union_all", "SELECT k, x FROM t UNION ALL SELECT k, w FROM u UNION ALL SELECT 1, 2"),
    C("union_all_widen", "SELECT k AS v FROM t UNION ALL SELECT y FROM t UNION ALL SELECT d FROM t"),
    C("values", "SELECT * FROM VALUES (1, 'a'), (2, NULL) AS v(n, s)"),
    C("values_join", "SELECT t.id, v.s FROM t JOIN (VALUES (1, 'one'), (2, 'two')) AS v(k, s) USING (k)"),
    C("no_from", "SELECT 1 AS one, 'a' AS a"),
    C("null_literal", "SELECT id, NULL AS nothing FROM t"),
    C("order_only", "SELECT id, x FROM t ORDER BY x DESC NULLS LAST"),
    C("odd_names", "SELECT `select`, `größe` + 1 AS `mehr größe`, `a b`, `back``tick` FROM odd"),
    C("odd_star", "SELECT odd.*, c1 + 1 AS more FROM odd"),
    C("odd_unique", "SELECT c2 AS c1, c1 AS c2 FROM odd WHERE c1 > c2"),
    C("odd_groups", "SELECT `a b`, SUM(c1) AS c2, MAX(`größe`) AS `sel.ect` FROM odd GROUP BY `a b`"),
    C("explode_view", "SELECT id, e FROM n LATERAL VIEW EXPLODE(xs) q AS e"),
    C("explode_outer", "SELECT id, e FROM n LATERAL VIEW OUTER EXPLODE(xs) q AS e WHERE id > 1"),
    C("posexplode", "SELECT id, pos, e FROM n LATERAL VIEW POSEXPLODE(xs) q AS pos, e"),
    C("explode_map", "SELECT id, mk, mv FROM n LATERAL VIEW EXPLODE(m) q AS mk, mv"),
    C("explode_twice", "SELECT id, e, f FROM n LATERAL VIEW EXPLODE(xs) a AS e "
      "LATERAL VIEW EXPLODE(MAP_KEYS(m)) b AS f"),
    C("explode_select", "SELECT id, EXPLODE(xs) AS e FROM n"),
    C("explode_select_outer", "SELECT id, EXPLODE_OUTER(xs) AS e FROM n"),
    C("posexplode_select", "SELECT id, POSEXPLODE(xs) AS (p, e) FROM n"),
    C("inline", "SELECT id, a, b FROM n LATERAL VIEW INLINE(ARRAY(st)) q AS a, b"),
    C("explode_group", "SELECT e, COUNT(*) AS c FROM n LATERAL VIEW EXPLODE(xs) q AS e GROUP BY e"),
    C("split", "SELECT id, w FROM t LATERAL VIEW EXPLODE(SPLIT(CONCAT(g, ',', g), ',')) q AS w"),
    C("recursive", "WITH RECURSIVE r(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM r WHERE v < 3) "
      "SELECT v, COUNT(id) AS c FROM r LEFT JOIN t ON v = k GROUP BY v", "F"),
]

AGGREGATES = [
    C("count", "SELECT k, COUNT(*) AS n, COUNT(x) AS nx, COUNT(1) AS o FROM t GROUP BY k"),
    C("sum", "SELECT g, SUM(x) AS sx, SUM(w2) AS sw FROM (SELECT g, x, x * 2L AS w2 FROM t) GROUP BY g"),
    C("sum_double", "SELECT g, SUM(y) AS sy, AVG(y) AS ay FROM t GROUP BY g"),
    C("avg", "SELECT k, AVG(x) AS a, AVG(d) AS ad, SUM(d) AS sd FROM t GROUP BY k"),
    C("min_max", "SELECT k, MIN(x) AS lo, MAX(g) AS hi, MAX(ts) AS late, MIN(y) AS ly FROM t GROUP BY k"),
    C("min_max_struct", "SELECT k, MAX(STRUCT(x, id)) AS m, MIN(b) AS b FROM t GROUP BY k"),
    C("bools", "SELECT k, BOOL_AND(b) AS a, BOOL_OR(b) AS o, EVERY(x > 1) AS e, SOME(b) AS s, "
      "ANY(x > 6) AS y, COUNT_IF(b) AS c FROM t GROUP BY k"),
    C("by", "SELECT k, MAX_BY(g, STRUCT(x, id)) AS m, MIN_BY(x, id) AS n FROM t GROUP BY k"),
    C("filter_clause", "SELECT k, COUNT(*) FILTER (WHERE x > 3) AS c, SUM(x) FILTER (WHERE b) AS s, "
      "MAX(x) FILTER (WHERE g = 'a') AS m, AVG(y) FILTER (WHERE x < 5) AS a FROM t GROUP BY k"),
    C("distinct_count", "SELECT k, COUNT(DISTINCT g) AS n, SUM(DISTINCT x) AS s, "
      "COUNT(DISTINCT g, x) AS m, COUNT(*) AS c FROM t GROUP BY k", "G"),
    C("variance", "SELECT k, STDDEV(x) AS s, VARIANCE(y) AS v, STDDEV_POP(x) AS p, VAR_POP(x) AS q "
      "FROM t GROUP BY k", "G"),
    C("collect", "SELECT k, SORT_ARRAY(COLLECT_LIST(x)) AS l, SORT_ARRAY(COLLECT_SET(g)) AS s "
      "FROM t GROUP BY k", "G"),
    C("percentile", "SELECT k, PERCENTILE(x, 0.5) AS m, MEDIAN(y) AS d, BIT_XOR(x) AS bx "
      "FROM t GROUP BY k", "G"),
    C("corr", "SELECT k, ROUND(CORR(x, y), 6) AS c, ROUND(COVAR_POP(x, y), 6) AS v FROM t GROUP BY k", "G"),
    C("global", "SELECT COUNT(*) AS n, SUM(x) AS s, MAX(y) AS m, AVG(d) AS a FROM t"),
    C("global_filtered", "SELECT COUNT(*) AS n, MIN(x) AS m FROM t WHERE x > 1000"),
    C("global_other", "SELECT COUNT(DISTINCT g) AS n FROM u JOIN t USING (k)", "G"),
    C("global_empty", "SELECT COUNT(*) AS n, SUM(w) AS s, BOOL_OR(w > 1) AS b FROM u WHERE w > 1000"),
    C("key_expression", "SELECT x % 3 AS r, UPPER(g) AS u, COUNT(*) AS n FROM t GROUP BY x % 3, UPPER(g)"),
    C("key_alias", "SELECT x % 3 AS r, COUNT(*) + 1 AS n, r * 2 AS rr FROM t GROUP BY r"),
    C("key_position", "SELECT g, b, SUM(x) AS s FROM t GROUP BY 1, 2"),
    C("group_by_all", "SELECT g, k, MAX(x) AS m FROM t GROUP BY ALL"),
    C("key_double", "SELECT y, COUNT(*) AS n FROM t GROUP BY y"),
    C("having", "SELECT k, SUM(x) AS s FROM t GROUP BY k HAVING SUM(x) > 8 AND COUNT(*) > 1"),
    C("having_alias", "SELECT k, SUM(x) AS s FROM t GROUP BY k HAVING s > 8"),
    C("having_global", "SELECT SUM(x) AS s FROM t HAVING COUNT(*) > 5"),
    C("arith_over", "SELECT k, SUM(x) / COUNT(*) AS r, MAX(x) - MIN(x) AS span, k + SUM(x) AS q "
      "FROM t GROUP BY k"),
    C("no_calls", "SELECT k, g FROM t GROUP BY k, g"),
    C("distinct", "SELECT DISTINCT g, b FROM t"),
    C("distinct_expression", "SELECT DISTINCT x % 2 AS p, y FROM t WHERE id > 2"),
    C("distinct_over", "SELECT DISTINCT COUNT(*) AS n FROM t GROUP BY k"),
    C("rollup", "SELECT g, b, SUM(x) AS s, COUNT(*) AS n FROM t GROUP BY ROLLUP (g, b)"),
    C("cube", "SELECT g, k, SUM(x) AS s, GROUPING(g) AS gg, GROUPING_ID() AS gi FROM t GROUP BY CUBE (g, k)"),
    C("sets", "SELECT g, k, MAX(x) AS m, GROUPING(k) AS gk FROM t "
      "GROUP BY GROUPING SETS ((g, k), (g), (), (g))"),
    C("with_rollup", "SELECT g, COUNT(*) AS n FROM t GROUP BY g WITH ROLLUP"),
    C("rollup_mixed", "SELECT b, g, k, SUM(x) AS s FROM t GROUP BY b, ROLLUP (g, k)"),
    C("rollup_having", "SELECT g, SUM(x) AS s FROM t GROUP BY ROLLUP (g) HAVING GROUPING(g) = 1 OR SUM(x) > 5"),
    C("rollup_argument", "SELECT k, SUM(k) AS s FROM t GROUP BY ROLLUP (k)"),
    C("twice", "SELECT MAX(s) AS m, COUNT(*) AS n FROM (SELECT k, SUM(x) AS s FROM t GROUP BY k)"),
    C("twice_double", "SELECT SUM(s) AS m, COUNT(*) AS n FROM (SELECT k, SUM(y) AS s FROM t GROUP BY k)"),
    C("thrice", "SELECT n, COUNT(*) AS c FROM (SELECT g, COUNT(*) AS n FROM "
      "(SELECT g, k, MIN(x) AS m FROM t GROUP BY g, k) GROUP BY g) GROUP BY n"),
    C("decimals", "SELECT ti, SUM(big) AS sb, AVG(wide) AS aw, SUM(wide) AS sw, MAX(big) AS mb, "
      "AVG(big) AS ab FROM p GROUP BY ti", "G"),
    C("decimals_merged", "SELECT ti, SUM(big) AS sb, SUM(wide) AS sw, MIN(big) AS mb FROM p GROUP BY ti"),
    C("decimal_avg", "SELECT k, AVG(CAST(d AS DECIMAL(12,5))) AS a, AVG(CAST(x AS DECIMAL(18,2)) / 3) AS b, "
      "AVG(CAST(x AS DECIMAL(5,0))) AS c FROM t GROUP BY k", "G"),
    C("decimal_avg_merged", "SELECT k, AVG(CAST(d AS DECIMAL(12,5))) AS a, "
      "AVG(CAST(x AS DECIMAL(18,2))) AS b, AVG(CAST(x AS DECIMAL(5,0))) AS c FROM t GROUP BY k"),
    C("floats", "SELECT ti, SUM(f) AS s, AVG(f) AS a, MAX(f) AS m, SUM(y) AS sy FROM p GROUP BY ti"),
    C("floats_read", "SELECT SUM(s) AS s, COUNT(*) AS n FROM "
      "(SELECT ti, SUM(y) AS s, AVG(f) AS a FROM p GROUP BY ti)"),
    C("narrow", "SELECT SUM(ti) AS s, AVG(ti) AS a, MIN(da) AS d, MAX(ntz) AS z, MAX(bin) AS b FROM p"),
    C("key_date", "SELECT da, ntz, COUNT(*) AS n FROM p GROUP BY da, ntz"),
    C("key_nested", "SELECT st, xs, COUNT(*) AS n FROM n GROUP BY st, xs"),
    C("key_map", "SELECT m, COUNT(*) AS c FROM n GROUP BY m"),
    C("distinct_nested", "SELECT DISTINCT xs, st.a AS a FROM n"),
    C("zoned_days", "SELECT DATE(FROM_UTC_TIMESTAMP(ts, 'America/New_York')) AS d, COUNT(*) AS n "
      "FROM t GROUP BY 1"),
    C("if_inside", "SELECT SUM(CASE WHEN b THEN x ELSE 0 END) AS s, SUM(IF(g = 'a', 1, 0)) AS a FROM t"),
    C("interval_sum", "SELECT k, SUM(ts - TIMESTAMP '2026-01-01 00:00:00') AS s FROM t GROUP BY k", "G"),
    C("count_null", "SELECT COUNT(NULL) AS n, COUNT(g) AS m FROM t"),
    C("tumble", "SELECT WINDOW(ts, '1 hour').start AS s, COUNT(*) AS n FROM t GROUP BY WINDOW(ts, '1 hour')"),
]

JOINS = [
    C("inner", "SELECT t.id, u.name FROM t JOIN u ON t.k = u.k"),
    C("inner_using", "SELECT k, id, name FROM t JOIN u USING (k)"),
    C("using_star", "SELECT * FROM t JOIN s USING (k)"),
    C("inner_more", "SELECT t.id, u.w FROM t JOIN u ON t.k = u.k AND t.x > u.w"),
    C("theta", "SELECT t.id, u.w FROM t JOIN u ON t.x > u.w"),
    C("null_safe_join", "SELECT t.id, u.w FROM t JOIN u ON t.k <=> u.k"),
    C("cross", "SELECT t.id, s.tag FROM t CROSS JOIN s"),
    C("comma", "SELECT t.id, u.name, s.tag FROM t, u, s WHERE t.k = u.k AND u.k = s.k AND t.x > 1"),
    C("three", "SELECT t.id, u.name, s.tag FROM t JOIN u ON t.k = u.k JOIN s ON s.k = u.k"),
    C("four", "SELECT t.id, a.tag, o.c1 FROM t JOIN u ON t.k = u.k JOIN s a ON a.k = t.k "
      "JOIN odd o ON o.c1 = u.k"),
    C("self", "SELECT a.id AS l, b.id AS r FROM t a JOIN t b ON a.k = b.k AND a.id < b.id"),
    C("self_three", "SELECT COUNT(*) AS n FROM s a JOIN s b ON a.k = b.k JOIN s c ON b.tag = c.tag"),
    C("left", "SELECT t.id, u.name FROM t LEFT JOIN u ON t.k = u.k"),
    C("left_using", "SELECT k, id, w FROM t LEFT JOIN u USING (k)"),
    C("right", "SELECT t.id, u.name FROM t RIGHT JOIN u ON t.k = u.k"),
    C("right_using", "SELECT k, id, w FROM t RIGHT OUTER JOIN u USING (k)"),
    C("full", "SELECT t.id, u.name FROM t FULL OUTER JOIN u ON t.k = u.k"),
    C("full_using", "SELECT k, id, w FROM t FULL JOIN u USING (k)"),
    C("left_filtered", "SELECT t.id, u.w FROM t LEFT JOIN u ON t.k = u.k AND u.w > 2 AND t.b"),
    C("left_where", "SELECT t.id FROM t LEFT JOIN u ON t.k = u.k WHERE u.k IS NULL"),
    C("left_mixed", "SELECT t.id, u.w FROM t LEFT JOIN u ON t.k = u.k AND t.x > u.w", "G"),
    C("right_mixed", "SELECT t.id, u.w FROM t RIGHT JOIN u ON t.k = u.k AND t.x > u.w", "G"),
    C("full_mixed", "SELECT t.id, u.w FROM t FULL JOIN u ON t.k = u.k AND t.x > u.w", "G"),
    C("two_keys", "SELECT a.id, b.id AS o FROM t a FULL JOIN t b ON a.k = b.x AND a.g = b.g"),
    C("left_null_safe", "SELECT t.id, u.w FROM t LEFT JOIN u ON t.k <=> u.k", "F"),
    C("left_theta", "SELECT t.id, u.w FROM t LEFT JOIN u ON t.x > u.w", "F"),
    C("left_twice", "SELECT t.id, u.name, s.tag FROM t LEFT JOIN u ON t.k = u.k LEFT JOIN s ON u.k = s.k"),
    C("left_inner", "SELECT t.id, s.tag FROM t LEFT JOIN u ON t.k = u.k JOIN s ON s.k = t.k WHERE t.x > 1"),
    C("semi", "SELECT id, g FROM t LEFT SEMI JOIN u ON t.k = u.k"),
    C("anti", "SELECT id, g FROM t LEFT ANTI JOIN u ON t.k = u.k"),
    C("semi_filtered", "SELECT id FROM t LEFT SEMI JOIN u ON t.k = u.k AND u.w > 3"),
    C("anti_filtered", "SELECT id FROM t LEFT ANTI JOIN u ON t.k = u.k AND t.b AND u.w > 1"),
    C("semi_mixed", "SELECT id FROM t LEFT SEMI JOIN u ON t.k = u.k AND t.x > u.w", "G"),
    C("anti_mixed", "SELECT id FROM t LEFT ANTI JOIN u ON t.k = u.k AND t.x > u.w", "G"),
    C("semi_duplicates", "SELECT g FROM t SEMI JOIN s USING (k)"),
    C("join_aggregate", "SELECT t.g, SUM(u.w) AS s, COUNT(*) AS n FROM t JOIN u ON t.k = u.k GROUP BY t.g"),
    C("join_minmax", "SELECT t.g, MAX(u.w) AS m FROM t LEFT JOIN u ON t.k = u.k GROUP BY t.g"),
    C("join_of_groups", "SELECT a.k, a.n, b.s FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) a "
      "JOIN (SELECT k, SUM(w) AS s FROM u GROUP BY k) b ON a.k = b.k"),
    C("left_of_groups", "SELECT a.k, a.n, b.m FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) a "
      "LEFT JOIN (SELECT k, MAX(w) AS m FROM u GROUP BY k) b ON a.k = b.k"),
    C("cast_keys", "SELECT t.id, u.name FROM t JOIN u ON CAST(t.k AS STRING) = CAST(u.k AS STRING)"),
    C("widened_keys", "SELECT t.id FROM t LEFT JOIN u ON t.x = u.w"),
    C("natural", "SELECT * FROM u NATURAL JOIN s", "F"),
    C("expression_keys", "SELECT t.id, u.w FROM t LEFT JOIN u ON t.k + 1 = u.k - 1"),
    C("on_constant", "SELECT t.id, u.w FROM t JOIN u ON t.k = u.k AND 1 = 1 AND u.name = 'n1'"),
    C("join_lateral_view", "SELECT t.id, e FROM t JOIN n ON t.id = n.id LATERAL VIEW EXPLODE(n.xs) q AS e"),
    C("cte_twice", "WITH c AS (SELECT k, COUNT(*) AS n FROM t GROUP BY k) "
      "SELECT a.k, a.n, b.n AS m FROM c a JOIN c b ON a.n = b.n"),
    C("cte_nested", "WITH a AS (SELECT k, x FROM t WHERE x > 1), b AS (WITH z AS (SELECT k, MAX(x) AS m "
      "FROM a GROUP BY k) SELECT * FROM z WHERE m > 2) SELECT b.k, m, w FROM b JOIN u ON b.k = u.k"),
    C("cte_columns", "WITH c(p, q) AS (SELECT k, SUM(x) FROM t GROUP BY k) SELECT q, p FROM c"),
    C("cte_shadow", "WITH t AS (SELECT id, k FROM t WHERE x > 2) SELECT id, w FROM t JOIN u USING (k)"),
    C("subquery_from", "SELECT q.k, q.n FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS q WHERE n > 1"),
    C("unique_clash", "SELECT s.*, c1, c2 FROM s JOIN odd ON s.k = odd.c1"),
]

SUBQUERIES = [
    C("exists", "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.w > 2)"),
    C("not_exists", "SELECT id FROM t WHERE NOT EXISTS (SELECT * FROM u WHERE u.k = t.k)"),
    C("exists_uncorrelated", "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE w > 6)"),
    C("not_exists_uncorrelated", "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE w > 6)"),
    C("exists_two", "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM t o WHERE o.k = t.k AND o.g = t.g "
      "AND o.x > 4) AND x < 9"),
    C("exists_nested", "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND EXISTS "
      "(SELECT 1 FROM s WHERE s.k = u.k))"),
    C("exists_theta", "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.w < t.x)", "F"),
    C("in", "SELECT id FROM t WHERE k IN (SELECT k FROM u WHERE w > 1)"),
    C("in_null", "SELECT id FROM t WHERE x IN (SELECT w FROM u)"),
    C("not_in", "SELECT id FROM t WHERE k NOT IN (SELECT k FROM u WHERE k IS NOT NULL)"),
    C("not_in_null", "SELECT id, x FROM t WHERE x NOT IN (SELECT k FROM s)"),
    C("not_in_empty", "SELECT id FROM t WHERE k NOT IN (SELECT k FROM u WHERE w > 1000)"),
    C("not_in_filtered", "SELECT id FROM t WHERE NOT (k IN (SELECT k FROM u WHERE w > 4)) AND x > 1"),
    C("in_tuple", "SELECT id FROM t WHERE (k, x) IN (SELECT k, w FROM u)"),
    C("in_correlated", "SELECT id FROM t WHERE x IN (SELECT w FROM u WHERE u.k = t.k)"),
    C("in_aggregate", "SELECT id FROM t WHERE k IN (SELECT k FROM u GROUP BY k HAVING COUNT(*) > 1)"),
    C("exists_or", "SELECT id FROM t WHERE x > 7 OR EXISTS (SELECT 1 FROM u WHERE u.k = t.k)", "F"),
    C("scalar_where", "SELECT id, x FROM t WHERE x > (SELECT AVG(w) FROM u)"),
    C("scalar_where_star", "SELECT * FROM u WHERE w >= (SELECT MIN(x) FROM t)"),
    C("scalar_select", "SELECT id, x - (SELECT MAX(w) FROM u) AS d, (SELECT COUNT(*) FROM s) AS n FROM t"),
    C("scalar_empty", "SELECT id, (SELECT SUM(w) FROM u WHERE w > 1000) AS n FROM t"),
    C("scalar_group", "SELECT k, SUM(x) AS s, (SELECT MAX(w) FROM u) AS m FROM t GROUP BY k"),
    C("scalar_having", "SELECT k, SUM(x) AS s FROM t GROUP BY k HAVING SUM(x) > (SELECT AVG(w) FROM u)"),
    C("scalar_row", "SELECT id, (SELECT name FROM u ORDER BY k, w, name LIMIT 1) AS f FROM t", "F"),
    C("correlated_sum", "SELECT id, (SELECT SUM(w) FROM u WHERE u.k = t.k) AS s FROM t"),
    C("correlated_count", "SELECT id, (SELECT COUNT(*) FROM u WHERE u.k = t.k) AS n FROM t"),
    C("correlated_count_expr", "SELECT id, (SELECT COUNT(w) + 1 FROM u WHERE u.k = t.k AND w > 1) AS n FROM t"),
    C("correlated_distinct", "SELECT id, (SELECT COUNT(DISTINCT name) FROM u WHERE u.k = t.k) AS n FROM t", "G"),
    C("correlated_collect", "SELECT id, (SELECT SIZE(COLLECT_LIST(w)) FROM u WHERE u.k = t.k) AS n FROM t", "F"),
    C("correlated_where", "SELECT id, x FROM t WHERE x > (SELECT AVG(w) FROM u WHERE u.k = t.k)"),
    C("correlated_self", "SELECT id, x FROM t a WHERE x = (SELECT MAX(x) FROM t b WHERE b.k = a.k)"),
    C("correlated_case", "SELECT id, CASE WHEN (SELECT COUNT(*) FROM s WHERE s.k = t.k) = 0 THEN 'none' "
      "ELSE 'some' END AS c FROM t"),
    C("lateral_join", "SELECT t.id, q.n FROM t, LATERAL (SELECT COUNT(*) AS n FROM u WHERE u.k = t.k) q", "F"),
]

SETS = [
    C("union", "SELECT k FROM t UNION SELECT k FROM u"),
    C("union_three", "SELECT k FROM t UNION SELECT k FROM u UNION ALL SELECT k FROM s"),
    C("intersect", "SELECT k FROM t INTERSECT SELECT k FROM u"),
    C("intersect_all", "SELECT k FROM t INTERSECT ALL SELECT k FROM u"),
    C("except", "SELECT k FROM t EXCEPT SELECT k FROM u"),
    C("except_all", "SELECT k, g FROM t EXCEPT ALL SELECT k, name FROM u"),
    C("minus", "SELECT k FROM t MINUS SELECT k FROM s"),
    C("precedence", "SELECT k FROM t UNION ALL SELECT k FROM u INTERSECT SELECT k FROM s"),
    C("brackets", "(SELECT k FROM t UNION SELECT k FROM u) EXCEPT (SELECT k FROM s WHERE tag = 's1')"),
    C("set_widen", "SELECT x FROM t INTERSECT SELECT w FROM u"),
    C("set_null", "SELECT g, b FROM t EXCEPT SELECT g, b FROM t WHERE x > 3"),
    C("set_group", "SELECT k, COUNT(*) AS n FROM (SELECT k FROM t UNION ALL SELECT k FROM u) GROUP BY k"),
    C("set_limit", "SELECT k, x FROM t UNION ALL SELECT k, w FROM u ORDER BY k, x LIMIT 3"),
    C("set_by_name", "SELECT k, x FROM t UNION ALL BY NAME SELECT w AS x, k FROM u", "F"),
]

WINDOWS = [
    C("row_number", "SELECT id, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x, id, g, y, d, b, ts) AS r FROM t", "G"),
    C("rank", "SELECT id, RANK() OVER (PARTITION BY k ORDER BY x DESC) AS r, "
      "DENSE_RANK() OVER (PARTITION BY k ORDER BY g) AS d FROM t", "G"),
    C("running", "SELECT id, SUM(x) OVER (PARTITION BY g ORDER BY x, id) AS s, "
      "AVG(y) OVER (PARTITION BY g ORDER BY x, id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS a "
      "FROM (SELECT DISTINCT id, g, x, y FROM t)", "G"),
    C("lag", "SELECT id, LAG(x) OVER (PARTITION BY k ORDER BY x, id) AS l, "
      "LEAD(x, 1, -1) OVER (PARTITION BY k ORDER BY x, id) AS n FROM t", "G"),
    C("no_partition", "SELECT id, RANK() OVER (ORDER BY x DESC, id) AS r FROM t", "G"),
    C("two_partitions", "SELECT id, COUNT(*) OVER (PARTITION BY k) AS a, COUNT(*) OVER (PARTITION BY k, g) AS b, "
      "MAX(x) OVER (PARTITION BY g) AS m FROM t", "G"),
    C("share", "SELECT id, x * 1.0 / SUM(x) OVER (PARTITION BY k) AS p FROM t", "G"),
    C("first_value", "SELECT id, FIRST_VALUE(x) OVER (PARTITION BY k ORDER BY x, id) AS f FROM t", "G"),
    C("over_groups", "SELECT k, g, SUM(x) AS s, RANK() OVER (PARTITION BY k ORDER BY SUM(x) DESC) AS r "
      "FROM t GROUP BY k, g", "G"),
    C("best_per_key", "SELECT id, x FROM (SELECT id, x, RANK() OVER (PARTITION BY k ORDER BY x DESC, id) AS r "
      "FROM t) WHERE r <= 2", "G"),
    C("qualify", "SELECT id, x FROM t QUALIFY RANK() OVER (PARTITION BY k ORDER BY x DESC, id) = 1", "G"),
    C("window_expression_key", "SELECT id, COUNT(*) OVER (PARTITION BY x % 2) AS c FROM t", "G"),
    C("named_window", "SELECT id, SUM(x) OVER w AS s FROM t WINDOW w AS (PARTITION BY k)", "F"),
    C("window_join", "SELECT t.id, u.w, COUNT(*) OVER (PARTITION BY t.k) AS c FROM t JOIN u ON t.k = u.k", "G"),
    C("top", "SELECT id, x FROM t ORDER BY x DESC, id LIMIT 4"),
    C("top_all", "SELECT * FROM u ORDER BY k, w, name LIMIT 3"),
    C("top_offset", "SELECT k, w, name FROM u ORDER BY w NULLS LAST, k, name LIMIT 2 OFFSET 1"),
    C("top_hidden", "SELECT id FROM t ORDER BY y, x, id LIMIT 3"),
    C("top_groups", "SELECT k, SUM(x) AS s FROM t GROUP BY k ORDER BY s DESC, k LIMIT 2"),
    C("top_groups_call", "SELECT k FROM t GROUP BY k ORDER BY COUNT(*) DESC, k LIMIT 2"),
    C("top_distinct", "SELECT DISTINCT g FROM t ORDER BY g DESC LIMIT 2"),
    C("top_expression", "SELECT id, x AS v FROM t ORDER BY v % 3, id LIMIT 3"),
    C("top_position", "SELECT x, id FROM t ORDER BY 2, 1 LIMIT 3"),
    C("top_inside", "SELECT k, COUNT(*) AS n FROM (SELECT k, id FROM t ORDER BY id, k LIMIT 5) GROUP BY k"),
    C("top_zero", "SELECT id FROM t ORDER BY id LIMIT 0"),
    C("top_join", "SELECT t.id, u.w FROM t JOIN u ON t.k = u.k ORDER BY t.id, u.w LIMIT 4"),
]

CASCADES = [
    C("base", "SELECT id, k, g, x, y FROM t WHERE x IS NOT NULL"),
    C("sums", "SELECT k, SUM(x) AS s, COUNT(*) AS n FROM base GROUP BY k"),
    C("sums_y", "SELECT k, SUM(y) AS s, AVG(y) AS a FROM base GROUP BY k"),
    C("sums_y_top", "SELECT k, s FROM sums_y ORDER BY s DESC, k LIMIT 3"),
    C("sums_y_again", "SELECT COUNT(*) AS n, MAX(s) AS m FROM sums_y"),
    C("best", "SELECT k, MAX(x) AS m FROM base GROUP BY k"),
    C("diamond", "SELECT a.k, a.s, b.m FROM sums a JOIN best b ON a.k = b.k"),
    C("diamond_left", "SELECT u.name, d.s, d.m FROM u LEFT JOIN diamond d ON u.k = d.k"),
    C("total", "SELECT SUM(s) AS s, MAX(m) AS m, COUNT(*) AS n FROM diamond"),
    C("plus_constant", "SELECT COUNT(*) AS n FROM t UNION ALL SELECT 7"),
    C("over_constant", "SELECT SUM(n) AS n FROM plus_constant"),
    C("written", "SELECT * FROM VALUES (1, 'one'), (2, 'two'), (9, 'nine') AS v(k, label)"),
    C("labelled", "SELECT s.k, w.label FROM sums s JOIN written w ON s.k = w.k"),
    C("unlabelled", "SELECT k FROM sums WHERE k NOT IN (SELECT k FROM written)"),
    C("ranked", "SELECT k, m, RANK() OVER (ORDER BY m DESC, k) AS r FROM best", "G"),
    C("podium", "SELECT k, r FROM ranked WHERE r <= 2"),
    C("anything", "SELECT t.id, u.w FROM t LEFT JOIN u ON t.x > u.w", "F"),
    C("after_full", "SELECT w, COUNT(*) AS n FROM anything GROUP BY w"),
    C("anti_view", "SELECT name FROM u WHERE NOT EXISTS (SELECT 1 FROM best WHERE best.k = u.k)"),
    C("except_views", "SELECT k FROM sums EXCEPT SELECT k FROM podium"),
    C("self_view", "SELECT a.k, b.k AS o FROM sums a JOIN sums b ON a.n = b.n"),
]

KINDS = {
    "linear": LINEAR,
    "aggregates": AGGREGATES,
    "joins": JOINS,
    "subqueries": SUBQUERIES,
    "sets": SETS,
    "windows": WINDOWS,
    "cascades": CASCADES,
}
