"""What names of several parts stand for in a text; one line adds a case."""

from __future__ import annotations

import pytest

from laminar.errors import LaminarError
from laminar.sql import parse_statement, relations_of
from laminar.sql.resolved_names import resolved_query
from laminar.sql.resolved_statements import in_full, resolved
from laminar.sql.schemas import Names, last_of, parts_of, schema_of

NAMES = Names("default", ("a", "b"))
INSIDE = Names("a", ("a", "b"))

QUERIES = [
    # (query, where `default` is current, where `a` is)
    ("SELECT t.x FROM t", "SELECT t.x FROM t", "SELECT t.x FROM `a.t` AS t"),
    ("SELECT x FROM default.t", "SELECT x FROM t", "SELECT x FROM t"),
    ("SELECT A.t.x FROM laminar.a.T", *["SELECT t.x FROM `a.T` AS T"] * 2),
    ("SELECT t.* FROM a.`t`", "SELECT t.* FROM `a.t` AS `t`", "SELECT t.* FROM `a.t` AS `t`"),
    ("SELECT a.t.* FROM a.t u", "SELECT a.t.* FROM `a.t` u", "SELECT a.t.* FROM `a.t` u"),
    (
        "SELECT a.t.x, t.y FROM a.t JOIN b.u AS t ON a.t.k = t.k",
        *["SELECT `a.t`.x, t.y FROM `a.t` JOIN `b.u` AS t ON `a.t`.k = t.k"] * 2,
    ),
    (
        "SELECT a.t.x, default.t.x FROM a.t, default.t",
        *["SELECT `a.t`.x, `default.t`.x FROM `a.t`, t AS `default.t`"] * 2,
    ),
    (
        "SELECT x FROM a.t WHERE EXISTS (SELECT 1 FROM b.t WHERE t.x = a.t.x)",
        *["SELECT x FROM `a.t` WHERE EXISTS (SELECT 1 FROM `b.t` WHERE `b.t`.x = `a.t`.x)"] * 2,
    ),
    (
        "WITH t AS (SELECT 1 FROM t) SELECT * FROM t",
        "WITH t AS (SELECT 1 FROM t) SELECT * FROM t",
        "WITH t AS (SELECT 1 FROM `a.t` AS t) SELECT * FROM t",
    ),
    (
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT * FROM t, b.t AS o",
        *[
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t)"
            " SELECT * FROM t, `b.t` AS o"
        ]
        * 2,
    ),
    (
        "(WITH q AS (TABLE b.t) SELECT * FROM q) UNION SELECT * FROM b.q",
        *["(WITH q AS (TABLE `b.t`) SELECT * FROM q) UNION SELECT * FROM `b.q` AS q"] * 2,
    ),
    (
        "SELECT EXTRACT(YEAR FROM b.d), x IS DISTINCT FROM b.y FROM b.t AS b",
        *["SELECT EXTRACT(YEAR FROM b.d), x IS DISTINCT FROM b.y FROM `b.t` AS b"] * 2,
    ),
    (
        "SELECT * FROM b.t TABLESAMPLE (5 ROWS), VALUES (1), (2) AS v(x), LATERAL (SELECT b.t.x)",
        *[
            "SELECT * FROM `b.t` TABLESAMPLE (5 ROWS) AS t, VALUES (1), (2) AS v(x),"
            " LATERAL (SELECT t.x)"
        ]
        * 2,
    ),
    (
        "SELECT * EXCEPT (x) FROM b.t LATERAL VIEW explode(b.t.m) e AS k, v ORDER BY t.k",
        *["SELECT * EXCEPT (x) FROM `b.t` AS t LATERAL VIEW explode(t.m) e AS k, v ORDER BY t.k"]
        * 2,
    ),
    (
        "FROM b.t |> WHERE b.t.x > 1 |> JOIN b.u ON t.k = u.k |> SELECT u.x",
        *["FROM `b.t` AS t |> WHERE t.x > 1 |> JOIN `b.u` AS u ON t.k = u.k |> SELECT u.x"] * 2,
    ),
    (
        "SELECT * FROM (b.t LEFT JOIN b.u USING (k)) JOIN range(3) r ON true",
        *["SELECT * FROM (`b.t` AS t LEFT JOIN `b.u` AS u USING (k)) JOIN range(3) r ON true"] * 2,
    ),
    (
        "SELECT default.f(b.x.y), v:b.t, s.b.t.x FROM b.t ASOF JOIN b.u"
        " MATCH_CONDITION (t.k > u.k) ON t.n = u.n",
        *[
            "SELECT f(b.x.y), v:b.t, s.b.t.x FROM `b.t` AS t ASOF JOIN `b.u` AS u"
            " MATCH_CONDITION (t.k > u.k) ON t.n = u.n"
        ]
        * 2,
    ),
    (
        "SELECT laminar_system.epochs.epoch FROM laminar.laminar_system.epochs",
        *["SELECT laminar_system.epochs.epoch FROM laminar_system.epochs"] * 2,
    ),
    (
        "SELECT * FROM table_changes('b.t', 1), b.t CHANGES FROM VERSION 2",
        *["SELECT * FROM table_changes('b.t', 1), `b.t` CHANGES FROM VERSION 2"] * 2,
    ),
    (
        "SELECT current_database(), upper(current_schema()) AS u",
        "SELECT 'default' AS `current_schema()`, upper('default') AS u",
        "SELECT 'a' AS `current_schema()`, upper('a') AS u",
    ),
    (
        "SELECT join, u.v, table FROM b.union JOIN b.from ON join.x",
        *["SELECT join, u.v, table FROM `b.union` AS `union` JOIN `b.from` AS `from` ON join.x"]
        * 2,
    ),
    (
        "SELECT select.xor AS like FROM cross AS select",
        "SELECT select.xor AS like FROM cross AS select",
        "SELECT select.xor AS like FROM `a.cross` AS select",
    ),
]


@pytest.mark.parametrize(("query", "outside", "inside"), QUERIES, ids=[each[0] for each in QUERIES])
def test_a_query_names_identities(query: str, outside: str, inside: str) -> None:
    assert resolved_query(query, NAMES).text == outside
    assert resolved_query(query, INSIDE).text == inside


REFUSED = [
    ("SELECT * FROM c.t", "LMR-3035", "c.t"),
    ("SELECT * FROM aa.t", "LMR-3035", "aa.t"),
    ("SELECT * FROM x.a.t", "LMR-3036", "x.a.t"),
    ("SELECT * FROM `a.t`", "LMR-3002", "`a.t`"),
    ("SELECT 1,\n  * FROM u.v.w.x", "LMR-3035", "u.v.w.x"),
    ("SELECT * FROM table_changes('c.t', 1)", "LMR-3035", "'c.t'"),
    ("WITH t AS (SELECT * FROM t) SELECT * FROM t, default.t", "LMR-3005", "default.t"),
]


@pytest.mark.parametrize(("query", "code", "underlined"), REFUSED)
def test_a_name_in_no_schema_is_refused_where_it_stands(
    query: str, code: str, underlined: str
) -> None:
    with pytest.raises(LaminarError) as caught:
        resolved_query(query, NAMES)
    assert caught.value.code == code
    assert caught.value.span == (query.index(underlined), len(underlined))


def test_an_unknown_schema_has_the_nearest_one_as_a_hint() -> None:
    with pytest.raises(LaminarError, match='did you mean "sales"') as caught:
        resolved_query("SELECT * FROM slaes.t", Names("default", ("sales",)))
    assert "default, sales, laminar_system" in caught.value.detail


def test_a_place_in_what_is_run_is_one_in_what_was_written() -> None:
    made = resolved_query("SELECT a.t.nme, u FROM a.t WHERE wrong", NAMES)
    for word in ("nme", "u", "wrong"):
        error = LaminarError("x").at(made.text, made.text.index(f"{word}"), len(word))
        assert made.pointed(error).span == (made.before.index(word), len(word))
    error = LaminarError("x").at(made.text, made.text.index("`a.t`"), 5)
    assert made.pointed(error).span == (made.before.index("a.t WHERE"), 3)


STATEMENTS = [
    ("DELETE FROM a.t WHERE a.t.x = t.y", "where", "`a.t`.x = `a.t`.y"),
    (
        "DELETE FROM b.t WHERE x IN (SELECT t.x FROM a.t)",
        *("where", "x IN (SELECT t.x FROM `a.t` AS t)"),
    ),
    ("UPDATE b.u SET x = u.y + 1", "assignments", (("x", "`b.u`.y + 1"),)),
    ("UPDATE default.u SET x = default.u.y", "assignments", (("x", "u.y"),)),
    (
        "MERGE INTO a.t USING b.t ON a.t.k = b.t.k WHEN MATCHED THEN DELETE",
        *("on", "`a.t`.k = `b.t`.k"),
    ),
    ("MERGE INTO a.t z USING b.u ON z.k = b.u.k WHEN MATCHED THEN DELETE", "on", "z.k = u.k"),
    (
        "MERGE INTO t USING (TABLE b.t) q ON t.k = q.k WHEN MATCHED THEN DELETE",
        *("source", "(TABLE `b.t`)"),
    ),
    ("CREATE SINK a.k FROM b.v WITH (connector = 'files')", "source", "b.v"),
    ("REFRESH MATERIALIZED VIEW laminar.b.v", "name", "b.v"),
    ("SHOW CREATE default.sink", "name", "sink"),
    ("SHOW TABLES", "schema", "default"),
    ("USE laminar", "schema", "default"),
    ("EXPLAIN MATERIALIZED VIEW A.v", "target", "a.v"),
    ("DROP TABLE IF EXISTS nope.t", "name", "nope.t"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "part", "expected"), STATEMENTS)
def test_a_statement_names_identities(text: str, part: str, expected: object) -> None:
    assert getattr(resolved(parse_statement(text), NAMES).statement, part) == expected


IN_FULL = [
    (
        "CREATE MATERIALIZED VIEW v AS SELECT t.x, b.t.y FROM t JOIN b.t ON true LATE DATA TO l",
        "CREATE MATERIALIZED VIEW a.v AS SELECT t.x, b.t.y FROM a.t JOIN b.t ON true"
        " LATE DATA TO a.l",
    ),
    ("CREATE TABLE IF NOT EXISTS `t u` (t INT)", "CREATE TABLE IF NOT EXISTS a.`t u` (t INT)"),
    ("create sink k from default.v with (connector = 'x')",
     "create sink a.k from default.v with (connector = 'x')"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), IN_FULL)
def test_a_definition_in_full_is_the_same_from_anywhere(text: str, expected: str) -> None:
    assert in_full(text, INSIDE) == expected
    assert in_full(expected, NAMES) == in_full(expected, INSIDE) == expected
    here, there = (
        resolved(parse_statement(text), INSIDE),
        resolved(parse_statement(expected), NAMES),
    )
    assert here.statement == there.statement


def test_an_identity_has_two_halves() -> None:
    assert [NAMES.identity(each) for each in ("t", "A.t", "laminar.b.x y")] == ["t", "a.t", "b.x y"]
    assert [(schema_of(each), last_of(each)) for each in ("t", "a.t")] == [
        ("default", "t"),
        ("a", "t"),
    ]
    assert parts_of("a.`b.c`.d e") == ("a", "b.c", "d e")
    assert parts_of("no name. ` at all") == ("no name. ` at all",)
    assert relations_of("SELECT * FROM `a.t` JOIN b.u") == ("a.t", "b.u")


def test_a_name_with_a_dot_collides_with_no_schema() -> None:
    assert INSIDE.identity("`b.t`") == "a.`b.t`"  # nothing is called so
    old = Names("default", ("a",), frozenset({"c.t"}))  # as a Python DAG could call it
    assert resolved_query("SELECT * FROM c.t, `c.t` u", old).text == (
        "SELECT * FROM `c.t` AS t, `c.t` u"
    )
