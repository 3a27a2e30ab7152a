"""What is bad, as data: a text, the code it is refused with, and where."""

from __future__ import annotations

import pytest

from laminar.errors import LaminarError, SqlError
from laminar.sql import parse_script, parse_statement

SYNTAX, COLUMN, UNSUPPORTED = "LMR-3001", "LMR-3003", "LMR-3005"

VIEW = "CREATE MATERIALIZED VIEW v AS "

BAD: list[tuple[str, str, int, int]] = [
    ("SELEC 1", SYNTAX, 1, 1),
    ("'text'", SYNTAX, 1, 1),
    ("`create` TABLE t (a INT)", SYNTAX, 1, 1),
    ("VACUUM t", SYNTAX, 1, 1),
    ("DROP TABLE a;\n  GRANT x", SYNTAX, 2, 3),
    ("CREATE", SYNTAX, 1, 7),
    ("CREATE TABEL t (a INT)", SYNTAX, 1, 8),
    ("CREATE TABLE (a INT)", SYNTAX, 1, 14),
    ("CREATE TABLE t", SYNTAX, 1, 15),
    ("CREATE TABLE t ()", SYNTAX, 1, 17),
    ("CREATE TABLE t (PRIMARY KEY (a))", COLUMN, 1, 30),
    ("CREATE TABLE t (a)", SYNTAX, 1, 18),
    ("CREATE TABLE t (a INT,)", SYNTAX, 1, 23),
    ("CREATE TABLE t (a INT b INT)", SYNTAX, 1, 19),
    ("CREATE TABLE t (a INT", SYNTAX, 1, 16),
    ("CREATE TABLE t a INT)", SYNTAX, 1, 21),
    ("CREATE TABLE t (a INTT)", SYNTAX, 1, 19),
    ("CREATE TABLE t (a ARRAY<INT, INT>)", SYNTAX, 1, 19),
    ("CREATE TABLE t (a DECIMAL(50))", SYNTAX, 1, 19),
    ("CREATE TABLE t (a INT, A INT)", SYNTAX, 1, 24),
    ("CREATE TABLE t (a INT) x", SYNTAX, 1, 24),
    ("CREATE TABLE t (a INT NOT)", SYNTAX, 1, 23),
    ("CREATE TABLE t (a INT NOT NULL NOT NULL)", SYNTAX, 1, 32),
    ("CREATE TABLE t (a INT DEFAULT 5)", UNSUPPORTED, 1, 23),
    ("CREATE TABLE t (a INT, CHECK (a > 1))", UNSUPPORTED, 1, 24),
    ("CREATE TABLE t (a INT, PRIMARY KEY (b))", COLUMN, 1, 37),
    ("CREATE TABLE t (a INT PRIMARY KEY, PRIMARY KEY (a))", SYNTAX, 1, 36),
    ("CREATE TABLE t (a INT, PRIMARY KEY (a, A))", SYNTAX, 1, 40),
    ("CREATE TABLE t (a INT, PRIMARY KEY a)", SYNTAX, 1, 36),
    ("CREATE TABLE t (a INT) USING parquet", UNSUPPORTED, 1, 24),
    ("CREATE TABLE t AS SELECT 1", UNSUPPORTED, 1, 16),
    ("CREATE OR REPLACE TABLE t (a INT)", UNSUPPORTED, 1, 8),
    ("CREATE TABLE t (ts TIMESTAMP,\n WATERMARK FOR ts AS ts)", UNSUPPORTED, 2, 2),
    ("CREATE TABLE select (a INT)", SYNTAX, 1, 14),
    ("CREATE TABLE a.1.b (a INT)", SYNTAX, 1, 15),
    ("CREATE TABLE `` (a INT)", SYNTAX, 1, 14),
    ("CREATE SOURCE s (a INT, WATERMARK FOR b AS b)", COLUMN, 1, 39),
    ("CREATE SOURCE s (a INT, WATERMARK FOR a)", SYNTAX, 1, 40),
    ("CREATE SOURCE s (a INT, WATERMARK FOR a AS)", SYNTAX, 1, 43),
    ("CREATE SOURCE s (a INT, WATERMARK FOR a AS a, WATERMARK FOR a AS a)", SYNTAX, 1, 47),
    ("CREATE SOURCE s (a INT) WITH ()", SYNTAX, 1, 31),
    ("CREATE SOURCE s (a INT) WITH (a)", SYNTAX, 1, 32),
    ("CREATE SOURCE s (a INT) WITH (a == 1)", SYNTAX, 1, 33),
    ("CREATE SOURCE s (a INT) WITH (a = 1, A = 2)", SYNTAX, 1, 38),
    ("CREATE SOURCE s (a INT) WITH (a = 1 b = 2)", SYNTAX, 1, 37),
    ("CREATE SOURCE s (a INT) WITH (a = -'x')", SYNTAX, 1, 36),
    ("CREATE SOURCE s (a INT) WITH (a = (1))", SYNTAX, 1, 35),
    ("CREATE VIEW v AS SELECT 1", UNSUPPORTED, 1, 8),
    ("CREATE TEMPORARY VIEW v AS SELECT 1", UNSUPPORTED, 1, 8),
    ("CREATE MATERIALIZED VEIW v AS SELECT 1", SYNTAX, 1, 21),
    ("CREATE MATERIALIZED VIEW AS SELECT 1", SYNTAX, 1, 26),
    ("CREATE MATERIALIZED VIEW v (a) AS SELECT 1", UNSUPPORTED, 1, 28),
    ("CREATE MATERIALIZED VIEW v SELECT 1", SYNTAX, 1, 28),
    (f"{VIEW}", SYNTAX, 1, 30),
    (f"{VIEW}DELETE FROM t", SYNTAX, 1, 31),
    (f"{VIEW}FROM t SELECT a", UNSUPPORTED, 1, 31),
    (f"{VIEW}WITH c AS (SELECT 1) INSERT INTO t SELECT 1", SYNTAX, 1, 52),
    (f"{VIEW}SELECT * FROM t AS OF EPOCH 5", UNSUPPORTED, 1, 47),
    (f"{VIEW}SELECT * FROM STREAM t", UNSUPPORTED, 1, 45),
    (f"{VIEW}SELECT * FROM a JOIN STREAM(t)", UNSUPPORTED, 1, 52),
    (f"{VIEW}SELECT 1 FROM t EMIT", SYNTAX, 1, 51),
    (f"{VIEW}SELECT 1 FROM t EMIT SOMETIMES", SYNTAX, 1, 52),
    (f"{VIEW}SELECT 1 FROM t EMIT AFTER LUNCH", SYNTAX, 1, 58),
    (f"{VIEW}SELECT 1 FROM t EMIT ON WINDOW", SYNTAX, 1, 61),
    (f"{VIEW}SELECT 1 FROM t EMIT PERIODICALLY 5", SYNTAX, 1, 65),
    (f"{VIEW}SELECT 1 FROM t EMIT PERIODICALLY INTERVAL '5' SECNOD", SYNTAX, 1, 78),
    (f"{VIEW}SELECT 1 FROM t EMIT PERIODICALLY INTERVAL '5 parsecs'", SYNTAX, 1, 74),
    (f"{VIEW}SELECT 1 FROM t EMIT PERIODICALLY INTERVAL '5' MONTH", UNSUPPORTED, 1, 78),
    (f"{VIEW}SELECT 1 FROM t EMIT PERIODICALLY INTERVAL '1:30' MINUTE TO SECOND", SYNTAX, 1, 74),
    (f"{VIEW}SELECT 1 FROM t EMIT PERIODICALLY INTERVAL '5'", SYNTAX, 1, 77),
    (f"{VIEW}SELECT 1 FROM t EMIT FINAL EMIT FINAL", SYNTAX, 1, 58),
    (f"{VIEW}SELECT 1 FROM t EMIT FINAL WHERE a", SYNTAX, 1, 58),
    (f"{VIEW}SELECT 1 FROM t ALLOW LATENESS '1'", SYNTAX, 1, 62),
    (f"{VIEW}SELECT 1 FROM t LATE DATA INTO x", SYNTAX, 1, 57),
    (f"{VIEW}SELECT 1 FROM t LATE DATA TO", SYNTAX, 1, 59),
    ("CREATE OR REPLACE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT 1", SYNTAX, 1, 37),
    ("CREATE SINK k WITH (a = 1)", SYNTAX, 1, 15),
    ("CREATE SINK k FROM v", SYNTAX, 1, 21),
    ("DROP t", SYNTAX, 1, 6),
    ("DROP VIEW v", UNSUPPORTED, 1, 6),
    ("DROP TABLE IF EXISTS", SYNTAX, 1, 21),
    ("DROP TABLE a, b", SYNTAX, 1, 13),
    ("DROP TABLE t CASCADED", SYNTAX, 1, 14),
    ("ALTER TABLE t SET (a = 1)", UNSUPPORTED, 1, 7),
    ("ALTER MATERIALIZED VIEW v (a = 1)", SYNTAX, 1, 27),
    ("PAUSE v", SYNTAX, 1, 7),
    ("REFRESH MATERIALIZED VIEW v CASCADE", SYNTAX, 1, 29),
    ("INSERT t VALUES (1)", SYNTAX, 1, 8),
    ("INSERT OVERWRITE t VALUES (1)", UNSUPPORTED, 1, 8),
    ("INSERT INTO t", SYNTAX, 1, 14),
    ("INSERT INTO t (a, a) VALUES (1, 2)", SYNTAX, 1, 19),
    ("INSERT INTO t (a) 5", SYNTAX, 1, 19),
    ("INSERT INTO t BY NAME SELECT 1", UNSUPPORTED, 1, 15),
    ("INSERT INTO t SELECT * FROM v AS OF EPOCH 5", UNSUPPORTED, 1, 31),
    ("DELETE t", SYNTAX, 1, 8),
    ("DELETE FROM t x WHERE a", SYNTAX, 1, 15),
    ("DELETE FROM t WHERE", SYNTAX, 1, 20),
    ("UPDATE t SET", SYNTAX, 1, 13),
    ("UPDATE t SET a", SYNTAX, 1, 15),
    ("UPDATE t SET a =", SYNTAX, 1, 17),
    ("UPDATE t SET a == 1", SYNTAX, 1, 16),
    ("UPDATE t SET a = 1, A = 2", SYNTAX, 1, 21),
    ("UPDATE t SET a.b = 1", UNSUPPORTED, 1, 14),
    ("UPDATE t SET a = 1,", SYNTAX, 1, 20),
    ("MERGE t", SYNTAX, 1, 7),
    ("FROM t SELECT a", UNSUPPORTED, 1, 1),
    ("WITH c AS (SELECT 1) DELETE FROM t", SYNTAX, 1, 22),
    ("WITH c AS SELECT 1", SYNTAX, 1, 11),
    ("SELECT (1", SYNTAX, 1, 8),
    ("SELECT 1)", SYNTAX, 1, 9),
    ("SELECT (1]", SYNTAX, 1, 10),
    ("SELECT (1; SELECT 2)", SYNTAX, 1, 8),
    ("SELECT\n 'open", SYNTAX, 2, 2),
    ("SELECT `open", SYNTAX, 1, 8),
    ("SELECT 1 /* /* */", SYNTAX, 1, 10),
    ("SELECT * FROM v AS OF EPOCH", SYNTAX, 1, 28),
    ("SELECT * FROM v AS OF EPOCH x", SYNTAX, 1, 29),
    ("SELECT * FROM v AS OF EPOCH 1.5", SYNTAX, 1, 29),
    ("SELECT a AS OF EPOCH 5 FROM v", SYNTAX, 1, 10),
    ("SELECT * FROM STREAM t", UNSUPPORTED, 1, 15),
    ("EXPLAIN", SYNTAX, 1, 8),
    ("EXPLAIN v", SYNTAX, 1, 9),
    ("EXPLAIN DAG v", SYNTAX, 1, 13),
    ("EXPLAIN EXTENDED SELECT 1", UNSUPPORTED, 1, 9),
    ("EXPLAIN CREATE TABLE t (a INT)", UNSUPPORTED, 1, 9),
    ("SHOW", SYNTAX, 1, 5),
    ("SHOW TABELS", SYNTAX, 1, 6),
    ("SHOW VIEWS", UNSUPPORTED, 1, 6),
    ("SHOW DEPENDENCIES v", SYNTAX, 1, 19),
    ("SHOW TABLES IN x", SYNTAX, 1, 13),
    ("DESCRIBE EXTENDED v", UNSUPPORTED, 1, 10),
    ("CHECKPOINT 5", SYNTAX, 1, 12),
    ("RESTORE CHECKPOINT 5", SYNTAX, 1, 9),
    ("RESTORE FROM CHECKPOINT", SYNTAX, 1, 24),
    ("RESTORE FROM CHECKPOINT latest", SYNTAX, 1, 25),
    ("SET spark.sql.ansi.enabled = false", "LMR-5010", 1, 5),
    ("SET TIME ZONE 'UTC'", "LMR-5010", 1, 5),
    ("RESET spark.sql.ansi.enabled", "LMR-5010", 1, 7),
    ("SET laminar.x", SYNTAX, 1, 14),
    ("SET laminar.x = a b", SYNTAX, 1, 19),
    ("RESET", SYNTAX, 1, 6),
]


@pytest.mark.parametrize(("text", "code", "line", "column"), BAD, ids=[case[0] for case in BAD])
def test_a_bad_statement_is_refused_where_it_goes_wrong(
    text: str, code: str, line: int, column: int
) -> None:
    with pytest.raises(LaminarError) as caught:
        parse_script(text)
    error = caught.value
    assert isinstance(error, SqlError)
    assert (error.code, error.line, error.column) == (code, line, column)
    assert f"line {line}, column {column}" in error.detail


def test_the_place_is_underlined() -> None:
    with pytest.raises(SqlError) as caught:
        parse_script("SELECT 1;\nCREATE\tTABEL t (a INT)\n")
    assert caught.value.detail == (
        "line 2, column 8\n    CREATE\tTABEL t (a INT)\n          \t^^^^^"
    )
    assert caught.value.hint == "did you mean TABLE?"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("CRATE TABLE t (a INT)", "did you mean CREATE?"),
        ("SHOW TABELS", "did you mean TABLES?"),
        ("CREATE TABLE t (a DOUBEL)", "did you mean DOUBLE?"),
        ("CREATE TABLE t (price INT, PRIMARY KEY (pirce))", 'did you mean "price"?'),
        (f"{VIEW}SELECT 1 FROM t EMIT PERIODICALY INTERVAL '1' DAY", "did you mean PERIODICALLY?"),
        (f"{VIEW}SELECT 1 FROM t ALLOW LATENESS INTERVAL 1 MINIUTE", "did you mean minute?"),
    ],
)
def test_a_typing_mistake_gets_the_word_that_was_meant(text: str, hint: str) -> None:
    with pytest.raises(SqlError) as caught:
        parse_script(text)
    assert caught.value.hint == hint


def test_one_bad_statement_refuses_the_script() -> None:
    with pytest.raises(SqlError):
        parse_script("DROP TABLE a; DROP TABEL b; DROP TABLE c")


def test_one_statement_is_one_statement() -> None:
    with pytest.raises(SqlError) as caught:
        parse_statement("DROP TABLE a;\nDROP TABLE b")
    assert (caught.value.line, caught.value.column) == (2, 1)
    with pytest.raises(SqlError):
        parse_statement(" -- nothing")


def test_a_place_inside_a_query_moves_to_its_script() -> None:
    error = SqlError("no").at("SELECT\n  a", 9).within(5, 20)
    assert (error.line, error.column) == (6, 3)
    error = SqlError("no", detail="fact").at("SELECT a", 7).within(5, 20)
    assert (error.line, error.column) == (5, 27)
    assert error.detail == "fact\n  line 5, column 27\n    SELECT a\n           ^"
