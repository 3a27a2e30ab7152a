"""Rows of relations that begin to keep some, computed at the epoch that their inputs have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laminar.model.trace import Trace
from laminar.runtime.catalog.definitions import ViewDefinition
from laminar.runtime.epoch.materialization import Filler, Materialization
from laminar.runtime.ingest.pruning import SourcePruning
from laminar.runtime.relations.bindings import Bindings
from laminar.runtime.relations.trace_versions import versions_of

from ..spark_parts import SparkParts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TABLES = "CREATE TABLE t (k INT, x INT); CREATE TABLE u (k INT, name STRING);"
SUMS = "SELECT k, SUM(x) AS s FROM t GROUP BY k"
CHANGES = [[(1, 5, 1), (2, 0, 1)], [(1, 7, 2)], [(2, 0, -1)]]


@pytest.fixture
def parts(spark: SparkSession, tmp_path: Path) -> Iterator[SparkParts]:
    made = SparkParts(tmp_path, spark, f"{TABLES} CREATE MATERIALIZED VIEW sums AS {SUMS}")
    for change in CHANGES:
        made.step(t=change, u=[(1, "a", 1)])
    yield made
    made.close()


def storing(parts: SparkParts, tapped: frozenset[str] = frozenset()) -> Materialization:
    pruning = SourcePruning(parts.defined, dict)
    return Materialization(
        parts.env,
        parts.ledger,
        parts.defined,
        parts.time,
        parts.scheduler,
        parts.full,
        parts.executor,
        pruning,
        lambda: tapped,
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, x + 1 AS x FROM t",
        "SELECT t.k, name FROM t JOIN u ON t.k = u.k",
        "SELECT k, MAX(x) AS m FROM t GROUP BY k",
        "SELECT SUM(x) AS s FROM t",
        "SELECT k, 100 / x AS q FROM t",  # of a row that is gone, nobody sees the zero
        "SELECT s, COUNT(*) AS n FROM sums GROUP BY s",
    ],
)
def test_a_new_view_has_the_rows_of_its_query(parts: SparkParts, query: str) -> None:
    catalog = parts.defined.catalog
    definition = ViewDefinition("new", query)
    catalog.add_view(definition, catalog.compile(definition))
    storing(parts).fill_and_commit(["new"], parts.ledger.manifest.traces)
    assert (parts.ledger.epoch, parts.ledger.manifest.revision) == (3, 1)
    assert parts.rows("new") == parts.truth(query.replace("sums", f"({SUMS})"))
    assert parts.scheduler.progress.filled == {"new": 3}
    parts.step(t=[(3, 4, 1)])
    assert parts.rows("new") == parts.truth(query.replace("sums", f"({SUMS})"))


def test_a_view_over_one_that_is_held_begins_where_that_stands(parts: SparkParts) -> None:
    parts.pause("sums")
    parts.step(t=[(9, 9, 1)])
    catalog = parts.defined.catalog
    definition = ViewDefinition("new", "SELECT k, s FROM sums WHERE s > 0")
    catalog.add_view(definition, catalog.compile(definition))
    storing(parts).fill_and_commit(["new"], parts.ledger.manifest.traces)
    assert parts.scheduler.since == {"sums": 3, "new": 3}
    assert parts.rows("new", at=3) == [(1, 19)]


def test_nothing_is_committed_if_the_query_fails(parts: SparkParts) -> None:
    catalog = parts.defined.catalog
    definition = ViewDefinition("new", "SELECT k, 100 / (x - 5) AS q FROM t")
    catalog.add_view(definition, catalog.compile(definition))
    before = parts.ledger.manifest
    with pytest.raises(Exception, match="new"):
        storing(parts).fill_and_commit(["new"], before.traces)
    assert parts.ledger.manifest is before
    assert parts.scheduler.progress.filled == {}


def test_stored_rows_can_be_read_at_every_stop(parts: SparkParts) -> None:
    catalog = parts.defined.catalog
    first = parts.env.workspaces.first
    filler = Filler(first.session, first.store, parts.full.run)
    relations = catalog.plan(stored=frozenset(), keep_fused=frozenset(), tapped=frozenset({"sums"}))
    traces = filler.store_rows("sums#1", relations, parts.ledger.manifest.traces, [1, 2, 3])
    assert [(each.lo, each.hi) for each in traces["sums#1"].segments] == [(1, 1), (2, 2), (3, 3)]
    for epoch in (1, 2, 3):
        versions = versions_of(relations, traces, epoch)
        bindings = Bindings(first.session, first.store, relations, versions)
        found = sorted(tuple(row) for row in bindings.content("sums").collect())
        assert found == parts.truth(SUMS, at=epoch)


def test_somebody_who_wants_changes_has_groups_stored(parts: SparkParts) -> None:
    catalog = parts.defined.catalog
    assert "sums#1" not in parts.ledger.manifest.traces
    tapped = storing(parts, frozenset({"sums"}))
    tapped.tap()
    assert "sums#1" in catalog.relations.finished
    assert parts.ledger.manifest.traces["sums#1"].rows > 0
    assert parts.rows("sums") == parts.truth(SUMS)
    parts.step(t=[(5, 5, 1)])
    assert parts.rows("sums") == parts.truth(SUMS)
    revision = parts.ledger.manifest.revision
    assert tapped.store_followed()
    assert parts.ledger.manifest.revision == revision  # they are stored already
    tapped.is_busy = lambda: True
    assert not tapped.store_followed()


def test_what_is_planned_follows_what_is_stored(parts: SparkParts) -> None:
    stored = storing(parts)
    assert stored.planned(parts.defined.catalog).fused == {"sums"}
    held = {"sums": Trace("", parts.ledger.manifest.traces["t"].segments)}
    assert stored.planned(parts.defined.catalog, held).fused == set()
