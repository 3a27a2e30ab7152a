"""Δ(r, a, b) = content(r, b) - content(r, a), however a relation is stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from laminar.errors import EpochNotFound, NotSupported
from laminar.runtime.catalog.definitions import ViewDefinition
from laminar.runtime.history.differences import ChangeFrame, Differences
from laminar.runtime.history.table_changes import changed_rows, changed_shape
from laminar.runtime.spark.session import own_session
from laminar.sql.table_changes import ChangeRange
from laminar.store import SegmentStore

from ..spark_parts import SparkParts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCRIPT = """
CREATE TABLE t (k INT, x INT, PRIMARY KEY (k));
CREATE TABLE quiet (k INT);
CREATE MATERIALIZED VIEW fused AS SELECT k, x + 1 AS y FROM t WHERE x > 1;
CREATE MATERIALIZED VIEW stored AS SELECT a.k, b.y FROM t a JOIN fused b ON a.k = b.k;
CREATE MATERIALIZED VIEW lazy AS SELECT x, COUNT(*) AS n FROM t GROUP BY x;
"""
CHANGES = [
    [(1, 5, 1), (2, 1, 1)],
    [(1, 5, -1), (1, 6, 1), (3, 6, 1)],
    [(2, 1, -1)],
    [(1, 6, -1), (3, 6, -1)],
]


class Between:
    """Four epochs of a table and its views, and what tells their differences."""

    def __init__(self, root: Path, spark: SparkSession, tapped: tuple[str, ...] = ()) -> None:
        self.parts = SparkParts(root, spark, SCRIPT, tapped)
        session = own_session(spark, 1)
        self.limit = 100
        self.found = Differences(
            self.parts.ledger.timeline,
            self.parts.snapshot,
            lambda: self.limit,
            session,
            SegmentStore(root, session),
        )
        for change in CHANGES:
            self.parts.step(t=change)

    def content(self, relation: str, epoch: int) -> Counter[tuple[Any, ...]]:
        return weighed(self.found.content(self.parts.snapshot(), relation, epoch))

    def delta(self, relation: str, older: int, newer: int) -> Counter[tuple[Any, ...]]:
        return weighed(self.found.delta(self.parts.snapshot(), relation, older, newer))


def weighed(found: ChangeFrame | None) -> Counter[tuple[Any, ...]]:
    rows = [] if found is None else found.frame.collect()
    assert len({tuple(row)[:-1] for row in rows}) == len(rows)  # no row twice
    return Counter({tuple(row)[:-1]: row[-1] for row in rows})


@pytest.fixture(scope="module")
def between(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Between]:
    made = Between(tmp_path_factory.mktemp("between"), spark)
    yield made
    made.parts.close()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("relation", ["t", "fused", "stored", "lazy"])
def test_the_law(between: Between, relation: str) -> None:
    contents = [between.content(relation, epoch) for epoch in range(5)]
    assert contents[0] == Counter()
    for older, newer in ((0, 1), (1, 2), (2, 3), (1, 4), (0, 4)):
        found = between.delta(relation, older, newer)
        expected = Counter(contents[newer])
        expected.subtract(contents[older])
        assert found == Counter({row: n for row, n in expected.items() if n}), (older, newer)


def test_what_did_not_change_has_no_frame(between: Between) -> None:
    snapshot = between.parts.snapshot()
    assert between.found.delta(snapshot, "quiet", 0, 4) is None
    assert between.found.content(snapshot, "quiet", 4) is None
    assert between.found.delta(snapshot, "stored", 2, 3) is None  # 2 was never joined with one


def test_many_rows_are_not_collected_without_being_asked_for(between: Between) -> None:
    snapshot = between.parts.snapshot()
    for limit, is_large in ((100, False), (1, True)):
        between.limit = limit
        found = between.found.delta(snapshot, "t", 1, 2)
        assert found is not None
        assert found.is_large is is_large
        again = found.again()
        assert weighed(again) == weighed(found)
    between.limit = 100


def test_a_relation_that_was_not_defined_then_had_no_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    between = Between(tmp_path, spark)
    catalog = between.parts.defined.catalog
    young = ViewDefinition("young", "SELECT k FROM t")
    catalog.add_view(young, catalog.compile(young))
    stored = frozenset(between.parts.ledger.manifest.traces)
    catalog.relations = catalog.plan(
        stored=stored, keep_fused=frozenset({"young", "fused", "lazy"}), tapped=frozenset()
    )
    between.parts.ledger.recommit()
    assert between.delta("young", 1, 4) == between.content("young", 4)
    # One that is another now cannot be compared with what it was.
    other = ViewDefinition("fused", "SELECT k, x AS y FROM t")
    catalog.replace_view(other, catalog.compile(other))
    between.parts.ledger.recommit()
    with pytest.raises(NotSupported, match='"fused" as of epoch 1'):
        between.delta("fused", 1, 4)
    between.parts.close()


# Changes as rows of a query


def changes(between: Between, relation: str, first: int, last: int | None) -> list[tuple[Any, ...]]:
    parts = between.parts
    snapshot = parts.snapshot()
    shape = snapshot.catalog.shape(snapshot.catalog.resolve(relation))
    session = parts.env.workspaces.first.session
    empty = session.createDataFrame([], f"{shape.ddl}, __weight BIGINT")
    asked = ChangeRange("changes", relation, first, last)
    found = changed_rows(between.found, parts.ledger.timeline, snapshot, asked, empty)
    assert tuple(found.columns) == changed_shape(shape).columns
    return sorted(tuple(row)[:-1] for row in found.collect())


def test_updates_are_told_by_the_key(between: Between) -> None:
    assert changes(between, "t", 2, 3) == [
        (1, 5, "update_preimage", 2),
        (1, 6, "update_postimage", 2),
        (2, 1, "delete", 3),
        (3, 6, "insert", 2),
    ]
    assert changes(between, "T", 1, 1) == [(1, 5, "insert", 1), (2, 1, "insert", 1)]


def test_without_a_key_they_are_deletions_and_insertions(between: Between) -> None:
    assert changes(between, "stored", 2, None) == [
        (1, 6, "delete", 2),
        (1, 7, "delete", 4),
        (1, 7, "insert", 2),
        (3, 7, "delete", 4),
        (3, 7, "insert", 2),
    ]
    assert changes(between, "quiet", 1, 4) == []


@pytest.mark.parametrize(("first", "last"), [(5, None), (1, 9)])
def test_epochs_that_are_not_there(between: Between, first: int, last: int | None) -> None:
    with pytest.raises(EpochNotFound):
        changes(between, "t", first, last)
