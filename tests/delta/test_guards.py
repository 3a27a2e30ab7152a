"""What may fail over groups, and what shows that it does not."""

from __future__ import annotations

import pytest

from laminar.delta.guards import guard_of, holds
from laminar.delta.program import Guard, Mapped, Merged
from laminar.plan.nodes import Filter, Project, Scan

from .test_programs import program

SCAN = Scan("g", (("c1", "c1"), ("c2", "c2"), ("c3", "c3")))
TYPES = {"c1": "bigint", "c2": "bigint", "c3": "string"}
NEVER = Guard(frozenset(), provable=False)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("c1", None),
        ("c1 + c2 * 2", None),
        ("c1 / 2", None),
        ("c1 / NULLIF(c2, 0)", None),
        ("ROUND(c1, 2)", None),
        ("CAST(c1 AS DOUBLE)", None),
        ("CAST(c1 AS STRING)", None),
        ("TRY_CAST(c3 AS INT)", None),
        ("CASE WHEN c1 > 0 THEN UPPER(c3) END", None),
        ("c1 / c2", Guard(frozenset({"c2"}))),
        ("c1 % c2", Guard(frozenset({"c2"}))),
        ("1.0 * c1 / (c2)", Guard(frozenset({"c2"}))),
        ("c1 / (c2 - 1)", NEVER),
        ("c1 / 0", NEVER),
        ("CAST(c3 AS INT)", NEVER),
        ("CAST(c3 AS DOUBLE)", NEVER),
        ("CAST(c1 AS INT)", NEVER),
        ("SQRT(c1)", NEVER),
        ("ELEMENT_AT(ARRAY(1), c1)", NEVER),
    ],
)
def test_what_may_fail(expression: str, expected: Guard | None) -> None:
    assert guard_of(Project(SCAN, ((expression, "c9"),)), TYPES) == expected
    assert guard_of(Filter(SCAN, f"({expression}) IS NULL"), TYPES) == expected


def test_positive_parts_show_that_a_divisor_is_not_zero() -> None:
    found = program("SELECT k, SUM(id) / SUM(x) AS r, 1 / COUNT(*) AS c FROM t GROUP BY k")
    groups, root = found.relations
    assert isinstance(groups, Merged)
    assert isinstance(root, Mapped)
    assert root.guard is not None
    assert root.fusible
    assert root.guard.provable
    assert len(root.guard.divisors) == 2
    names = frozenset(each.name for each in groups.accumulators.all)
    assert holds(root.guard, groups, names)
    for missing in groups.accumulators.finishes[1].uses[-1], "__n":
        assert not holds(root.guard, groups, names - {missing})


def test_a_linear_view_that_may_fail_is_stored() -> None:
    (safe,), (risky,) = (
        program(query).relations
        for query in ("SELECT x + 1 AS y FROM t", "SELECT 1 / x AS y FROM t")
    )
    assert isinstance(safe, Mapped)
    assert safe.fusible
    assert isinstance(risky, Mapped)
    assert not risky.fusible
