"""What is good, as data: a text, and the statement it is. One line adds a case."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest

from laminar.sql import (
    AlterSink,
    AlterSource,
    AlterView,
    Checkpoint,
    ColumnDef,
    CreateFunction,
    CreateSchema,
    CreateSink,
    CreateTable,
    CreateView,
    Delete,
    Describe,
    Drop,
    DropFunction,
    DropSchema,
    Emit,
    EmitKind,
    Explain,
    ExplainDag,
    Insert,
    Location,
    Merge,
    MergeAction,
    MergeClause,
    MergeKind,
    Pause,
    Query,
    Refresh,
    RelationKind,
    ResetOption,
    Restore,
    Resume,
    SetOption,
    Show,
    ShowKind,
    Statement,
    Update,
    Use,
    Watermark,
    parse_script,
    parse_statement,
)
from laminar.sql.function_calls import Parameter
from laminar.sql.statements import About, Check


class Origin(TypedDict):
    text: str
    location: Location


START = Location(1, 1, 0)
SOMEWHERE = Origin(text="", location=START)
"""Text and place do not count when statements are compared, except for the text of a query."""


def view(name: str, query: str, *args: Any, **fields: Any) -> CreateView:
    return CreateView(name, query, *args, **fields, **SOMEWHERE, query_location=START)


def table(name: str, *columns: ColumnDef, **fields: Any) -> CreateTable:
    return CreateTable(name, columns, **fields, **SOMEWHERE)


def insert(name: str, columns: tuple[str, ...], query: str) -> Insert:
    return Insert(name, columns, query, **SOMEWHERE, query_location=START)


def query(text: str, epoch: int | None = None) -> Query:
    return Query(text=text, location=START, as_of_epoch=epoch)


A = ColumnDef("a", "INT")
SOURCE, VIEW, TABLE, SINK = (
    RelationKind.SOURCE,
    RelationKind.VIEW,
    RelationKind.TABLE,
    RelationKind.SINK,
)

TABLES: list[tuple[str, Statement]] = [
    ("CREATE TABLE t (a INT)", table("t", A)),
    ("create table T (a INT);", table("T", A)),
    ("CREATE TABLE IF NOT EXISTS t (a INT)", table("t", A, if_not_exists=True)),
    ("CREATE TABLE s.t (a INT)", table("s.t", A)),
    ("CREATE TABLE `my table` (a INT)", table("my table", A)),
    ("CREATE TABLE `a.b`.c (a INT)", table("`a.b`.c", A)),
    ("CREATE TABLE `x``y` (a INT)", table("`x``y`", A)),
    ("CREATE TABLE ohlc_1m (a INT)", table("ohlc_1m", A)),
    ("CREATE TABLE 1m (a INT)", table("1m", A)),
    ("CREATE TABLE größe (a INT)", table("größe", A)),
    ("CREATE TABLE sink (a INT)", table("sink", A)),
    (
        "CREATE TABLE t (a INT DEFAULT CASE WHEN true THEN 1 END IS NOT NULL NOT NULL COMMENT 'x')",
        table(
            "t",
            ColumnDef(
                "a",
                "INT",
                not_null=True,
                default="CASE WHEN true THEN 1 END IS NOT NULL",
                comment="x",
            ),
        ),
    ),
    (
        "CREATE TABLE t (a INT DEFAULT f(1, 2) CHECK (a > 1), b INT GENERATED ALWAYS AS (a + 1),"
        " CONSTRAINT c CHECK (b IN (1, 2))) COMMENT 'it''s' TBLPROPERTIES ('x.y' = 'z', w = 1)",
        table(
            "t",
            ColumnDef("a", "INT", default="f(1, 2)"),
            ColumnDef("b", "INT", generated="a + 1"),
            checks=(Check("check_1", "a > 1"), Check("c", "b IN (1, 2)")),
            about=About("it's", (("x.y", "z"), ("w", "1"))),
        ),
    ),
    ("CREATE TABLE t (a INT NOT NULL)", table("t", ColumnDef("a", "INT", not_null=True))),
    (
        "CREATE TABLE t (order INT, `select` INT)",
        table("t", ColumnDef("order", "INT"), ColumnDef("select", "INT")),
    ),
    (
        "CREATE TABLE t (primary INT, watermark INT)",
        table("t", ColumnDef("primary", "INT"), ColumnDef("watermark", "INT")),
    ),
    (
        "CREATE TABLE t (a DECIMAL(10, 2), b DATE)",
        table("t", ColumnDef("a", "DECIMAL(10, 2)"), ColumnDef("b", "DATE")),
    ),
    (
        "CREATE TABLE t (a ARRAY<STRUCT<x: INT, y: MAP<STRING, INT>>>, b INT)",
        table(
            "t", ColumnDef("a", "ARRAY<STRUCT<x: INT, y: MAP<STRING, INT>>>"), ColumnDef("b", "INT")
        ),
    ),
    (
        "CREATE TABLE t (a VARCHAR, b varchar(5))",
        table("t", ColumnDef("a", "STRING"), ColumnDef("b", "varchar(5)")),
    ),
    ("CREATE TABLE t (a ARRAY<VARCHAR>)", table("t", ColumnDef("a", "ARRAY<STRING>"))),
    (
        "CREATE TABLE t (a STRUCT<text: VARCHAR, b: INT>)",
        table("t", ColumnDef("a", "STRUCT<text: STRING, b: INT>")),
    ),
    (
        "CREATE TABLE t (a INT PRIMARY KEY)",
        table("t", ColumnDef("a", "INT", not_null=True), primary_key=("a",)),
    ),
    (
        "CREATE TABLE t (PRIMARY KEY (B, a), a INT, b INT)",
        table(
            "t",
            ColumnDef("a", "INT", not_null=True),
            ColumnDef("b", "INT", not_null=True),
            primary_key=("b", "a"),
        ),
    ),
    ("CREATE SOURCE s (a INT)", table("s", A, kind=SOURCE)),
    ("CREATE SOURCE TABLE IF NOT EXISTS s (a INT)", table("s", A, kind=SOURCE, if_not_exists=True)),
    (
        "CREATE SOURCE s (a INT, ts TIMESTAMP, WATERMARK FOR TS AS ts - INTERVAL '5' SECOND,"
        " PRIMARY KEY (a))",
        table(
            "s",
            ColumnDef("a", "INT", not_null=True),
            ColumnDef("ts", "TIMESTAMP"),
            kind=SOURCE,
            primary_key=("a",),
            watermark=Watermark("ts", "ts - INTERVAL '5' SECOND"),
        ),
    ),
    (
        "CREATE SOURCE s (ts TIMESTAMP, WATERMARK FOR ts AS date_add(ts, f(1, 2)))",
        table(
            "s",
            ColumnDef("ts", "TIMESTAMP"),
            kind=SOURCE,
            watermark=Watermark("ts", "date_add(ts, f(1, 2))"),
        ),
    ),
    (
        "CREATE SOURCE s (a INT) WITH (connector = 'kafka', group.id = 'x''y', n = -5,"
        " on = TRUE, 'k.v' = 1.5, mode = read-only, every = INTERVAL '10' SECONDS)",
        table(
            "s",
            A,
            kind=SOURCE,
            options={
                "connector": "kafka",
                "group.id": "x'y",
                "n": "-5",
                "on": "TRUE",
                "k.v": "1.5",
                "mode": "read-only",
                "every": "10 second",
            },
        ),
    ),
]

VIEWS: list[tuple[str, Statement]] = [
    ("CREATE MATERIALIZED VIEW v AS SELECT 1", view("v", "SELECT 1")),
    ("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 1", view("v", "SELECT 1", or_replace=True)),
    (
        "CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT 1",
        view("v", "SELECT 1", if_not_exists=True),
    ),
    (
        "CREATE MATERIALIZED VIEW v AS (SELECT 1) UNION ALL (SELECT 2)",
        view("v", "(SELECT 1) UNION ALL (SELECT 2)"),
    ),
    ("CREATE MATERIALIZED VIEW v AS VALUES (1)", view("v", "VALUES (1)")),
    ("CREATE MATERIALIZED VIEW v AS TABLE t", view("v", "TABLE t")),
    (
        "CREATE MATERIALIZED VIEW v WITH (a = 'b') AS WITH c AS (SELECT 1) SELECT * FROM c",
        view("v", "WITH c AS (SELECT 1) SELECT * FROM c", {"a": "b"}),
    ),
    (
        "CREATE MATERIALIZED VIEW v AS WITH RECURSIVE c (n) AS (SELECT 1), d AS (SELECT 2)"
        " SELECT * FROM c",
        view("v", "WITH RECURSIVE c (n) AS (SELECT 1), d AS (SELECT 2) SELECT * FROM c"),
    ),
    # The text stays as it is, comments and blanks included; what trails it does not belong to it.
    (
        "CREATE MATERIALIZED VIEW v AS SELECT  a -- ; x\n, 'it;s' /* ; */ FROM t -- end",
        view("v", "SELECT  a -- ; x\n, 'it;s' /* ; */ FROM t"),
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT a FROM t EMIT AFTER WATERMARK",
        view("v", "SELECT a FROM t", emit=Emit(EmitKind.AFTER_WATERMARK)),
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT a FROM t emit on update",
        view("v", "SELECT a FROM t", emit=Emit(EmitKind.ON_UPDATE)),
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT a FROM t EMIT ON WINDOW CLOSE",
        view("v", "SELECT a FROM t", emit=Emit(EmitKind.ON_WINDOW_CLOSE)),
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT a FROM t EMIT FINAL",
        view("v", "SELECT a FROM t", emit=Emit(EmitKind.FINAL)),
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT a FROM t EMIT CHANGES",
        view("v", "SELECT a FROM t", emit=Emit(EmitKind.CHANGES)),
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT a FROM t EMIT PERIODICALLY INTERVAL '10' SECOND",
        view("v", "SELECT a FROM t", emit=Emit(EmitKind.PERIODICALLY, "10 second")),
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE (a) EMIT FINAL"
        " ALLOW LATENESS INTERVAL '1 hour 30 minutes' LATE DATA TO s.late",
        view(
            "v",
            "SELECT a FROM t WHERE (a)",
            emit=Emit(EmitKind.FINAL),
            lateness="1 hour 30 minute",
            late_data_to="s.late",
        ),
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT 1 FROM t LATE DATA TO l",
        view("v", "SELECT 1 FROM t", late_data_to="l"),
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT 1 FROM t ALLOW LATENESS INTERVAL 90 SECONDS",
        view("v", "SELECT 1 FROM t", lateness="90 second"),
    ),
]

NAMES_THAT_LOOK_LIKE_CLAUSES = [
    "SELECT emit FROM t",
    "SELECT emit, a FROM t ORDER BY emit",
    "SELECT a emit, b FROM t",
    "SELECT a emit FROM t",
    "SELECT a AS emit",
    "SELECT t.emit final FROM t",
    "SELECT emit final FROM t",
    "SELECT a * emit FROM t WHERE a = emit",
    "SELECT a FROM t emit WHERE emit.a = 1",
    "SELECT a FROM t JOIN u emit ON emit.a = t.a",
    "SELECT a FROM t JOIN u emit ON update.a = emit.a",
    "SELECT a FROM t AS emit",
    "SELECT a FROM emit",
    "SELECT (SELECT max(b) FROM u emit) FROM t",
    "SELECT `EMIT`, 'EMIT FINAL' FROM t",
    "SELECT allow lateness, late data FROM t",
    "SELECT a FROM t LATE",
    "SELECT case when emit then emit else emit end FROM t GROUP BY emit HAVING emit",
]

OTHERS: list[tuple[str, Statement]] = [
    (
        "CREATE SINK k FROM v WITH (connector = 'files')",
        CreateSink("k", "v", {"connector": "files"}, **SOMEWHERE),
    ),
    ("DROP MATERIALIZED VIEW v", Drop(VIEW, "v", **SOMEWHERE)),
    (
        "DROP MATERIALIZED VIEW IF EXISTS a.v CASCADE",
        Drop(VIEW, "a.v", if_exists=True, cascade=True, **SOMEWHERE),
    ),
    ("DROP TABLE t", Drop(TABLE, "t", **SOMEWHERE)),
    ("DROP SOURCE `if`", Drop(SOURCE, "if", **SOMEWHERE)),
    ("DROP SINK k CASCADE", Drop(SINK, "k", cascade=True, **SOMEWHERE)),
    (
        "ALTER MATERIALIZED VIEW v SET (schedule = 'every epoch')",
        AlterView("v", {"schedule": "every epoch"}, **SOMEWHERE),
    ),
    ("ALTER SINK k SET (path = 'x')", AlterSink("k", {"path": "x"}, **SOMEWHERE)),
    (
        "ALTER SOURCE s SET (path = '/x', call_timeout = '5 s')",
        AlterSource("s", {"path": "/x", "call_timeout": "5 s"}, **SOMEWHERE),
    ),
    ("PAUSE MATERIALIZED VIEW v", Pause("v", **SOMEWHERE)),
    ("PAUSE SINK a.k", Pause("a.k", is_view=False, is_sink=True, **SOMEWHERE)),
    ("RESUME SINK k", Resume("k", is_view=False, is_sink=True, **SOMEWHERE)),
    ("RESUME MATERIALIZED VIEW v", Resume("v", **SOMEWHERE)),
    ("REFRESH MATERIALIZED VIEW v", Refresh("v", **SOMEWHERE)),
    ("INSERT INTO t VALUES (1, 'a;b'), (2, NULL)", insert("t", (), "VALUES (1, 'a;b'), (2, NULL)")),
    ("INSERT INTO TABLE t (a, `b c`) SELECT 1, 2", insert("t", ("a", "b c"), "SELECT 1, 2")),
    ("INSERT INTO t (SELECT 1)", insert("t", (), "(SELECT 1)")),
    (
        "INSERT INTO t WITH c AS (SELECT 1) SELECT * FROM c",
        insert("t", (), "WITH c AS (SELECT 1) SELECT * FROM c"),
    ),
    ("DELETE FROM t", Delete("t", **SOMEWHERE)),
    (
        "DELETE FROM t WHERE a = 'x' OR b IN (SELECT 1)",
        Delete("t", "a = 'x' OR b IN (SELECT 1)", **SOMEWHERE),
    ),
    ("UPDATE t SET a = a + 1", Update("t", (("a", "a + 1"),), **SOMEWHERE)),
    (
        "UPDATE t SET a = f(b, c), `d e` = CASE WHEN x THEN 'WHERE' ELSE ',' END WHERE a = 1",
        Update(
            "t",
            (("a", "f(b, c)"), ("d e", "CASE WHEN x THEN 'WHERE' ELSE ',' END")),
            "a = 1",
            **SOMEWHERE,
        ),
    ),
    (
        "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE",
        Merge(
            "t",
            None,
            "s",
            "s",
            "t.a = s.a",
            (MergeClause(MergeKind.MATCHED, MergeAction.DELETE),),
            **SOMEWHERE,
        ),
    ),
    (
        "MERGE INTO t AS `a b` USING (SELECT 1 AS x) q ON CASE WHEN q.x = 1 THEN true END"
        " WHEN MATCHED AND CASE WHEN x THEN y END THEN UPDATE SET `a b`.c = CASE WHEN d THEN 1 END,"
        " e = f(1, 2) WHEN NOT MATCHED BY TARGET THEN INSERT (c, e) VALUES (1, 'when')"
        " WHEN NOT MATCHED BY SOURCE THEN DELETE",
        Merge(
            "t",
            "a b",
            "(SELECT 1 AS x)",
            "q",
            "CASE WHEN q.x = 1 THEN true END",
            (
                MergeClause(
                    MergeKind.MATCHED,
                    MergeAction.UPDATE,
                    "CASE WHEN x THEN y END",
                    (("c", "CASE WHEN d THEN 1 END"), ("e", "f(1, 2)")),
                ),
                MergeClause(
                    MergeKind.NOT_MATCHED, MergeAction.INSERT, None, (("c", "1"), ("e", "'when'"))
                ),
                MergeClause(MergeKind.NOT_MATCHED_BY_SOURCE, MergeAction.DELETE),
            ),
            **SOMEWHERE,
        ),
    ),
    ("SELECT 1", query("SELECT 1")),
    ("(SELECT 1)", query("(SELECT 1)")),
    ("VALUES (1)", query("VALUES (1)")),
    ("TABLE t", query("TABLE t")),
    ("WITH c AS (SELECT 1) SELECT * FROM c", query("WITH c AS (SELECT 1) SELECT * FROM c")),
    ("SELECT * FROM v AS OF EPOCH 12", query("SELECT * FROM v", 12)),
    (
        "SELECT * FROM v AS OF EPOCH 12 WHERE a",
        query(f"SELECT * FROM v {'':14} WHERE a", 12),
    ),
    (
        "SELECT * FROM a AS OF EPOCH 3 JOIN b as of epoch 3 x ON 1",
        query(f"SELECT * FROM a {'':13} JOIN b {'':13} x ON 1", 3),
    ),
    (
        "SELECT * FROM (SELECT * FROM s.v AS OF EPOCH 0)",
        query(f"SELECT * FROM (SELECT * FROM s.v {'':13})", 0),
    ),
    (
        "SELECT 'AS OF EPOCH 3', of AS of FROM epoch",
        query("SELECT 'AS OF EPOCH 3', of AS of FROM epoch"),
    ),
    ("SELECT * FROM stream", query("SELECT * FROM stream")),
    ("SELECT * FROM stream WHERE stream.a", query("SELECT * FROM stream WHERE stream.a")),
    ("SELECT * FROM `stream` s", query("SELECT * FROM `stream` s")),
    ("EXPLAIN DAG", Explain(ExplainDag(), **SOMEWHERE)),
    ("EXPLAIN MATERIALIZED VIEW v", Explain("v", **SOMEWHERE)),
    ("EXPLAIN SELECT ';'", Explain(query("SELECT ';'"), **SOMEWHERE)),
    ("EXPLAIN SELECT * FROM v AS OF EPOCH 2", Explain(query("SELECT * FROM v", 2), **SOMEWHERE)),
    (
        "EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT 1 FROM t EMIT FINAL",
        Explain(view("v", "SELECT 1 FROM t", emit=Emit(EmitKind.FINAL)), **SOMEWHERE),
    ),
    ("SHOW SOURCES", Show(ShowKind.SOURCES, **SOMEWHERE)),
    ("SHOW TABLES", Show(ShowKind.TABLES, **SOMEWHERE)),
    ("SHOW MATERIALIZED VIEWS", Show(ShowKind.VIEWS, **SOMEWHERE)),
    ("SHOW SINKS", Show(ShowKind.SINKS, **SOMEWHERE)),
    ("SHOW CHECKPOINTS", Show(ShowKind.CHECKPOINTS, **SOMEWHERE)),
    ("SHOW DEPENDENCIES FOR v", Show(ShowKind.DEPENDENCIES, "v", **SOMEWHERE)),
    ("SHOW CREATE v", Show(ShowKind.CREATE, "v", **SOMEWHERE)),
    ("SHOW CREATE MATERIALIZED VIEW v", Show(ShowKind.CREATE, "v", **SOMEWHERE)),
    ("SHOW CREATE sink", Show(ShowKind.CREATE, "sink", **SOMEWHERE)),
    ("DESCRIBE v", Describe("v", **SOMEWHERE)),
    ("DESC TABLE laminar_system.epochs", Describe("laminar_system.epochs", **SOMEWHERE)),
    ("DESCRIBE FUNCTION f", Describe("f", is_function=True, **SOMEWHERE)),
    ("SHOW CREATE FUNCTION f", Show(ShowKind.CREATE_FUNCTION, "f", **SOMEWHERE)),
    (
        "CREATE OR REPLACE FUNCTION default.f(x INT, y STRING DEFAULT 'a') RETURNS DATE COMMENT 'c'"
        " RETURN x + y",
        CreateFunction(
            "default.f",
            (Parameter("x", "INT"), Parameter("y", "STRING", "'a'")),
            "DATE",
            "x + y",
            "c",
            or_replace=True,
            body_location=START,
            **SOMEWHERE,
        ),
    ),
    ("DROP FUNCTION IF EXISTS f CASCADE", DropFunction("f", True, True, **SOMEWHERE)),
    ("USE laminar.default", Use("laminar.default", **SOMEWHERE)),
    ("DESCRIBE laminar.default.v", Describe("laminar.default.v", **SOMEWHERE)),
    ("DESCRIBE DATABASE s", Describe("s", is_schema=True, **SOMEWHERE)),
    ("SHOW TABLES IN s", Show(ShowKind.TABLES, schema="s", **SOMEWHERE)),
    ("CREATE SCHEMA IF NOT EXISTS s COMMENT 'c'", CreateSchema("s", "c", True, **SOMEWHERE)),
    ("DROP SCHEMA IF EXISTS s CASCADE", DropSchema("s", True, True, **SOMEWHERE)),
    ("DESCRIBE function", Describe("function", **SOMEWHERE)),
    ("CHECKPOINT", Checkpoint(**SOMEWHERE)),
    ("RESTORE FROM CHECKPOINT 7", Restore(7, **SOMEWHERE)),
    (
        "SET laminar.diamond_consistency = atomic",
        SetOption("laminar.diamond_consistency", "atomic", **SOMEWHERE),
    ),
    ("SET laminar.x = 'a b'", SetOption("laminar.x", "a b", **SOMEWHERE)),
    ("RESET laminar.x", ResetOption("laminar.x", **SOMEWHERE)),
]

GOOD = [*TABLES, *VIEWS, *OTHERS]


@pytest.mark.parametrize(("text", "expected"), GOOD, ids=[text for text, _ in GOOD])
def test_a_text_is_its_statement(text: str, expected: Statement) -> None:
    found = parse_statement(text)
    assert type(found) is type(expected)
    assert found == expected


@pytest.mark.parametrize("text", NAMES_THAT_LOOK_LIKE_CLAUSES)
def test_a_name_that_looks_like_a_clause_stays_a_name(text: str) -> None:
    statement = parse_statement(f"CREATE MATERIALIZED VIEW v AS {text} EMIT CHANGES")
    assert statement == view("v", text, emit=Emit(EmitKind.CHANGES))
    if not text.endswith(("emit", "EMIT")):
        assert parse_statement(f"CREATE MATERIALIZED VIEW v AS {text}") == view("v", text)


def test_statements_differ_where_they_ask_for_different_things() -> None:
    assert parse_statement("DROP TABLE t") != parse_statement("DROP SOURCE t")
    assert parse_statement("SELECT 1") != parse_statement("SELECT 2")
    assert parse_statement("  DROP TABLE t") == parse_statement("drop table t")


def test_a_script_knows_where_each_statement_stands() -> None:
    script = "-- first\nDROP TABLE a; ;\n\n  /* ; */ INSERT INTO t\n  SELECT ';' -- last;\n;"
    first, second = parse_script(script)
    assert (first.text, first.location) == ("DROP TABLE a", Location(2, 1, 9))
    assert isinstance(second, Insert)
    assert second.text == "INSERT INTO t\n  SELECT ';'"
    assert (second.location.line, second.location.column) == (4, 11)
    assert second.query_location == Location(5, 3, script.index("SELECT"))
    assert script[second.location.offset :].startswith("INSERT")


@pytest.mark.parametrize("text", ["", " \n", ";;", "-- nothing", "/* a /* b */ c */"])
def test_an_empty_script_has_no_statements(text: str) -> None:
    assert parse_script(text) == []


def test_columns_become_a_schema() -> None:
    statement = parse_statement("CREATE TABLE t (a integer NOT NULL, `b c` VARCHAR)")
    assert isinstance(statement, CreateTable)
    assert statement.schema.ddl() == "a int NOT NULL, `b c` string"
