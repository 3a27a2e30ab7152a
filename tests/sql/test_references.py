from __future__ import annotations

import pytest

from laminar.errors import SqlError
from laminar.sql import relations_of

READS: list[tuple[str, tuple[str, ...]]] = [
    ("SELECT 1", ()),
    ("VALUES (1)", ()),
    ("SELECT * FROM t", ("t",)),
    ("SELECT * FROM t;", ("t",)),
    ("TABLE t", ("t",)),
    ("TABLE t UNION ALL (TABLE u)", ("t", "u")),
    ("SELECT * FROM b, a JOIN c USING (x) LEFT JOIN b ON true", ("b", "a", "c")),
    ("SELECT * FROM T JOIN t JOIN `T`", ("T",)),
    ("SELECT * FROM ohlc_1 JOIN ohlc_1m", ("ohlc_1", "ohlc_1m")),
    ("SELECT * FROM laminar_system.epochs, c.s.t", ("laminar_system.epochs", "c.s.t")),
    ("SELECT * FROM `a b`.`c.d`", ("a b.`c.d`",)),
    ("SELECT (SELECT max(x) FROM u) FROM t WHERE a IN (SELECT b FROM v)", ("u", "t", "v")),
    ("SELECT * FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.x = a.x)", ("a", "b")),
    ("SELECT * FROM a, LATERAL (SELECT * FROM b) EXCEPT SELECT * FROM c", ("a", "b", "c")),
    ("WITH c AS (SELECT * FROM t) SELECT * FROM c JOIN C x", ("t",)),
    ("WITH t AS (SELECT * FROM t) SELECT * FROM t", ("t",)),
    ("WITH a AS (SELECT 1), b AS (SELECT * FROM a) SELECT * FROM b", ()),
    ("WITH b AS (SELECT * FROM a), a AS (SELECT 1) SELECT * FROM b, a", ("a",)),
    ("WITH RECURSIVE c AS (SELECT 1 UNION ALL SELECT * FROM c) SELECT * FROM c", ()),
    ("WITH c AS (WITH d AS (SELECT * FROM t) SELECT * FROM d) SELECT * FROM c, d", ("t", "d")),
    ("WITH c AS (SELECT 1) SELECT * FROM (SELECT * FROM c WHERE x IN (SELECT y FROM c))", ()),
    ("WITH c AS (SELECT 1) SELECT * FROM s.c", ("s.c",)),
    ("SELECT * FROM range(10), explode(array(1))", ()),
    ("SELECT * FROM t LATERAL VIEW explode(x) e AS y", ("t",)),
    ("SELECT t.x.y, 'FROM u', `FROM v` FROM t -- FROM w", ("t",)),
    ("SELECT 1 -- \\\n FROM hidden", ()),
    ("SELECT window(ts, '1 day').start FROM t GROUP BY ALL", ("t",)),
    (f"SELECT 1{' + 1' * 800} FROM t", ("t",)),
]


@pytest.mark.parametrize(("query", "names"), READS, ids=[query[:60] for query, _ in READS])
def test_what_a_query_reads(query: str, names: tuple[str, ...]) -> None:
    assert relations_of(query) == names


BAD = [
    ("", "LMR-3001"),
    ("SELECT * FROM", "LMR-3001"),
    ("SELECT a FROM t EMIT CHANGES", "LMR-3001"),
    ("SELECT 1; SELECT 2", "LMR-3001"),
    ("SHOW TABLES", "LMR-3001"),
    ("CREATE TABLE t (a INT)", "LMR-3001"),
    ("DELETE FROM t", "LMR-3001"),
    ("WITH c AS (SELECT 1) INSERT INTO t SELECT * FROM c", "LMR-3001"),
    ("SELECT 'open", "LMR-3001"),
    (f"{'(' * 3000}SELECT 1{')' * 3000}", "LMR-3001"),
    ("SELECT * FROM STREAM t", "LMR-3005"),
    ("SELECT * FROM t VERSION AS OF 3", "LMR-3005"),
    ("SELECT * FROM f(TABLE(t))", "LMR-3005"),
]


@pytest.mark.parametrize(("query", "code"), BAD, ids=[query[:60] for query, _ in BAD])
def test_what_is_no_query_is_refused(query: str, code: str) -> None:
    with pytest.raises(SqlError) as caught:
        relations_of(query)
    assert caught.value.code == code


def test_the_place_of_a_mistake_is_shown() -> None:
    with pytest.raises(SqlError) as caught:
        relations_of("SELECT a\nFROM t WHRE x")
    assert (caught.value.line, caught.value.column) == (2, 13)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("SELECT k FROM t |> JOIN u USING (k) |> WHERE k > 1", ("t", "u")),
        ("FROM t |> LIMIT 3 |> WHERE k > 1", ("t",)),
        ("TABLE t |> UNION ALL TABLE u", ("t", "u")),
        ("FROM t |> WHERE EXISTS (FROM u |> WHERE u.k = t.k)", ("t", "u")),
        ("WITH c AS (FROM t |> SELECT k) FROM c |> JOIN u ON true", ("t", "u")),
        ("FROM t |> TABLESAMPLE (5 PERCENT) |> INTERSECT SELECT * FROM u", ("t", "u")),
        ("FROM t, u SELECT t.k SELECT u.k", ("t", "u")),
        ("SELECT * FROM IDENTIFIER('a.b')", ("a.b",)),
    ],
)
def test_pipes_and_queries_that_start_with_from_are_followed(
    query: str, names: tuple[str, ...]
) -> None:
    assert relations_of(query) == names
