"""CHAR(n) is kept, shown and compared as Spark does it: the truth is a table of Spark's own."""

# ruff: noqa: E501 - a case is one line

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar.errors import DuplicateKey, NotSupported, RowNotFound, TextTooLong
from laminar.testing.bags import assert_same_bag

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TABLES = {
    "t": "i INT, c CHAR(3), d CHAR(5), v VARCHAR(4), s STRING",
    "u": "i INT, c CHAR(4), s STRING",
}
ROWS: dict[str, list[tuple[Any, ...]]] = {
    "t": [
        (1, "a", "a", "a", "a"),
        (2, "ab ", "ab", "ab", "ab"),
        (3, "abc", "abc  ", "abc", "abc"),
        (4, None, None, None, None),
        (5, "a  ", "a      ", "a  ", "a  "),
        (6, "", "", "", ""),
        (7, "ä", "äöü", "ä", "ä"),
        (8, "abc   ", "abcd", "abcd  ", "abcd"),
    ],
    "u": [(1, "a", "a   "), (2, "abc", "abc"), (3, "abcd", "abcd"), (4, None, "a  "), (5, "", "")],
}
LATER: dict[str, list[tuple[Any, ...]]] = {
    "t": [(9, "ab", "a", "x", "a  "), (10, "b", "b", "b", "b")],
    "u": [(6, "ab", "ab  "), (7, "b", "b")],
}
GONE = {"t": (2, 5, 6, 9), "u": (1, 5, 6)}

INCREMENTAL = """
SELECT * FROM t
SELECT i FROM t WHERE c = 'a'
SELECT i FROM t WHERE c = 'a     '
SELECT i FROM t WHERE c = ''
SELECT i FROM t WHERE c = 'ä'
SELECT i FROM t WHERE ('a') = (c)
SELECT i FROM t WHERE c <=> 'a'
SELECT i FROM t WHERE c IS DISTINCT FROM 'a'
SELECT i FROM t WHERE c > 'a'
SELECT i FROM t WHERE c >= 'a'
SELECT i FROM t WHERE 'ab' > c
SELECT i FROM t WHERE c <= 'ab'
SELECT i FROM t WHERE c != 'a'
SELECT i FROM t WHERE NOT c = 'a' OR c = 'abcd'
SELECT i FROM t WHERE c IN ('a', 'ab')
SELECT i FROM t WHERE c IN ('a', 'abcde  ')
SELECT i FROM t WHERE c NOT IN ('a', 'abcde  ')
SELECT i FROM t WHERE c IN ('a', s)
SELECT i FROM t WHERE c IN ('a', d)
SELECT i FROM t WHERE 'a' IN (c, d)
SELECT i FROM t WHERE c IN (SELECT d FROM t)
SELECT i FROM t WHERE c IN (SELECT s FROM t)
SELECT i FROM t WHERE c NOT IN (SELECT s FROM u)
SELECT i FROM t WHERE (c, i) IN (SELECT d, i FROM t)
SELECT i FROM t WHERE (c, i) IN (('a', 1))
SELECT i FROM t WHERE c = d
SELECT i FROM t WHERE c <=> d
SELECT i FROM t WHERE c < d
SELECT i FROM t WHERE c = s
SELECT i FROM t WHERE c = v
SELECT i FROM t WHERE v = 'a'
SELECT i FROM t WHERE c BETWEEN 'a' AND 'ab'
SELECT i FROM t WHERE c LIKE 'a'
SELECT i FROM t WHERE c LIKE 'a  '
SELECT i FROM t WHERE c = NULL
SELECT i FROM t WHERE upper(c) = 'A'
SELECT i FROM t WHERE trim(c) = 'a'
SELECT i FROM t WHERE c || '' = 'a'
SELECT i, length(c), c || '|', octet_length(d) FROM t
SELECT i, CASE c WHEN 'a' THEN c = 'a' WHEN 'abcd' THEN d = 'a' ELSE c < 'b' END AS q FROM t
SELECT i, CASE WHEN c = 'a' THEN 1 ELSE 0 END AS q FROM t
SELECT i, (c = 'a') = (d = 'a') AS q FROM t
SELECT i, nullif(c, 'a') AS n FROM t
SELECT i, coalesce(c, 'x') AS n FROM t
SELECT i FROM t WHERE coalesce(c, 'x') = 'a'
SELECT i FROM (SELECT i, c FROM t) WHERE c = 'a'
SELECT i FROM (SELECT i, c AS e FROM t) WHERE e = 'a'
SELECT i FROM (SELECT i, c || '' AS e FROM t) WHERE e = 'a'
SELECT i FROM (SELECT DISTINCT i, c FROM t) WHERE c = 'a'
SELECT i, c AS e, e = 'a' AS q FROM t
SELECT c, count(*) AS n FROM t GROUP BY c
SELECT c, count(*) AS n FROM t GROUP BY c HAVING c = 'a'
SELECT c AS k, count(*) AS n FROM t GROUP BY k HAVING k > 'a'
SELECT c = 'a' AS q, count(*) AS n FROM t GROUP BY c = 'a'
SELECT k FROM (SELECT c AS k, count(*) AS n FROM t GROUP BY c) WHERE k = 'a'
SELECT max(c) AS m, min(c) AS l, count(DISTINCT c) AS n FROM t
SELECT m FROM (SELECT max(c) AS m FROM t WHERE c = 'a') WHERE m = 'a'
SELECT i, sum(CASE WHEN c = 'a' THEN 1 END) OVER (PARTITION BY c = 'a') AS n FROM t
SELECT count_if(c = 'a') AS n, count(*) FILTER (WHERE c = 'a') AS m FROM t
SELECT * FROM (SELECT i, c FROM t UNION ALL SELECT i, c FROM u) WHERE c = 'a'
SELECT * FROM (SELECT i, c FROM t UNION SELECT i, s FROM t) WHERE c = 'a'
SELECT * FROM (SELECT i, s FROM t UNION ALL SELECT i, c FROM t) WHERE s = 'a'
SELECT * FROM (SELECT i, c FROM t INTERSECT SELECT i, d FROM t) WHERE c = 'a'
SELECT * FROM (SELECT i, c FROM t EXCEPT SELECT i, c FROM u) WHERE c = 'a'
SELECT a.i, b.i AS j FROM t a JOIN u b ON a.c = b.c
SELECT a.i, b.i AS j FROM t a JOIN u b ON a.c < b.c
SELECT a.i, b.i AS j FROM t a JOIN u b ON a.c = b.s
SELECT a.i, b.i AS j FROM t a LEFT JOIN u b ON a.c = b.c AND b.c > 'a'
SELECT a.i, b.i AS j FROM t a FULL JOIN u b ON a.c <=> b.c
SELECT t.i, c, u.i AS j FROM t JOIN u USING (c)
SELECT t.i, c, u.i AS j FROM t FULL JOIN u USING (c)
SELECT t.i, c, u.i AS j FROM t RIGHT JOIN u USING (c) WHERE c = 'abc'
SELECT * FROM u NATURAL JOIN (SELECT s AS c FROM t) b
SELECT a.i FROM t a LEFT SEMI JOIN u b ON a.c = b.c
SELECT a.i FROM t a LEFT ANTI JOIN u b ON a.c = b.c
SELECT a.i FROM t a WHERE EXISTS (SELECT 1 FROM u b WHERE a.c = b.c)
SELECT a.i FROM t a WHERE NOT EXISTS (SELECT 1 FROM u b WHERE a.c = b.c AND a.d = 'a')
SELECT a.i FROM t a WHERE EXISTS (SELECT 1 FROM u b WHERE a.c = 'a') OR a.i = 7
SELECT i FROM t WHERE c = (SELECT max(c) FROM u WHERE i = 1)
SELECT a.i, (SELECT count(*) FROM u b WHERE b.c = a.c) AS n FROM t a
SELECT a.i, (SELECT max(b.i) FROM u b WHERE b.c < a.c) AS n FROM t a
WITH w AS (SELECT c AS x, i FROM t) SELECT i FROM w WHERE x = 'a'
SELECT i FROM VALUES ('a') AS x(k) JOIN t ON t.c = x.k
SELECT i, z FROM t, LATERAL (SELECT t.c AS z) WHERE z = 'a'
SELECT a.i, z FROM t a, LATERAL (SELECT b.c AS z FROM u b WHERE b.c = a.c) WHERE z = 'a'
SELECT i, e FROM t LATERAL VIEW explode(array(c, d)) x AS e WHERE e = 'a'
SELECT i FROM t WHERE array_contains(array(c), 'a')
SELECT c, d, count(*) AS n FROM t GROUP BY ROLLUP (c, d) HAVING c = 'a'
SELECT i, c FROM t WHERE c > 'a' ORDER BY c DESC, i LIMIT 2
SELECT i, CAST(s AS CHAR(3)) AS x, CAST(s AS VARCHAR(2)) AS y, s::CHAR(2) = 'a' AS z FROM t
FROM t |> WHERE c = 'a' |> SELECT i, c
"""

FULL = """
SELECT i FROM t WHERE c = concat('a', '')
SELECT i FROM t WHERE c = CAST('a' AS STRING)
SELECT i FROM t WHERE c == 'a' COLLATE UTF8_BINARY
SELECT i FROM t WHERE c IN ('a', NULL)
SELECT i FROM t WHERE c IN (d)
SELECT i, decode(c, 'a', 1, 0) AS n FROM t
SELECT i, equal_null(c, 'a') AS n FROM t
SELECT i, filter(array('a'), x -> x = c) AS f FROM t
SELECT i, k FROM (SELECT i, st.c AS k FROM (SELECT i, struct(c, d) AS st FROM t)) WHERE k = 'a'
SELECT * FROM (SELECT i, c FROM t) PIVOT (count(i) FOR c IN ('a', 'ab'))
SELECT * FROM (SELECT i, c, d FROM t) UNPIVOT (x FOR n IN (c, d)) WHERE x = 'a'
"""

READERS = """
SELECT i FROM w WHERE c = 'a'
SELECT i FROM w WHERE cc = 'a'
SELECT i FROM w WHERE e = 'a'
SELECT i FROM w WHERE c = d
SELECT w.i, u.i AS j FROM w JOIN u ON w.cc = u.c
"""

W = "SELECT i, c, c AS cc, c || '' AS e, d FROM t WHERE i <> 3"
"""A view between: its columns are CHAR where they are columns."""

WRITTEN = [
    *(("incremental", each) for each in INCREMENTAL.strip().splitlines()),
    *(("full", each) for each in FULL.strip().splitlines()),
    *(("reader", each) for each in READERS.strip().splitlines()),
]


STAGES = 3
"""Filled, with rows that came later, and with some of all taken back."""

Answers = list[tuple[Any, ...]]


def rows_at(name: str, stage: int) -> Answers:
    rows = [*ROWS[name], *(LATER[name] if stage else ())]
    return [row for row in rows if stage < 2 or row[0] not in GONE[name]]


@pytest.fixture(scope="module")
def truths(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[SparkSession]]:
    """Sessions in whose catalog the tables are, with the rows of each stage."""
    made = [_truth(spark, stage, tmp_path_factory.mktemp("truth")) for stage in range(STAGES)]
    yield made
    for stage, session in enumerate(made):
        session.sql("USE default")
        session.sql(f"DROP DATABASE char_truth_{stage} CASCADE")


def _truth(spark: SparkSession, stage: int, folder: Path) -> SparkSession:
    session = spark.newSession()
    session.sql(f"CREATE DATABASE char_truth_{stage} LOCATION '{folder}'")
    session.sql(f"USE char_truth_{stage}")
    for name, columns in TABLES.items():
        session.sql(f"CREATE TABLE {name} ({columns}) USING parquet")
        plain = re.sub(r"(VAR)?CHAR\(\d\)", "STRING", columns)
        session.createDataFrame(rows_at(name, stage), plain).createOrReplaceTempView("given")
        session.sql(f"INSERT INTO {name} SELECT * FROM given")
    session.sql(f"CREATE VIEW w AS {W}")
    return session


def answer(session: SparkSession, query: str) -> Answers:
    return [tuple(row) for row in session.sql(query).collect()]


def fill(db: laminar.Database, stage: int) -> None:
    """Bring a database from the stage before to this one."""
    for name in TABLES:
        if stage < 2:
            db.insert(name, (ROWS, LATER)[stage][name])
        else:
            db.execute(f"DELETE FROM {name} WHERE i IN {GONE[name]}")
    db.drain()


SLICES = 12


@pytest.mark.sampled(SLICES)
@pytest.mark.parametrize("part", range(SLICES))
def test_views_answer_as_tables_of_spark(
    spark: SparkSession, truths: list[SparkSession], tmp_path: Path, part: int
) -> None:
    cases = [(f"v{at}", *each) for at, each in enumerate(WRITTEN)][part::SLICES]
    wrong: list[str] = []
    with laminar.connect(tmp_path, spark=spark) as db:
        for name, columns in TABLES.items():
            db.execute(f"CREATE TABLE {name} ({columns})")
        db.execute(f"CREATE MATERIALIZED VIEW w AS {W}")
        for name, _, query in cases:
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        strategies = dict(row[:2] for row in db.execute("SHOW MATERIALIZED VIEWS").rows())
        for name, kind, query in cases:
            if (strategies[name] == "full") != (kind == "full"):
                wrong.append(f"{query}: {strategies[name]}")
        for stage in range(STAGES):
            fill(db, stage)
            for name, _, query in cases:
                truth = answer(truths[stage], query)
                for asked in (f"SELECT * FROM {name}", query):
                    try:
                        assert_same_bag(db.sql(asked).rows(), truth)
                    except AssertionError as error:
                        wrong.append(f"{asked} ({query}) at {stage}: {error}")
    assert not wrong, "\n".join(wrong)


@pytest.fixture(scope="module")
def db(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with laminar.connect(tmp_path_factory.mktemp("chars"), spark=spark) as opened:
        yield opened


def test_values_are_cut_and_filled_up_whatever_the_way_in(db: laminar.Database) -> None:
    db.execute("CREATE TABLE k (c CHAR(3) PRIMARY KEY, v CHARACTER(2) DEFAULT 'x', n INT)")
    db.insert("k", [("a", "b", 1), {"c": "ab   ", "n": 2}])
    db.execute("INSERT INTO k VALUES ('abc   ', DEFAULT, 3); INSERT INTO k (c) VALUES ('')")
    for wrong in ("INSERT INTO k VALUES ('abcd', 'a', 1)", "UPDATE k SET c = 'abcd' WHERE n = 1"):
        with pytest.raises(TextTooLong) as caught:
            db.execute(wrong)
        assert "CHAR(3)" in (caught.value.detail or "")
    with pytest.raises(DuplicateKey):
        db.insert("k", [("a ", "b", 1)])
    db.execute("UPDATE k SET v = 'z', c = 'q' WHERE c = 'ab'")
    db.execute(
        "MERGE INTO k USING (SELECT 'zz' AS c, 7 AS n) s ON k.c = 'a' AND k.c = s.c"
        " WHEN NOT MATCHED THEN INSERT (c, n) VALUES (s.c, s.n)"
        " WHEN NOT MATCHED BY SOURCE AND k.c = 'abc' THEN DELETE"
    )
    db.step()
    found = sorted(db.sql("SELECT c, v, n FROM k").rows(), key=repr)
    assert found == [("   ", "x ", None), ("a  ", "b ", 1), ("q  ", "z ", 2), ("zz ", "x ", 7)]


def test_a_merge_and_an_update_compare_as_spark_does(db: laminar.Database) -> None:
    db.execute("CREATE TABLE m (c CHAR(3), n INT); CREATE TABLE src (c CHAR(5), s STRING)")
    db.insert("m", [("a", 1), ("b", 2), ("c", 3)])
    db.insert("src", [("a", "b"), ("x", "c  ")])
    db.execute("MERGE INTO m USING src ON m.c = src.c WHEN MATCHED THEN UPDATE SET n = 10")
    db.execute("MERGE INTO m USING src ON m.c = src.s WHEN MATCHED THEN UPDATE SET n = 30")
    db.execute("UPDATE m SET n = n + 1 WHERE c IN ('a', 'b') AND c IN (SELECT c FROM m)")
    db.execute("DELETE FROM m WHERE c IN (SELECT s FROM src WHERE s = 'b')")
    db.step()
    assert sorted(db.sql("SELECT * FROM m").rows()) == [("a  ", 11), ("b  ", 3), ("c  ", 30)]


def test_a_row_is_taken_back_by_its_value_with_its_blanks_or_without(db: laminar.Database) -> None:
    db.execute("CREATE TABLE gone (c CHAR(3), n INT)")
    db.insert("gone", [("a", 1), ("b", 2), ("c", 3)])
    db.delete("gone", [("a", 1)])
    db.drain()
    db.delete("gone", db.sql("SELECT * FROM gone WHERE c = 'b'").rows())
    with pytest.raises(RowNotFound):
        db.delete("gone", [("d", 3)])
    db.drain()
    assert db.sql("SELECT c FROM gone").rows() == [("c  ",)]


def test_columns_are_told_as_they_were_declared(db: laminar.Database) -> None:
    db.execute("CREATE TABLE told (c CHAR(3) NOT NULL, v CHARACTER(2))")
    db.execute("CREATE MATERIALIZED VIEW telling AS SELECT c AS k, v || '' AS v FROM told")
    assert [row[1] for row in db.execute("DESCRIBE told").rows()] == ["char(3)", "char(2)"]
    assert [row[1] for row in db.execute("DESCRIBE telling").rows()] == ["char(3)", "string"]
    assert "CHAR(3)" in db.execute("SHOW CREATE told").rows()[0][0]


def test_epochs_of_before_and_changes_are_compared_alike(db: laminar.Database) -> None:
    db.execute("CREATE TABLE past (c CHAR(3)); INSERT INTO past VALUES ('a')")
    db.step()
    first = db.sql("SELECT 1").epoch
    db.execute("DELETE FROM past")
    assert db.sql("SELECT * FROM past WHERE c = 'a'").rows() == [("a  ",)]
    db.step()
    assert db.sql(f"SELECT c FROM past AS OF EPOCH {first} WHERE c = 'a'").rows() == [("a  ",)]
    changes = f"SELECT _change_type FROM table_changes('past', {first}) WHERE c = 'a'"
    assert sorted(db.sql(changes).rows()) == [("delete",), ("insert",)]


def test_what_cannot_be_as_in_spark_is_refused(db: laminar.Database) -> None:
    db.execute("CREATE TABLE few (c CHAR(3))")
    with pytest.raises(NotSupported, match="in a field") as caught:
        db.execute("CREATE MATERIALIZED VIEW wrong AS SELECT struct(c) AS s FROM few")
    assert caught.value.place is not None
    db.execute("CREATE MATERIALIZED VIEW right AS SELECT struct(CAST(c AS STRING)) AS s FROM few")


def test_settings_that_treat_chars_otherwise_are_refused(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.readSideCharPadding", "false")
    with laminar.connect(spark=session) as db, pytest.raises(NotSupported, match="settings"):
        db.execute("CREATE TABLE t (c CHAR(3))")


def test_chars_survive_reopening(spark: SparkSession, tmp_path: Path) -> None:
    with laminar.connect(tmp_path, spark=spark) as db:
        db.execute("CREATE TABLE t (c CHAR(3)); INSERT INTO t VALUES ('a')")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT c AS k FROM t")
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n FROM v WHERE k = 'a'")
        db.drain()
    with laminar.connect(tmp_path, spark=spark) as db:
        db.execute("INSERT INTO t VALUES ('a    ')")
        db.drain()
        assert db.sql("SELECT n FROM w").rows() == [(2,)]
        assert db.sql("SELECT k FROM v WHERE k = 'a'").rows() == [("a  ",), ("a  ",)]
        db.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT c || '' AS k FROM t")
        assert db.sql("SELECT n FROM w").rows() == [(0,)]
        assert db.sql("SELECT k FROM v WHERE k = 'a'").rows() == []


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_connectors_fill_up_what_is_short(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    given = tmp_path / "given"
    given.mkdir()
    rows = [(1, "a"), (2, "abcd"), (3, "abc   "), (4, "ä")]
    lines = {
        "csv": [f"{i},{c}" for i, c in rows],
        "json": [f'{{"i": {i}, "c": "{c}"}}' for i, c in rows],
    }
    (given / f"a.{kind}").write_text("\n".join(lines[kind]) + "\n", encoding="utf-8")
    truth = spark.newSession()
    truth.sql(f"CREATE TABLE char_given (i INT, c CHAR(3)) USING {kind} LOCATION '{given}'")
    queries = ["SELECT i, c FROM s", "SELECT i FROM s WHERE c = 'a'"]
    queries += ["SELECT i FROM s WHERE c = 'abcd'", "SELECT i FROM s WHERE c IN ('ä', 'abc  ')"]
    try:
        with laminar.connect(tmp_path / "db", spark=spark) as db:
            options = f"connector = 'files', path = '{given}', format = '{kind}'"
            header = ", header = 'false'" if kind == "csv" else ""
            db.execute(f"CREATE SOURCE s (i INT, c CHAR(3)) WITH ({options}{header})")
            for at, query in enumerate(queries):
                db.execute(f"CREATE MATERIALIZED VIEW v{at} AS {query}")
            db.drain()
            for at, query in enumerate(queries):
                expected = answer(truth, query.replace("FROM s", "FROM char_given"))
                assert_same_bag(db.sql(f"SELECT * FROM v{at}").rows(), expected)
                assert_same_bag(db.sql(query).rows(), expected)
    finally:
        truth.sql("DROP TABLE char_given")


NESTED = """i INT, st STRUCT<c: CHAR(3), v: VARCHAR(3)>, a ARRAY<CHAR(3)>, m MAP<CHAR(2), CHAR(3)>,
    st2 STRUCT<c: CHAR(5), v: VARCHAR(3)>, a5 ARRAY<CHAR(5)>, ss ARRAY<STRUCT<c: CHAR(2), n: INT>>"""
NESTED_ROWS = """VALUES
    (1, named_struct('c', 'a', 'v', 'a    '), array('a', 'bc'), map('k', 'a'),
        named_struct('c', 'a', 'v', 'a'), array('a', 'bc'), array(named_struct('c', 'x', 'n', 1))),
    (2, NULL, NULL, NULL, NULL, NULL, NULL),
    (3, named_struct('c', CAST(NULL AS STRING), 'v', 'abc'), array(NULL, 'a'),
        map('k', CAST(NULL AS STRING)), named_struct('c', 'abc', 'v', 'abc'), array(NULL), array(NULL)),
    (4, named_struct('c', 'abc', 'v', 'abc'), array('x'), map('kk', 'abc   '),
        named_struct('c', 'abc', 'v', 'abc'), array('x'), array())"""
NESTED_QUERIES = """
SELECT i, st.c, st.v, get(a, 0) AS e, size(a) AS n, m['k'] AS o, m['k '] AS p, st2.c AS q, get(ss, 0).c AS r FROM n
SELECT i FROM n WHERE st.c = 'a'
SELECT i FROM n WHERE st.c = st2.c
SELECT i FROM n WHERE st = st2
SELECT i FROM n WHERE st <=> st2
SELECT i FROM n WHERE a = a5
SELECT i FROM n WHERE a IN (a5)
SELECT i FROM n WHERE a[0] = 'a'
SELECT i FROM n WHERE array_contains(a, 'a')
SELECT i FROM (SELECT i, a AS b, a5 FROM n) WHERE b = a5
SELECT i, e FROM (SELECT i, e FROM n LATERAL VIEW explode(a) x AS e) WHERE e = 'a'
SELECT i, c FROM (SELECT i, st.* FROM n) WHERE c = 'a'
SELECT x.i, y.i AS j FROM n x JOIN n y ON x.a = y.a5
""".strip().splitlines()


def test_texts_of_a_length_inside_of_other_types(spark: SparkSession, tmp_path: Path) -> None:
    truth, wrong = spark.newSession(), []
    try:
        truth.sql(f"CREATE DATABASE char_nested LOCATION '{tmp_path / 'truth'}'")
        truth.sql("USE char_nested")
        truth.sql(f"CREATE TABLE n ({NESTED}) USING parquet")
        truth.sql(f"INSERT INTO n {NESTED_ROWS}")
        with laminar.connect(tmp_path / "db", spark=spark) as db:
            db.execute(f"CREATE TABLE n ({NESTED})")
            told = [row[1] for row in db.execute("DESCRIBE n").rows()]
            assert told[1:3] == ["struct<c:char(3),v:varchar(3)>", "array<char(3)>"]
            for at, query in enumerate(NESTED_QUERIES):
                db.execute(f"CREATE MATERIALIZED VIEW v{at} AS {query}")
            db.execute(f"INSERT INTO n {NESTED_ROWS}")
            db.insert("n", [{"i": 5, "st": {"c": "a", "v": "b"}, "a": ["a"], "a5": ["a  "]}])
            for bad in ({"a": ["abcd"]}, {"st": {"c": "a", "v": "abcd"}}, {"m": {"kkk": "a"}}):
                with pytest.raises(TextTooLong):
                    db.insert("n", [bad])
            db.drain()
            db.execute("DELETE FROM n WHERE i = 5")
            db.drain()
            for at, query in enumerate(NESTED_QUERIES):
                expected = answer(truth, query)
                for asked in (f"SELECT * FROM v{at}", query):
                    try:
                        assert_same_bag(db.sql(asked).rows(), expected)
                    except AssertionError as error:
                        wrong.append(f"{asked} ({query}): {error}")
        assert not wrong, "\n".join(wrong)
    finally:
        truth.sql("USE default")
        truth.sql("DROP DATABASE char_nested CASCADE")
