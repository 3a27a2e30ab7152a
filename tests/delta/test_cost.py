from __future__ import annotations

import pytest

from laminar.delta.cost import is_cheap
from laminar.plan.nodes import Filter, Generate, Node, Project, Scan, UnionAll

SCAN = Scan("t", (("a", "c1"), ("b", "c2")))


@pytest.mark.parametrize(
    ("node", "cheap"),
    [
        (SCAN, True),
        (Project(SCAN, (("c1 + 1", "c3"), ("CASE WHEN (c2 > 3) THEN 'x' END", "c4"))), True),
        (Filter(SCAN, "c1 IN (1, 2) AND (c2 > 1)"), True),
        (Project(SCAN, (("REGEXP_REPLACE(c2, 'a', 'b')", "c3"),)), False),
        (Filter(Project(SCAN, (("my_function(c1)", "c3"),)), "c3 > 1"), False),
        (Generate(SCAN, "EXPLODE(c2)", ("c3",)), False),
        (UnionAll((SCAN, Filter(SCAN, "UPPER(c2) = 'A'")), ("c1", "c2")), False),
    ],
)
def test_what_calls_functions_or_makes_rows_is_worth_keeping(node: Node, cheap: bool) -> None:
    assert is_cheap(node) is cheap
