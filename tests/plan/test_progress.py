from __future__ import annotations

import pytest

from laminar.model.event_time import Edge, Growing, SessionEnd, Shift, Side, Step
from laminar.plan.closing import Closer, NotClosable
from laminar.plan.lower import lower
from laminar.plan.nodes import Aging, Join, Node, Sessions, children
from laminar.plan.parse import parse_query
from laminar.plan.progress import flows
from laminar.plan.reach import reaches
from laminar.sql import rewrite_windows
from laminar.sql.asof import rewrite_asof
from laminar.testing import FixedTyper

RELATIONS = {"t": ("k", "x", "ts"), "u": ("k", "ts")}
TIMES = {"t": frozenset(("ts",)), "u": frozenset(("ts",))}

S = 1_000_000


def plan(sql: str) -> Node:
    tree = parse_query(rewrite_windows(rewrite_asof(sql)))
    return lower(tree, RELATIONS, FixedTyper(), TIMES, frozenset(("t", "u"))).node


def nodes(node: Node) -> list[Node]:
    return [node, *(each for child in children(node) for each in nodes(child))]


CASES: list[tuple[str, list[tuple[Step, ...]]]] = [
    ("SELECT ts FROM t WHERE x > 1", [()]),
    ("SELECT x, ts + INTERVAL '5' SECOND AS later FROM t", [(Shift(5 * S),)]),
    (
        "SELECT TUMBLE_START(ts, INTERVAL '1' MINUTE) AS a, COUNT(*) AS n FROM t"
        " GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)",
        [(Edge(Side.START, 60 * S, 60 * S),)],
    ),
    (
        "SELECT HOP_END(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND) AS a FROM t"
        " GROUP BY HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND)",
        [(Edge(Side.END, 10 * S, 5 * S),)],
    ),
    (
        "SELECT CUMULATE_END(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND) AS a FROM t"
        " WHERE x > 0 GROUP BY CUMULATE(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND)",
        [(Growing(Side.END, 10 * S, 5 * S),)],
    ),
    (
        "SELECT SESSION_END(ts, INTERVAL '5' SECOND) AS a FROM t"
        " GROUP BY SESSION(ts, INTERVAL '5' SECOND)",
        [(SessionEnd(),)],
    ),
    ("SELECT ts FROM t UNION ALL SELECT ts FROM u", [(), ()]),
    ("SELECT x, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) AS n, ts FROM t", []),
    ("SELECT MAX(ts) AS ts FROM t", []),
]


@pytest.mark.parametrize(("sql", "steps"), CASES)
def test_columns_carry_event_time_on(sql: str, steps: list[tuple[Step, ...]]) -> None:
    found = flows(plan(sql), TIMES)
    assert [flow.steps for each in found.values() for flow in each] == steps


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT x FROM t",
        "SELECT k, COUNT(*) AS n FROM t GROUP BY k",
        "SELECT TUMBLE_START(y, '1 day') AS a FROM (SELECT MAX(ts) AS y FROM t)"
        " GROUP BY TUMBLE(y, '1 day')",
        "SELECT DISTINCT x FROM t",
    ],
)
def test_what_has_no_window_never_closes(sql: str) -> None:
    with pytest.raises(NotClosable):
        Closer("v", {}, 0, closes=True).bound(plan(sql))


def test_a_session_is_an_operator_of_its_own() -> None:
    (found,) = [
        each
        for each in nodes(plan("SELECT COUNT(*) AS n FROM t GROUP BY SESSION(ts, '5 seconds')"))
        if isinstance(each, Sessions)
    ]
    assert (found.keys, found.gap) == ((), "5 second")


def test_how_far_apart_joined_rows_may_be() -> None:
    sql = (
        "SELECT x FROM t JOIN u ON t.k = u.k"
        " AND u.ts BETWEEN t.ts - INTERVAL '5' SECOND AND t.ts + INTERVAL '1' MINUTE"
    )
    (join,) = [each for each in nodes(plan(sql)) if isinstance(each, Join)]
    limits = {(each.least, each.most) for each in reaches(join)}
    assert limits == {(-5 * S, None), (None, 5 * S), (None, 60 * S), (-60 * S, None)}


def test_a_row_that_is_compared_with_the_clock_has_limits() -> None:
    sql = (
        "SELECT x FROM t WHERE ts >= now() - INTERVAL '1' HOUR AND ts < current_timestamp AND x > 1"
    )
    (found,) = [each for each in nodes(plan(sql)) if isinstance(each, Aging)]
    items = {name: text for text, name in found.input.items}  # type: ignore[union-attr]
    assert "+ 3600000001" in items[found.end]
    assert "+ 1)" in items[found.start]
