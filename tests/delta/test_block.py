"""Chains of linear operators as one SELECT."""

from __future__ import annotations

import pytest

from laminar.delta.change import State, Version
from laminar.delta.linear import block_of, prefixed
from laminar.delta.render import change
from laminar.plan.nodes import Filter, Generate, Node, Project, Scan

SCAN = Scan("t", (("a", "c1"), ("b", "c2")))


def text(node: Node) -> str | None:
    block = block_of(node)
    return None if block is None else block.select(Version.DELTA, units=False)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (SCAN, "SELECT `a` AS c1, `b` AS c2, __weight FROM t__delta"),
        (
            Project(SCAN, (("c1 + 1", "c3"),)),
            "SELECT `a` + 1 AS c3, __weight FROM t__delta",
        ),
        (
            Filter(Project(SCAN, (("c2", "c3"), ("c1 + 1", "c4"))), "c3 > c4"),
            "SELECT `b` AS c3, `a` + 1 AS c4, __weight "
            "FROM t__delta AS __r WHERE (`b` > (`a` + 1))",
        ),
        (
            Project(Filter(Filter(SCAN, "c1 = 'c2'"), "c2.c1 > 0"), (("c2", "`b`"),)),
            "SELECT `b`, __weight FROM t__delta AS __r WHERE (`a` = 'c2') AND (`b`.c1 > 0)",
        ),
        (Project(SCAN, (("c1 * 2", "`c1`"),)), "SELECT `a` * 2 AS `c1`, __weight FROM t__delta"),
    ],
)
def test_a_chain_is_one_select(node: Node, expected: str) -> None:
    assert text(node) == expected


@pytest.mark.parametrize(
    "node",
    [
        Project(Project(SCAN, (("c1 + 1", "c3"),)), (("c3 * c3", "c4"),)),
        Project(SCAN, (("TRANSFORM(c1, a -> a + c2)", "c3"),)),
        Project(Generate(SCAN, "EXPLODE(c1)", ("c3",)), (("c3", "c4"),)),
    ],
    ids=["computed twice", "a lambda could catch a column", "not linear in one row"],
)
def test_what_has_to_stay_nested(node: Node) -> None:
    assert text(node) is None


def test_weights_of_one_are_not_read() -> None:
    found = change(SCAN, {"t": State(insert_only=True, positive=True, units=True)})
    assert found.delta == "SELECT `a` AS c1, `b` AS c2, 1L AS __weight FROM t__delta"
    assert found.units
    assert found.before is not None
    assert "1L" not in found.before
    # Before and after may hold other weights.
    assert found.after is not None
    assert "1L" not in found.after


def test_only_columns_of_the_plan_get_a_prefix() -> None:
    assert prefixed("c1 + `c2` + 'c3' + c4.c5 + ac6", "p0") == "p0c1 + `c2` + 'c3' + p0c4.c5 + ac6"
