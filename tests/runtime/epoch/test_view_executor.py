"""Views from epoch to epoch, by the parts that carry them: no engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laminar.errors import OperatorError
from laminar.runtime.scheduling.epoch_plan import Skip

from ..spark_parts import SparkParts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUERIES = {
    "joined": "SELECT t.k, name, x FROM t JOIN u ON t.k = u.k",
    "sums": "SELECT k, SUM(x) AS s, COUNT(*) AS n FROM t GROUP BY k",
    "tops": "SELECT k, MAX(x) AS m FROM t GROUP BY k",
    "ranked": "SELECT k, x, SUM(x) OVER (PARTITION BY k) AS s FROM t",
}
FULL = "SELECT COUNT(*) AS n, name FROM t JOIN u ON t.k = u.k GROUP BY name"
TABLES = "CREATE TABLE t (k INT, x INT); CREATE TABLE u (k INT, name STRING);"


@pytest.fixture
def parts(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[str], SparkParts]]:
    opened: list[SparkParts] = []

    def define(script: str) -> SparkParts:
        opened.append(SparkParts(tmp_path, spark, script))
        return opened[-1]

    yield define
    for each in opened:
        each.close()


@pytest.mark.long
def test_every_kind_of_view_follows_its_query(parts: Callable[[str], SparkParts]) -> None:
    script = TABLES + "".join(
        f"CREATE MATERIALIZED VIEW {name} AS {query};" for name, query in QUERIES.items()
    )
    script += f"CREATE MATERIALIZED VIEW whole WITH (refresh_policy = full) AS {FULL};"
    script += "CREATE MATERIALIZED VIEW above AS SELECT k, SUM(s) AS s FROM sums GROUP BY k;"
    one = parts(script)
    above = f"SELECT k, SUM(s) AS s FROM ({QUERIES['sums']}) GROUP BY k"
    queries = {**QUERIES, "whole": FULL, "above": above}
    changes: list[dict[str, list[tuple[object, ...]]]] = [
        {"t": [(1, 5, 1), (1, 7, 2), (2, 1, 1)], "u": [(1, "a", 1)]},
        {"t": [(2, 9, 1), (1, 7, -1)], "u": [(2, "b", 1)]},
        {"t": [(1, 7, -1), (2, 1, -1)], "u": [(1, "a", -1), (1, "c", 1)]},
        {"u": [(3, "nobody", 1)]},
    ]
    for epoch, change in enumerate(changes, 1):
        outcome = one.step(**change)
        assert (outcome.failures, outcome.fallen) == ({}, set())
        for view, (stored, truth) in one.compared(queries).items():
            assert stored == truth, (view, epoch)
    assert "sums" not in outcome.reports  # nothing came in its input
    assert outcome.reports["joined"].to_epoch == 4


FAILING = (
    TABLES + "CREATE MATERIALIZED VIEW ratio AS SELECT k, SUM(100 / x) AS r FROM t GROUP BY k;"
    "CREATE MATERIALIZED VIEW reader AS SELECT k, COUNT(*) AS n FROM ratio GROUP BY k;"
    "CREATE MATERIALIZED VIEW other AS SELECT k, COUNT(*) AS n FROM t GROUP BY k"
)


def files(root: Path) -> set[str]:
    return {each.relative_to(root).as_posix() for each in (root / "data").rglob("*.parquet")}


def test_what_fails_stays_with_its_readers_and_leaves_no_file(
    parts: Callable[[str], SparkParts], tmp_path: Path
) -> None:
    one = parts(FAILING)
    one.step(t=[(1, 5, 1)])
    before = {view: one.rows(view) for view in ("ratio", "reader")}
    outcome = one.step(t=[(1, 0, 1)])
    assert set(outcome.failures) == {"ratio"}
    assert isinstance(outcome.failures["ratio"], OperatorError)
    assert outcome.fallen == {"ratio", "reader"}
    assert set(outcome.reports) == {"other"}
    assert one.scheduler.since == {"ratio": 1, "reader": 1}
    assert {view: one.rows(view, at=1) for view in before} == before
    assert one.rows("other") == [(1, 2)]
    assert files(tmp_path) == set(one.ledger.manifest.files)
    # The row that was wrong is taken back: the view is tried again, without seeing it.
    outcome = one.step(t=[(1, 0, -1), (2, 4, 1)])
    assert (outcome.failures, dict(one.scheduler.since)) == ({}, {})
    assert one.rows("ratio") == one.truth("SELECT k, SUM(100 / x) AS r FROM t GROUP BY k")
    assert one.rows("reader") == [(1, 1), (2, 1)]
    assert (outcome.reports["ratio"].from_epoch, outcome.reports["ratio"].to_epoch) == (1, 3)
    assert files(tmp_path) == set(one.ledger.manifest.files)


def test_a_view_that_was_held_catches_up_in_one_move(parts: Callable[[str], SparkParts]) -> None:
    one = parts(
        TABLES + f"CREATE MATERIALIZED VIEW sums AS {QUERIES['sums']};"
        "CREATE MATERIALIZED VIEW reader AS SELECT k, s FROM sums WHERE s > 3;"
        f"CREATE MATERIALIZED VIEW other AS {QUERIES['tops']}",
    )
    one.step(t=[(1, 5, 1)])
    one.pause("sums")
    for change in ([(1, 2, 1)], [(1, 5, -1)]):
        one.step(t=change)
        assert one.scheduler.since == {"sums": 1, "reader": 1}
        assert one.rows("sums", at=1) == [(1, 5, 1)]
        assert one.rows("reader", at=1) == [(1, 5)]
        assert one.rows("other") == one.truth(QUERIES["tops"])
    one.resume("sums")
    outcome = one.step(t=[(2, 9, 1)])
    assert (outcome.reports["sums"].from_epoch, outcome.reports["sums"].to_epoch) == (1, 4)
    assert one.rows("sums") == one.truth(QUERIES["sums"])
    assert one.rows("reader") == [(2, 9)]


def test_a_view_that_fails_where_others_went_past_is_planned_anew(
    parts: Callable[[str], SparkParts],
) -> None:
    one = parts(FAILING)
    one.step(t=[(1, 5, 1)])
    one.pause("other")
    one.step(t=[(1, 2, 1)])
    one.resume("other")
    # `other` goes from 1 to 3; `ratio`, which fails at 2, must find a stop there.
    outcome = one.step(t=[(1, 0, 1)])
    assert outcome.failures == {}  # it was tried before the plan that succeeded
    assert one.scheduler.progress.failures["ratio"].count == 1
    assert one.scheduler.plan(one.clock()).held == {}  # the first retry comes at once
    assert one.scheduler.since == {"ratio": 2, "reader": 2}
    assert one.rows("other") == [(1, 3)]
    assert one.rows("other", at=2) == [(1, 2)]  # so both can be read together
    held = one.scheduler.plan(one.clock(), failed={"ratio": "x"}).held
    assert held["reader"].reason is Skip.FAILED
