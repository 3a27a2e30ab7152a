"""Negative controls: a rule broken on purpose must not get past the oracle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from sqlglot import exp

from laminar.delta import affected_groups, anti, fixpoint, join, linear, partials, topk
from laminar.delta.change import Change, State
from laminar.delta.program import Limited, Merged, Recursed, Regrouped
from laminar.plan import theta
from laminar.plan.aggregation import Units
from laminar.plan.context import Context
from laminar.plan.nodes import Aggregate, Anti, Join, Node, UnionAll
from laminar.plan.outer_values import Values
from laminar.plan.scope import reads
from laminar.session import connect
from laminar.testing import Oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _join_without_later_terms(node: Join, given: list[Change]) -> Change:
    found = join.delta_join(node, given)
    still = [given[0], *(replace(each, delta=None) for each in given[1:])]
    return replace(found, delta=join.delta_join(node, still).delta)


def _anti_with_the_wrong_sign(node: Anti, left: Change, right: Change) -> Change:
    found = anti.delta_anti(node, left, right)
    return replace(found, delta=found.delta and found.delta.replace("-(l.", "(l."))


def _union_of_the_first_alone(node: UnionAll, given: list[Change]) -> Change:
    found = linear.delta_union_all(node, given)
    still = [given[0], *(replace(each, delta=None) for each in given[1:])]
    return replace(found, delta=linear.delta_union_all(node, still).delta)


def _never_reset(_relation: Merged, _given: Change) -> bool:
    return False


def _finish_without_the_old_row(
    relation: Merged, before: str | None, delta: str, *, positive: bool, first: bool
) -> str:
    text = partials.finish(relation, before, delta, positive=positive, first=first)
    return text.replace("IF(__sign < 0, __old, __new)", "IF(__sign < 0, false, __new)")


def _top_without_reading_again(relation: Limited, given: Change, *, existed: bool) -> str:
    return topk.retop(relation, replace(given, insert_only=True), existed=existed)


def _recursion_of_new_rows_alone(
    relation: Recursed, states: Mapping[str, State], *, existed: bool, first: bool
) -> Change | None:
    del existed
    return fixpoint.recurse(relation, states, existed=False, first=first)


def _groups_that_keep_their_old_rows(
    relation: Regrouped, given: list[Change], *, existed: bool
) -> str:
    del existed
    return affected_groups.regroup(relation, given, existed=False)


def _all_have_a_partner(
    ctx: Context, kept: Node, other: Node, conditions: list[exp.Expr]
) -> Values:
    del other
    used = frozenset[str]().union(*(reads(each) for each in conditions))
    return theta.values_of(ctx, kept, tuple(name for name in kept.columns if name in used))


def _only_values_with_rows(
    units: Units, ctx: Context, node: Node, domain: Aggregate, tag: str
) -> Aggregate:
    found = _FOR_EACH(units, ctx, node, domain, tag)
    assert isinstance(found.input, UnionAll)
    return replace(found, input=replace(found.input, inputs=found.input.inputs[:1]))


_FOR_EACH = Units.for_each


def _same_kind_is_same(node: Node) -> str:
    return type(node).__name__


RENDER, MAINTAIN = "laminar.delta.render", "laminar.runtime.epoch.maintainer"

BROKEN: dict[str, tuple[str, Callable[..., object], str]] = {
    "join": (
        f"{RENDER}.delta_join",
        _join_without_later_terms,
        "SELECT a.k, a.x, b.w FROM a JOIN b ON a.k = b.k",
    ),
    "anti": (
        f"{RENDER}.delta_anti",
        _anti_with_the_wrong_sign,
        "SELECT k, x FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
    ),
    "union": (
        f"{RENDER}.delta_union_all",
        _union_of_the_first_alone,
        "SELECT k FROM a UNION ALL SELECT k FROM b",
    ),
    "reset": (f"{MAINTAIN}.needs_reset", _never_reset, "SELECT k, MAX(x) AS m FROM a GROUP BY k"),
    "finish": (
        f"{MAINTAIN}.finish",
        _finish_without_the_old_row,
        "SELECT n, COUNT(*) AS c FROM (SELECT k, COUNT(*) AS n FROM a GROUP BY k) GROUP BY n",
    ),
    "top": (
        f"{MAINTAIN}.retop",
        _top_without_reading_again,
        "SELECT k, x FROM a ORDER BY x DESC, k LIMIT 2",
    ),
    "recursion": (
        f"{MAINTAIN}.recurse",
        _recursion_of_new_rows_alone,
        "WITH RECURSIVE r(v) AS (SELECT k FROM a UNION ALL SELECT b.w FROM r JOIN b ON b.k = r.v)"
        " SELECT v FROM r",
    ),
    "theta": (
        "laminar.plan.joins.partnered",
        _all_have_a_partner,
        "SELECT a.k, b.w FROM a LEFT JOIN b ON a.x * 4 > b.w",
    ),
    "domain": (
        "laminar.plan.aggregation.Units.for_each",
        _only_values_with_rows,
        "SELECT a.k, (SELECT COUNT(*) FROM b WHERE b.w > a.x * 9) AS n FROM a",
    ),
    "shared": (
        "laminar.delta.compile.canonical",
        _same_kind_is_same,
        "SELECT k FROM a WHERE k IN (SELECT k FROM b) AND k IN (SELECT x - 1 FROM a)",
    ),
    "groups": (
        f"{MAINTAIN}.regroup",
        _groups_that_keep_their_old_rows,
        "SELECT k, COUNT(DISTINCT x) AS n FROM a GROUP BY k",
    ),
}


def play(spark: SparkSession, views: dict[str, str]) -> None:
    """Run a short life of two tables under an oracle."""
    with connect(spark=spark) as db:
        oracle = Oracle(db, spark)
        oracle.table("a", "k INT, x INT")
        oracle.table("b", "k INT, w INT")
        for name, sql in views.items():
            db.execute(f"CREATE MATERIALIZED VIEW `{name}` AS {sql}")
        oracle.insert("a", [(1, 1), (1, 5), (2, 9), (2, 2), (3, 3)])
        oracle.insert("b", [(1, 10)])
        oracle.step()
        oracle.insert("b", [(2, 20), (3, 30)])
        oracle.step()
        oracle.delete("a", [(2, 9), (1, 5)])
        oracle.delete("b", [(1, 10)])
        oracle.step()


@pytest.mark.long
@pytest.mark.spark
def test_unbroken_rules_pass(spark: SparkSession) -> None:
    play(spark, {name: sql for name, (_, _, sql) in BROKEN.items()})


@pytest.mark.sampled(4)
@pytest.mark.spark
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_caught(
    name: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, wrong, sql = BROKEN[name]
    monkeypatch.setattr(target, wrong)
    with pytest.raises(AssertionError, match=f"{name}: (missing|not expected)"):
        play(spark, {name: sql})


@pytest.mark.spark
def test_a_silent_fall_back_is_caught(spark: SparkSession) -> None:
    recursive = (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT DISTINCT n + 1 FROM r WHERE n < 3)"
    )
    sql = f"{recursive} SELECT a.k, r.n FROM a JOIN r ON a.x > r.n"
    with pytest.raises(AssertionError, match="fell back to full"):
        play(spark, {"full": sql})
