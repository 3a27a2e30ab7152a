from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from laminar.model.row_test import Among, Compare, Every, Flag, IsNull, Not, RowTest, Some
from laminar.plan.needs import Need, needs_of
from laminar.plan.nodes import (
    AggCall,
    Aggregate,
    Filter,
    Join,
    Node,
    Predicate,
    Project,
    Scan,
    UnionAll,
    Window,
)
from laminar.plan.row_tests import row_test

TYPES = {
    "id": "bigint",
    "name": "string",
    "price": "double",
    "rate": "float",
    "sum": "decimal(10,2)",
    "day": "date",
    "ok": "boolean",
    "ts": "timestamp",
}
NAMES = {f"c{at}": column for at, column in enumerate(TYPES, 1)}
SCAN = Scan("s", tuple((column, name) for name, column in NAMES.items()))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("c1 > 5", Compare("id", ">", 5)),
        ("5 >= c1", Compare("id", "<=", 5)),
        ("c1 <> -3", Compare("id", "<>", -3)),
        ("c2 = 'it\\'s'", Compare("name", "=", "it's")),
        ("c3 < 1.5", Compare("price", "<", 1.5)),
        ("c4 >= 2", Compare("rate", ">=", 2.0)),
        ("c5 = 1.50", Compare("sum", "=", Decimal("1.50"))),
        ("c6 < DATE '2024-01-31'", Compare("day", "<", date(2024, 1, 31))),
        ("c7", Flag("ok")),
        ("NOT c7", Not(Flag("ok"))),
        ("c7 = false", Compare("ok", "=", False)),
        ("c2 IS NULL", IsNull("name")),
        ("c2 IS NOT NULL", Not(IsNull("name"))),
        ("c1 IN (1, 2)", Among("id", (1, 2))),
        (
            "c1 = 1 OR (c2 = 'a' AND c7)",
            Some((Compare("id", "=", 1), Every((Compare("name", "=", "a"), Flag("ok"))))),
        ),
        # What Spark might see otherwise is left to it.
        ("c1 > 1.5", None),
        ("c1 > 9223372036854775808", None),
        ("c1 = '5'", None),
        ("c2 > 5", None),
        ("c2 LIKE 'a%'", None),
        ("c2 <=> NULL", None),
        ("c1 IN (1, NULL)", None),
        ("c3 IN (1.5)", None),
        ("c3 > 9007199254740993", None),
        ("c4 = 16777217", None),
        ("c5 = 1.505", None),
        ("c5 > 123456789.5", None),
        ("c6 < '2024-01-31'", None),
        ("c8 > TIMESTAMP '2024-01-31 00:00:00'", None),
        ("c1 + 1 > 5", None),
        ("c1 > c3", None),
        ("c1 = 1 OR c2 LIKE 'a%'", None),
        ("other > 5", None),
        ("c1", None),
    ],
)
def test_conditions_become_tests_or_are_left_to_spark(
    condition: str, expected: RowTest | None
) -> None:
    assert row_test(condition, NAMES, TYPES) == expected


def need(plan: Node) -> Need:
    (found,) = needs_of(plan, "s", TYPES)
    return found


def test_a_column_is_wanted_where_it_is_named() -> None:
    plan = Project(Filter(SCAN, "c1 > 5 AND c2 LIKE 'a%'"), (("c3 * 2", "c9"),))
    assert need(plan) == Need(frozenset({"id", "name", "price"}), Compare("id", ">", 5))


def test_what_a_plan_puts_out_is_wanted() -> None:
    assert need(Filter(SCAN, "c7")) == Need(frozenset(TYPES), Flag("ok"))


def test_an_aggregate_wants_keys_and_arguments() -> None:
    plan = Aggregate(
        Project(SCAN, (("c2", "c9"), ("c3", "c10"))),
        ("c9",),
        (AggCall("c11", "sum", ("c10",), "sum(c10)"),),
    )
    assert need(plan) == Need(frozenset({"name", "price"}), None)


def test_a_join_passes_its_own_conditions_on() -> None:
    other = Scan("d", (("id", "d1"),))
    predicates = (
        Predicate("c1 = d1", frozenset({"c1", "d1"}), is_equality=True),
        Predicate("c7", frozenset({"c7"})),
        Predicate("d1 > 3", frozenset({"d1"})),
    )
    plan = Project(Join((SCAN, other), predicates), (("c6", "c9"),))
    assert need(plan) == Need(frozenset({"id", "ok", "day"}), Flag("ok"))


def test_an_operator_that_looks_at_whole_rows_wants_all_of_them() -> None:
    union = Project(
        UnionAll((SCAN, Scan("d", SCAN.items)), tuple(f"u{n}" for n in range(8))), (("u1", "x"),)
    )
    assert need(union) == Need(frozenset(TYPES), None)
    window = Project(Window(SCAN, ("c2",), (("row_number() over ()", "w"),)), (("w", "x"),))
    assert need(window).columns == frozenset(TYPES)


def test_a_condition_above_other_work_is_not_pulled_down() -> None:
    plan = Filter(Project(SCAN, (("c1 + 1", "c9"),)), "c9 > 5")
    assert need(plan) == Need(frozenset({"id"}), None)


def test_each_scan_says_for_itself() -> None:
    plan = Join((Filter(SCAN, "c7"), Scan("s", (("id", "e1"),))), ())
    found = needs_of(plan, "s", TYPES)
    assert [each.test for each in found] == [Flag("ok"), None]
