"""Subscriptions: every change once, in order, from any kept epoch on, also after a restart."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar.result import Changes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

VIEWS = """
CREATE TABLE t (id INT, x INT);
CREATE MATERIALIZED VIEW sums AS SELECT id, SUM(x) AS x FROM t GROUP BY id;
CREATE MATERIALIZED VIEW fused AS SELECT id, x * 2 AS y FROM t WHERE x > 0;
CREATE MATERIALIZED VIEW over AS SELECT COUNT(*) AS n FROM fused;
CREATE MATERIALIZED VIEW big AS SELECT id FROM sums WHERE x > 4
"""
"""Rows that are accumulators, rows that are a definition, and rows that are stored."""

NAMES = ("t", "sums", "fused", "over", "big")


def held(told: Iterable[tuple[int, Changes]]) -> Counter[tuple[Any, ...]]:
    """What all changes add up to."""
    total: Counter[tuple[Any, ...]] = Counter()
    for epoch, rows in told:
        assert rows.epoch == epoch
        for *values, weight in rows.rows():
            assert weight
            total[tuple(values)] += weight
    assert all(weight >= 0 for weight in total.values())
    return +total


def now(db: laminar.Database, name: str) -> Counter[tuple[Any, ...]]:
    return Counter(db.sql(f"SELECT * FROM {name}").rows())


def test_changes_add_up_to_the_rows(db: laminar.Database) -> None:
    db.execute(VIEWS)
    db.execute("SET laminar.compaction_fanout = 2")
    early = {name: db.subscribe(name) for name in NAMES}
    told: dict[str, list[tuple[int, Changes]]] = {name: [] for name in NAMES}
    for rows in ([(1, 1), (2, 5)], [(1, -1), (1, 9)], [(3, -3)], [(4, 4), (4, 4)]):
        db.insert("t", rows)
        db.step()
        if rows == [(1, -1), (1, 9)]:
            db.execute("DELETE FROM t WHERE id = 2")
        for name in NAMES[:3]:
            told[name] += early[name]
    db.engine.settle()
    for name in NAMES:
        told[name] += early[name]
        assert held(told[name]) == now(db, name), name
    # From the beginning, from all rows there are, and from the middle: it is the same.
    for name in NAMES[1:3]:
        assert held(db.subscribe(name, from_epoch=0)) == now(db, name), name
        seen = [(epoch, rows) for epoch, rows in told[name] if epoch <= 2]
        assert held([*seen, *db.subscribe(name, from_epoch=2)]) == now(db, name), name
    assert held(db.subscribe("over")) == now(db, "over") == Counter({(4,): 1})
    assert [epoch for epoch, _ in told["fused"]] == [1, 2, 3, 4]
    assert sorted(dict(told["sums"])[3].dicts(), key=str) == [
        {"id": 2, "x": 5, "__weight": -1},
        {"id": 3, "x": -3, "__weight": 1},
    ]
    epoch, first = told["big"][0]
    assert list(first) == [{"id": 2, "__weight": 1}]
    assert (epoch, len(first), first[0]["id"]) == (1, 1, 2)
    assert first.arrow().to_pylist() == first.pandas().to_dict("records") == first


@pytest.mark.long
def test_cursors_last_and_epochs_are_kept_for_them(tmp_path: Path, spark: SparkSession) -> None:
    state = tmp_path / "state"
    with laminar.connect(state, spark=spark) as db:
        db.execute(VIEWS)
        db.execute(
            "SET laminar.retained_epochs = 1; SET laminar.subscription_retention_epochs = 3;"
            "INSERT INTO t VALUES (1, 1)"
        )
        db.step()
        bill = db.subscribe("sums", name="bill")
        assert next(bill)[1].rows() == [(1, 1, 1)]
        db.insert("t", [(1, 1)])
        db.step()
        told = next(bill)
        assert (told[0], len(told[1])) == (2, 2)
        # It is not taken yet: after a crash now it comes again.
    with laminar.connect(state, spark=spark) as db:
        db.insert("t", [(2, 1)])
        db.step()
        with pytest.raises(laminar.InvalidSetting):
            db.subscribe("fused", name="bill")
        again = db.subscribe("sums", name="bill")
        epoch, rows = next(again)
        assert (epoch, sorted(map(str, rows))) == (2, sorted(map(str, told[1])))
        again.ack()
        table = "SELECT name, relation, cursor, lag, is_open FROM laminar_system.subscriptions"
        assert db.sql(table).rows() == [("bill", "sums", 2, 1, True)]
        assert [epoch for epoch, _ in again] == [3]
        # A view that is held says nothing; then all at once, under the number of the epoch.
        db.execute("PAUSE MATERIALIZED VIEW sums")
        for x in (1, 2):
            db.insert("t", [(2, x)])
            db.step()
            assert list(again) == []
        late = db.subscribe("sums", timeout=0)
        seen = list(late)
        db.execute("RESUME MATERIALIZED VIEW sums")
        assert [epoch for epoch, _ in again] == [6]  # catching up is an epoch
        seen += late
        assert held(seen) == now(db, "sums")
        again.close()
        assert list(again) == []
        del again, late
        for row in range(4):
            db.insert("t", [(row, row)])
            db.step()
        with pytest.raises(laminar.EpochNotFound):
            db.subscribe("sums", name="bill")
        with pytest.raises(laminar.EpochNotFound):
            db.subscribe("t", from_epoch=2)
        assert db.unsubscribe("bill")
        assert not db.unsubscribe("bill")
        follower = db.subscribe("big", name="f")
        assert held(follower) == now(db, "big")
        db.execute("CREATE OR REPLACE MATERIALIZED VIEW big AS SELECT id FROM sums WHERE x > 1")
        with pytest.raises(laminar.SubscriptionEnded):
            next(follower)
        with pytest.raises(laminar.SubscriptionEnded, match="big"):
            db.subscribe("big", name="f")


def test_a_follower_waits_for_epochs(db: laminar.Database) -> None:
    db.execute("CREATE TABLE t (id INT)")
    seen: list[int] = []
    db.engine.outputs.changelog.is_live = True
    subscription = db.subscribe("t")

    def follow() -> None:
        for epoch, _ in subscription:
            seen.append(epoch)
            if epoch == 2:
                subscription.close()

    follower = threading.Thread(target=follow)
    follower.start()
    for row in (1, 2):
        db.insert("t", [(row,)])
        db.step()
    follower.join(60)
    assert seen == [1, 2]


@pytest.mark.long
def test_sinks_of_python_code_have_cursors(tmp_path: Path, spark: SparkSession) -> None:
    state = tmp_path / "state"
    told: list[tuple[int, list[tuple[Any, ...]]]] = []
    broken: list[int] = []

    def sink(epoch: int, delta: DataFrame) -> None:
        if epoch in broken:
            broken.remove(epoch)
            raise ValueError("no room")
        told.append((epoch, sorted(map(tuple, delta.collect()))))

    dag = (
        laminar.DagBuilder()
        .source("t", schema="id INT, x INT")
        .operator("sums", "SELECT id, SUM(x) AS x FROM t GROUP BY id")
        .connect("t", "sums")
        .sink("out", sink)
        .connect("sums", "out")
        .build()
    )
    with laminar.connect(state, spark=spark) as db:
        db.run(dag)
        db.insert("t", [(1, 1)])
        db.step()
        broken.append(2)
        db.insert("t", [(1, 2)])
        report = db.step()
        assert report is not None
        assert "no room" in (report.sinks["out"].reason or "")
        assert told == [(1, [(1, 1, 1)])]
    with laminar.connect(state, spark=spark) as db:
        # Until the code is back the sink waits, and nothing is lost.
        db.execute("SET laminar.retained_epochs = 1")
        for x in (4, 8):
            db.insert("t", [(1, x)])
            db.step()
        assert len(told) == 1
        db.run(dag)
        db.execute("RESUME SINK out")  # it failed: by itself it would be called in a while
        assert [epoch for epoch, _ in told] == [1, 2, 4]
        assert told[1:] == [(2, [(1, 1, -1), (1, 3, 1)]), (4, [(1, 3, -1), (1, 15, 1)])]
        db.execute("PAUSE MATERIALIZED VIEW sums")
        db.insert("t", [(2, 2)])
        db.step()
        assert len(told) == 3
        db.execute("RESUME MATERIALIZED VIEW sums")
        assert told[3:] == [(6, [(2, 2, 1)])]
        assert db.sql("SELECT name, cursor FROM laminar_system.sinks").rows() == [("out", 6)]
        db.execute("DROP SINK out")


@pytest.mark.parametrize("reopened", [False, True])
def test_a_table_that_was_created_again_alike_is_another_one(
    spark: SparkSession, tmp_path: Path, reopened: bool
) -> None:
    """Else who follows it would never hear that the rows of before are gone."""
    db = laminar.connect(tmp_path / "state", spark=spark)
    db.execute("CREATE TABLE t (n INT)")
    db.insert("t", [(1,), (2,)])
    db.step()
    named = db.subscribe("t", name="n")
    assert held(named) == now(db, "t")
    db.execute("DROP TABLE t; CREATE TABLE t (n INT)")
    db.insert("t", [(7,)])
    db.step()
    with pytest.raises(laminar.SubscriptionEnded):
        next(named)
    if reopened:
        db.close()
        db = laminar.connect(tmp_path / "state", spark=spark)
    with db, pytest.raises(laminar.SubscriptionEnded):
        db.subscribe("t", name="n")


def test_a_view_that_is_replaced_by_what_it_is_goes_on(db: laminar.Database) -> None:
    db.execute("CREATE TABLE t (n INT); CREATE MATERIALIZED VIEW v AS SELECT n FROM t")
    following = db.subscribe("v")
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT n FROM t")
    db.insert("t", [(1,)])
    db.step()
    assert held(following) == now(db, "v")
