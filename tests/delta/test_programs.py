"""Views cut into relations, and the statements of those that keep state. No Spark."""

# ruff: noqa: E501 - a case is one line

from __future__ import annotations

import pytest

from laminar.delta.affected_groups import regroup
from laminar.delta.change import Change
from laminar.delta.compile import compile_query
from laminar.delta.partials import accumulate, finish, needs_reset, reset
from laminar.delta.program import (
    Limited,
    Mapped,
    Merged,
    Program,
    Recursed,
    Regrouped,
    Shape,
    Strategy,
)
from laminar.delta.topk import retop
from laminar.plan.lower import lower
from laminar.plan.parse import parse_query
from laminar.plan.reasons import NoRule, Reason
from laminar.testing import FixedTyper

MADE = tuple(f"c{place}" for place in range(4, 9))  # t.x, and what is computed of it
RELATIONS = {"t": ("id", "k", "g", "x"), "u": ("k", "w")}

PATHS = (
    "WITH RECURSIVE r AS (SELECT k, w FROM u UNION ALL SELECT r.k, u.w FROM r JOIN u ON r.w = u.k)"
)


def program(sql: str, **types: str) -> Program:
    typer = FixedTyper(types)
    lowered = lower(parse_query(sql), RELATIONS, typer)
    found = typer.types(lowered.node)
    shape = Shape("v", lowered.names, tuple(found[name] for name in lowered.node.columns))
    return compile_query(shape, lowered.node, typer)


def changed(*, inserts: bool = True) -> Change:
    return Change("old", "new", "delta", insert_only=inserts, positive=inserts)


@pytest.mark.parametrize(
    ("sql", "relations", "strategy"),
    [
        ("SELECT k FROM t", [Mapped], Strategy.INCREMENTAL),
        ("SELECT t.k FROM t JOIN u ON t.k = u.k", [Mapped], Strategy.INCREMENTAL),
        ("SELECT k, SUM(x) AS s FROM t GROUP BY k", [Merged, Mapped], Strategy.INCREMENTAL),
        ("SELECT DISTINCT k FROM t", [Merged, Mapped], Strategy.INCREMENTAL),
        ("SELECT COUNT(DISTINCT x) AS n FROM t", [Regrouped, Mapped], Strategy.AFFECTED_GROUPS),
        ("SELECT id FROM t ORDER BY x LIMIT 1", [Limited, Mapped], Strategy.INCREMENTAL),
        ("SELECT MAX(w) OVER (ORDER BY k) AS m FROM u", [Regrouped, Mapped], Strategy.AFFECTED_GROUPS),
        ("SELECT id FROM t SEMI JOIN u ON t.k = u.k", [Merged, Mapped], Strategy.INCREMENTAL),
        (f"{PATHS} SELECT k, w FROM r", [Recursed, Mapped], Strategy.INCREMENTAL),
        (f"{PATHS} SELECT p.k FROM r p JOIN r q ON p.w = q.k", [Recursed, Mapped], Strategy.INCREMENTAL),
        (
            "SELECT id FROM t FULL JOIN u ON t.k = u.k AND x > w",
            [Regrouped, Mapped],
            Strategy.AFFECTED_GROUPS,
        ),
        (
            "SELECT s.n, u.w FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) s JOIN u ON s.k = u.k",
            [Merged, Mapped],
            Strategy.INCREMENTAL,
        ),
    ],
)  # fmt: skip
def test_a_view_is_cut_where_state_is_kept(
    sql: str, relations: list[type], strategy: Strategy
) -> None:
    made = program(sql)
    assert [type(each) for each in made.relations] == relations
    assert made.strategy is strategy
    assert made.output.shape.name == "v"


def test_what_a_view_reads_is_what_is_outside_it() -> None:
    made = program(
        "SELECT k, COUNT(*) AS n FROM (SELECT t.k FROM t JOIN u ON t.k = u.k) GROUP BY k"
    )
    assert made.sources() == ("t", "u")


def merged(sql: str, **types: str) -> Merged:
    found = program(sql, **types).relations[0]
    assert isinstance(found, Merged)
    return found


def test_inserts_are_folded_without_reading_any_state() -> None:
    sums = merged("SELECT k, SUM(x) AS s FROM t GROUP BY k")
    text = accumulate(sums, changed())
    assert "(delta)" in text
    assert "old" not in text
    assert "new" not in text
    assert not needs_reset(sums, changed(inserts=False))


def test_a_retraction_resets_only_what_cannot_undo_it() -> None:
    extremes = merged("SELECT k, MAX(x) AS m FROM t GROUP BY k")
    assert not needs_reset(extremes, changed())
    assert needs_reset(extremes, changed(inserts=False))
    text = reset(extremes, changed(inserts=False), "partial_before")
    assert "(new)" in text
    assert "SELECT t.* FROM partial_before t LEFT SEMI JOIN" in text
    assert "partial_before" not in reset(extremes, changed(inserts=False), None)


def test_a_reset_takes_back_what_still_counts_not_the_whole_history() -> None:
    extremes = merged("SELECT MAX(x) AS m FROM t")
    text = reset(extremes, changed(inserts=False), "partial_before")
    taken_back = text[text.index("-__weight") :]
    assert taken_back.index("SUM(__weight)") < taken_back.index("partial_before")


def test_the_old_result_is_computed_if_exact_and_read_if_not() -> None:
    exact = merged("SELECT k, SUM(x) AS s FROM t GROUP BY k")
    floating = merged(
        "SELECT k, SUM(x) AS s FROM t GROUP BY k",
        **dict.fromkeys(MADE, "double"),
    )
    assert floating.accumulators.is_inexact
    texts = [finish(each, "p0", "pd", positive=True, first=False) for each in (exact, floating)]
    assert ["v_1" in text for text in texts] == [False, True]


def test_a_query_without_keys_has_a_row_even_of_nothing() -> None:
    total = merged("SELECT COUNT(*) AS n FROM t")
    first = finish(total, None, "pd", positive=True, first=True)
    later = finish(total, "p0", "pd", positive=True, first=False)
    assert "false AS __old, true AS __new" in first
    assert "true AS __old, true AS __new" in later


def test_touched_groups_are_computed_anew() -> None:
    found = program("SELECT k, COUNT(DISTINCT x) AS n FROM t GROUP BY k").relations[0]
    assert isinstance(found, Regrouped)
    text = regroup(found, [changed(inserts=False)], existed=True)
    assert "SELECT DISTINCT k0" in text
    assert "LEFT SEMI JOIN" in text
    assert "UNION ALL" not in regroup(found, [changed()], existed=False)


def test_top_k_reads_its_input_again_only_after_a_retraction() -> None:
    found = program("SELECT id FROM t ORDER BY x LIMIT 2").relations[0]
    assert isinstance(found, Limited)
    assert "new" not in retop(found, changed(), existed=True)
    assert "new" in retop(found, changed(inserts=False), existed=True)
    skipping = program("SELECT id FROM t ORDER BY x LIMIT 2 OFFSET 1").relations[0]
    assert isinstance(skipping, Limited)
    assert "new" in retop(skipping, changed(), existed=True)


def test_groups_by_a_map_have_no_rule() -> None:
    with pytest.raises(NoRule) as raised:
        program(
            "SELECT x, COUNT(*) AS n FROM t GROUP BY x", **dict.fromkeys(MADE, "map<string,int>")
        )
    assert raised.value.reason is Reason.MAP_KEY


def test_a_plan_that_changed_a_type_is_not_trusted() -> None:
    typer = FixedTyper()
    lowered = lower(parse_query("SELECT k FROM t"), RELATIONS, typer)
    with pytest.raises(NoRule) as raised:
        compile_query(Shape("v", ("k",), ("string",)), lowered.node, typer)
    assert raised.value.reason is Reason.LOWERING_CHANGED_TYPES
    widened = compile_query(Shape("v", ("k",), ("bigint",)), lowered.node, typer)
    assert "CAST" in str(widened.output)
