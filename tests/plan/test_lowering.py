"""From SQL to plans: what is understood, what each clause becomes, and what has no rule."""

# ruff: noqa: E501 - a case is one line

from __future__ import annotations

import pytest

from laminar.plan.canonical import canonical, rename_columns
from laminar.plan.lower import lower
from laminar.plan.nodes import (
    Aggregate,
    Anti,
    Constant,
    Filter,
    Generate,
    Join,
    KeyedJoin,
    Node,
    Project,
    Recursion,
    Reweigh,
    Scan,
    TopK,
    UnionAll,
    Window,
    children,
    scanned,
)
from laminar.plan.parse import parse_query
from laminar.plan.reasons import NoRule, Reason
from laminar.plan.subqueries import push_not
from laminar.sql.readable import readable
from laminar.testing import FixedTyper

RELATIONS = {
    "t": ("id", "k", "g", "x", "st", "xs"),
    "u": ("k", "w"),
    "Odd": ("c1", "c2", "a b"),
}


def plan(sql: str) -> Node:
    return lower(parse_query(sql), RELATIONS, FixedTyper()).node


def recursive(step: str, rest: str = "") -> str:
    items = f"WITH RECURSIVE r(v) AS (SELECT k FROM t UNION ALL ({step}))"
    return f"{items} SELECT * FROM r {rest}"


def kinds(node: Node) -> set[type]:
    return {type(node)}.union(*(kinds(each) for each in children(node)))


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (recursive("SELECT v FROM r LIMIT 1"), Reason.RECURSION_BY_LEVEL),
        (recursive("SELECT DISTINCT v FROM r"), Reason.RECURSION_BY_LEVEL),
        (recursive("SELECT MAX(v) FROM r"), Reason.RECURSION_BY_LEVEL),
        (recursive("SELECT v FROM r EXCEPT ALL SELECT k FROM t"), Reason.RECURSION_BY_LEVEL),
        (recursive("SELECT SUM(v) OVER () FROM r"), Reason.RECURSION_BY_LEVEL),
        (recursive("SELECT v FROM r UNION ALL SELECT k FROM t"), Reason.RECURSION_BY_LEVEL),
        (recursive("SELECT k FROM t WHERE k NOT IN (SELECT v FROM r)"), Reason.RECURSION_BY_LEVEL),
        (
            recursive("SELECT k FROM t LEFT JOIN r ON k = v AND x > v"),
            Reason.RECURSION_BY_LEVEL,
        ),
        (recursive("SELECT p.v FROM r p, r q"), Reason.RECURSION_TWICE),
        (recursive("SELECT v, v FROM r"), Reason.RECURSIVE_CTE),
        (recursive("SELECT v FROM r", "LIMIT 5"), Reason.RECURSIVE_CTE),
        (recursive("SELECT v FROM r").replace("UNION ALL", "UNION"), Reason.RECURSIVE_CTE),
        ("SELECT * FROM t, LATERAL RANGE(t.k)", Reason.TABLE_FUNCTION),
        ("SELECT * FROM t TABLESAMPLE (3 ROWS)", Reason.TABLE_SAMPLE),
        ("SELECT 1 FROM t RIGHT JOIN LATERAL (SELECT w FROM u) q ON TRUE", Reason.LATERAL_SUBQUERY),
        ("SELECT 1 FROM t LEFT JOIN u ON t.k + u.k IN (SELECT w FROM u)", Reason.SUBQUERY_POSITION),
        (
            "SELECT (SELECT MAX(w) FROM u FULL JOIN (SELECT * FROM u WHERE k = x) q USING (k)) FROM t",
            Reason.CORRELATION,
        ),
        ("SELECT EXPLODE(xs) + 1 AS e FROM t", Reason.GENERATOR_POSITION),
        ("SELECT EXPLODE(FLATTEN(EXPLODE(xs))) AS e FROM t", Reason.GENERATOR_POSITION),
        ("SELECT id FROM t ORDER BY id LIMIT LENGTH('ab')", Reason.LIMIT_EXPRESSION),
        ("SELECT DISTINCT id FROM t ORDER BY x LIMIT 2", Reason.LIMIT_EXPRESSION),
        ("SELECT id FROM t SORT BY id LIMIT 3", Reason.UNKNOWN_CLAUSE),
        ("SELECT COUNT(t.*) AS n FROM t", Reason.STAR_ARGUMENT),
        ("SELECT SUM(x) OVER w AS s FROM t WINDOW v AS (PARTITION BY k)", Reason.UNRESOLVED_NAME),
        ("SELECT ARRAYS_ZIP(xs, xs) AS z FROM t", Reason.NAMED_BY_COLUMNS),
        ("SELECT nothing FROM t", Reason.UNRESOLVED_NAME),
        ("SELECT * FROM nowhere", Reason.UNRESOLVED_NAME),
        ("SELECT k FROM t UNION ALL BY NAME SELECT k FROM u", Reason.UNKNOWN_CLAUSE),
    ],
)
def test_what_has_no_rule_says_why(sql: str, reason: Reason) -> None:
    with pytest.raises(NoRule) as raised:
        plan(sql)
    assert raised.value.reason is reason


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT k FROM t", {Project, Scan}),
        ("SELECT k FROM t WHERE x > 1", {Project, Filter, Scan}),
        ("SELECT 1 AS a", {Project, Constant}),
        ("SELECT * FROM VALUES (1), (2) AS v(a)", {Project, Constant}),
        ("SELECT k FROM t UNION ALL SELECT k FROM u", {UnionAll, Project, Scan}),
        ("SELECT k FROM t UNION SELECT k FROM u", {Aggregate, UnionAll, Project, Scan}),
        ("SELECT k FROM t EXCEPT ALL SELECT k FROM u", {Reweigh, Aggregate, UnionAll, Project, Scan}),
        ("SELECT DISTINCT k FROM t", {Aggregate, Project, Scan}),
        ("SELECT COUNT(*) AS n FROM t", {Aggregate, Project, Scan}),
        ("SELECT t.id FROM t, u WHERE t.k = u.k", {Join, Project, Scan}),
        ("SELECT id, w FROM t LEFT JOIN u ON t.k = u.k", {Join, Anti, Aggregate, UnionAll, Project, Scan}),
        ("SELECT id FROM t LEFT JOIN u ON t.k = u.k AND x > w", {KeyedJoin, Project, Scan}),
        ("SELECT id FROM t SEMI JOIN u ON t.k = u.k", {Join, Aggregate, Project, Scan}),
        ("SELECT id FROM t ANTI JOIN u ON t.k = u.k", {Anti, Aggregate, Project, Scan}),
        ("SELECT SUM(x) OVER (PARTITION BY k) AS s FROM t", {Window, Project, Scan}),
        ("SELECT id FROM t ORDER BY x LIMIT 2", {TopK, Project, Scan}),
        ("SELECT id FROM t ORDER BY x", {Project, Scan}),
        ("(SELECT k FROM t) LIMIT 2", {TopK, Project, Scan}),
        ("SELECT e FROM t LATERAL VIEW EXPLODE(xs) q AS e", {Generate, Project, Scan}),
        ("SELECT EXPLODE(xs) AS e FROM t", {Generate, Project, Scan}),
        ("SELECT FIRST_VALUE(x) OVER (PARTITION BY k ORDER BY x) AS f FROM t", {Window, Project, Scan}),
        ("SELECT id FROM t WHERE EXISTS(xs, e -> e > 1)", {Project, Filter, Scan}),
        ("SELECT COUNT(*) AS n FROM t GROUP BY WINDOW(x, '1 hour')", {Aggregate, Project, Scan}),
        ("TABLE t", {Project, Scan}),
        ("SELECT /* not ' a string */ id FROM t -- nor '", {Project, Scan}),
        ("SELECT id FROM t WHERE g LIKE ANY ('a%', 'b%')", {Project, Filter, Scan}),
        ("SELECT * FROM u PIVOT (SUM(w) FOR k IN (1, 2))", {Aggregate, Project, Scan}),
        ("SELECT * FROM u UNPIVOT (v FOR n IN (k, w))", {Generate, Filter, Project, Scan}),
        ("SELECT * FROM t NATURAL JOIN u", {Join, Project, Scan}),
        ("SELECT id FROM t LEFT JOIN u ON x > w", {Join, Anti, Aggregate, UnionAll, Project, Scan}),
        ("SELECT id FROM t SEMI JOIN u ON x > w", {Join, Aggregate, Project, Scan}),
        ("SELECT id FROM t ANTI JOIN u ON x > w", {Anti, Join, Aggregate, Project, Scan}),
        ("SELECT id FROM t ANTI JOIN u ON t.k <=> u.k", {Anti, Aggregate, Project, Scan}),
        ("SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE t.k = u.k AND w < x)", {KeyedJoin, Project, Scan}),
        ("SELECT id FROM t WHERE (k, x) NOT IN (SELECT k, w FROM u)", {Anti, Join, Aggregate, Project, Scan}),
        ("SELECT (SELECT w FROM u) AS w FROM t", {Join, Aggregate, Project, Scan}),
        ("SELECT SUM(x - (SELECT MAX(w) FROM u)) AS s FROM t", {Join, Aggregate, Project, Scan}),
        ("SELECT n FROM t, LATERAL (SELECT COUNT(*) AS n FROM u WHERE w < x)", {Join, Aggregate, UnionAll, Project, Scan}),
        ("SELECT w FROM t, LATERAL (SELECT w FROM u WHERE w < x ORDER BY w LIMIT 1)", {Window, Filter, Join, Aggregate, Project, Scan}),
        ("SELECT POSEXPLODE(xs) AS (p, e) FROM t", {Generate, Project, Scan}),
        ("SELECT SUM(x) OVER w AS s FROM t WINDOW w AS (PARTITION BY k)", {Window, Project, Scan}),
        ("SELECT id FROM t ORDER BY id LIMIT 1 + 1", {TopK, Project, Scan}),
        ("SELECT id FROM t ORDER BY id OFFSET 1", {TopK, Project, Scan}),
        ("SELECT id FROM t ORDER BY id LIMIT ALL", {Project, Scan}),
        ("SELECT id FROM t SORT BY id", {Project, Scan}),
        ("SELECT TO_JSON(STRUCT(*)) AS j FROM t", {Project, Scan}),
    ],
)  # fmt: skip
def test_each_clause_becomes_its_operators(sql: str, expected: set[type]) -> None:
    assert kinds(plan(sql)) == expected


def test_names_are_found_whatever_their_case() -> None:
    node = plan("SELECT T.K, `A B` FROM T JOIN ODD ON t.K = odd.C1")
    assert scanned(node) == ("t", "Odd")


def test_a_users_column_is_not_taken_for_one_of_the_plan() -> None:
    node = plan("SELECT u.*, c1, c2 FROM u JOIN odd ON u.k = odd.c1")
    assert isinstance(node, Project)
    # u.k and u.w are c1 and c2 in the plan, the columns that the user calls so are c3 and c4.
    assert [expression for expression, _ in node.items] == ["c1", "c2", "c3", "c4"]


def test_a_scalar_in_where_does_not_show_in_the_star() -> None:
    lowered = lower(
        parse_query("SELECT * FROM u WHERE w > (SELECT MAX(x) FROM t)"), RELATIONS, FixedTyper()
    )
    assert lowered.names == ("k", "w")


def test_a_field_path_keeps_its_fields() -> None:
    node = plan("SELECT st.a, t.st.b.c AS d FROM t")
    assert isinstance(node, Project)
    assert [expression for expression, _ in node.items] == ["c5.a", "c5.b.c"]


def test_a_lambda_hides_a_column_of_the_same_name() -> None:
    node = plan("SELECT TRANSFORM(xs, id -> id + x) AS y FROM t")
    assert isinstance(node, Project)
    assert node.items[0][0] == "TRANSFORM(c6, id -> id + c4)"


def test_fields_of_a_struct_are_called_as_the_user_called_the_columns() -> None:
    node = plan("SELECT TO_JSON(STRUCT(k, x AS y)) AS j FROM t")
    assert isinstance(node, Project)
    assert node.items[0][0] == "TO_JSON(STRUCT(c2 AS k, c4 AS y))"


def test_names_inside_an_expression_are_no_columns_of_the_plan() -> None:
    node = plan(
        "SELECT STRUCT(k AS c1), TRANSFORM(xs, c1 -> c1 + id) AS y, TRANSFORM(xs, e -> e.c1) FROM t"
    )
    assert isinstance(node, Project)
    assert [expression for expression, _ in node.items] == [
        "STRUCT(c2 AS `c1`)",
        "TRANSFORM(c6, `__c1` -> `__c1` + c1)",
        "TRANSFORM(c6, e -> e.`c1`)",
    ]
    with pytest.raises(NoRule, match="two ways"):
        plan("SELECT TRANSFORM(xs, ID -> id + 1) AS y FROM t")


def test_the_sign_of_a_literal_is_part_of_it() -> None:
    node = plan("SELECT -128Y AS a, k - 3Y AS b, -9223372036854775808L AS c, -k::INT AS d FROM t")
    assert isinstance(node, Project)
    assert [expression for expression, _ in node.items] == [
        "CAST(-128 AS TINYINT)",
        "c2 - CAST(3 AS TINYINT)",
        "CAST(-9223372036854775808 AS BIGINT)",
        "-CAST(c2 AS INT)",
    ]


def test_a_time_of_day_stays_one() -> None:
    node = plan(
        "SELECT TIME '10:00:00.123456789' AS a, CAST(k AS TIME(0)) AS b, CAST(k AS TIMESTAMP) AS c,"
        " DATE '2026-01-01'::STRING AS d, k::TIMESTAMP_NTZ(9) AS e, timestamp_ltz'now' AS f FROM t"
    )
    assert isinstance(node, Project)
    assert [expression for expression, _ in node.items] == [
        "TIME '10:00:00.123456789'",
        "CAST(c2 AS TIME(0))",
        "CAST(c2 AS TIMESTAMP)",
        "CAST(DATE '2026-01-01' AS STRING)",
        "CAST(c2 AS TIMESTAMP_NTZ(9))",
        "TIMESTAMP_LTZ 'now'",
    ]


def test_a_pipe_that_no_select_can_say_has_no_rule() -> None:
    with pytest.raises(NoRule, match="UNKNOWN_CLAUSE"):
        plan("FROM t |> AGGREGATE COUNT(*) AS n GROUP BY ROLLUP (k)")


def test_order_by_all_is_by_every_column() -> None:
    node = plan("SELECT k, x + 1 AS y FROM t ORDER BY ALL DESC LIMIT 2")
    assert isinstance(node, Project)
    assert isinstance(node.input, TopK)
    assert len(node.input.order) == 2
    assert all(each.endswith(" DESC") for each in node.input.order)


def test_one_empty_set_is_no_set() -> None:
    node = plan("SELECT COUNT(*) AS n FROM t GROUP BY GROUPING SETS (())")
    assert isinstance(node, Project)
    assert isinstance(node.input, Aggregate)
    assert node.input.keys == ()
    with pytest.raises(NoRule, match="several empty sets"):
        plan("SELECT COUNT(*) AS n FROM t GROUP BY GROUPING SETS ((), ())")


def test_grouping_ids_number_keys_as_they_are_written() -> None:
    node = plan("SELECT COUNT(*) AS n, GROUPING(k) AS i FROM t GROUP BY ROLLUP (x), k")
    assert isinstance(node, Project)
    assert "SHIFTRIGHT" in node.items[1][0]
    assert ", 0) & 1" in node.items[1][0]


def test_intersect_binds_tighter_than_union() -> None:
    node = plan("SELECT k FROM t UNION ALL SELECT k FROM u INTERSECT SELECT x FROM t")
    assert isinstance(node, UnionAll)
    assert [Reweigh in kinds(each) for each in node.inputs] == [False, True]


def test_inner_joins_in_a_row_are_one_join() -> None:
    node = plan("SELECT 1 AS o FROM t JOIN u ON t.k = u.k JOIN u v ON v.k = u.k WHERE t.x > 1")
    assert isinstance(node, Project)
    assert isinstance(node.input, Join)
    assert len(node.input.inputs) == 3
    assert [each.is_equality for each in node.input.predicates] == [True, True, False]


@pytest.mark.parametrize(
    ("sql", "partition"),
    [
        ("SELECT SUM(x) OVER (PARTITION BY k, g) AS a, MAX(x) OVER (PARTITION BY g) AS b FROM t", 1),
        ("SELECT SUM(x) OVER (PARTITION BY k) AS a, MAX(x) OVER (PARTITION BY g) AS b FROM t", 0),
        ("SELECT SUM(x) OVER (PARTITION BY k, x % 2) AS a FROM t", 2),
    ],
)  # fmt: skip
def test_windows_share_what_they_are_all_partitioned_by(sql: str, partition: int) -> None:
    node = plan(sql)
    assert isinstance(node, Project)
    assert isinstance(node.input, Window)
    assert len(node.input.partition) == partition


@pytest.mark.parametrize(
    ("sql", "same"),
    [
        ("SELECT 'it''s'", r"SELECT 'it\'s'"),
        (r"SELECT 'a\'b'", r"SELECT 'a\'b'"),
        (r"SELECT r'\d'", r"SELECT '\\d'"),
        (r"SELECT '\%'", r"SELECT '\\%'"),
        ("SELECT \"say \"\"hi\"\"\"", "SELECT 'say \"hi\"'"),
        ("SELECT 'plain', \"x\" FROM `it''s`", "SELECT 'plain', \"x\" FROM `it''s`"),
        ("SELECT '', 1", "SELECT '', 1"),
    ],
)  # fmt: skip
def test_strings_are_written_so_that_all_read_them_alike(sql: str, same: str) -> None:
    assert readable(sql) == same


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("COLLECT_LIST(x)", "SORT_ARRAY(COLLECT_LIST(c7))"),
        ("COLLECT_SET(x) FILTER (WHERE k > 1)", "SORT_ARRAY(COLLECT_SET(c8) FILTER(WHERE c7 > 1))"),
        ("MODE(x)", "MODE(c7, TRUE)"),
        ("MODE(x, TRUE)", "MODE(c7, TRUE)"),
        ("LISTAGG(x, ',')", "LISTAGG(c7, ',') WITHIN GROUP (ORDER BY c7)"),
        ("MAX_BY(x, k, 2)", "MAX_BY(c8, c7, 2)"),
        ("STD(x)", "STD(c7)"),
    ],
)
def test_a_call_that_leaves_its_answer_open_gets_one(written: str, said: str) -> None:
    node = plan(f"SELECT {written} AS a FROM t")
    assert isinstance(node, Project)
    assert isinstance(node.input, Aggregate)
    assert [call.sql for call in node.input.calls] == [said]


def test_plans_are_the_same_whatever_their_columns_are_called() -> None:
    first = plan("SELECT k, SUM(x) AS s FROM t WHERE g = 'c1' GROUP BY k")
    ctes = "WITH a AS (SELECT 1 AS z) "
    again = plan(f"{ctes}SELECT k, s FROM (SELECT k, SUM(x) AS s FROM t WHERE g = 'c1' GROUP BY k)")
    other = plan("SELECT k, SUM(x) AS s FROM t WHERE g = 'c2' GROUP BY k")
    assert isinstance(again, Project)
    assert canonical(first) == canonical(again.input)
    assert canonical(first) != canonical(other)


def test_only_columns_of_the_plan_are_renamed() -> None:
    names = {"c1": "a", "c2": "b"}
    assert rename_columns("c1.c2 + `c2` || 'c1' || c2", names) == "a.c2 + `c2` || 'c1' || b"


@pytest.mark.parametrize(
    ("sql", "same"),
    [
        ("NOT (a OR b)", "NOT a AND NOT b"),
        ("NOT (a AND NOT (b OR c))", "NOT a OR (b OR c)"),
        ("NOT NOT a", "a"),
        ("(a OR b)", "a OR b"),
    ],
)
def test_not_moves_inward(sql: str, same: str) -> None:
    found = push_not(parse_query(f"SELECT {sql}").expressions[0])
    assert found.sql("spark") == same


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT EXPLODE(xs) FROM t", ("col",)),
        ("SELECT EXPLODE(xs) AS e FROM t", ("e",)),
        ("SELECT POSEXPLODE(xs), k FROM t", ("pos", "col", "k")),
        ("SELECT k, STACK(2, 1, 2, 3, 4) FROM t", ("k", "col0", "col1")),
        ("SELECT * FROM u PIVOT (SUM(w) AS s, MAX(w) AS m FOR k IN (1 AS a, 2))", ("a_s", "a_m", "2_s", "2_m")),
        ("SELECT * FROM u UNPIVOT (v FOR n IN (k, w))", ("n", "v")),
        ("SELECT * FROM t NATURAL JOIN u", ("k", "id", "g", "x", "st", "xs", "w")),
    ],
)  # fmt: skip
def test_columns_are_called_as_spark_calls_them(sql: str, names: tuple[str, ...]) -> None:
    assert lower(parse_query(sql), RELATIONS, FixedTyper()).names == names


def test_planning_leaves_the_query_as_it_is() -> None:
    query = parse_query(
        "SELECT k, 1 + SUM(x - (SELECT MAX(w) FROM u)) AS s FROM t WHERE NOT (k > 1 OR EXISTS"
        " (SELECT 1 FROM u WHERE w < x)) GROUP BY k HAVING MAX(x) IN (SELECT w FROM u)"
    )
    before = query.sql("spark")
    lower(query, RELATIONS, FixedTyper())
    assert query.sql("spark") == before


@pytest.mark.parametrize(
    ("said", "known", "most"),
    [("", 100, 100), ("", None, None), ("MAX RECURSION LEVEL 7", 100, 7)],
)
def test_how_many_levels_a_recursion_may_have(
    said: str, known: int | None, most: int | None
) -> None:
    typer = FixedTyper()
    typer.recursion_levels = known
    sql = recursive("SELECT x FROM r JOIN t ON k = v").replace("r(v)", f"r(v) {said}")
    lowered = lower(parse_query(sql), RELATIONS, typer)
    (found,) = (each for each in below(lowered.node) if isinstance(each, Recursion))
    assert found.most == most
    assert lowered.names == ("v",)
    assert len(found.columns) == len(found.base.columns) == len(found.step.columns) == 2


def below(node: Node) -> list[Node]:
    return [node, *(each for child in children(node) for each in below(child))]
