"""Aggregates over the same rows share one scan, and nothing in their results shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import laminar
from laminar.runtime.epoch import shared_scan
from laminar.runtime.epoch.shared_scan import SharedScan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DEFINITIONS = """
CREATE TABLE trades (symbol STRING, minute INT, price DOUBLE, volume BIGINT);
CREATE MATERIALIZED VIEW cleaned AS
  SELECT symbol, minute, price, volume FROM trades WHERE volume > 0;
CREATE MATERIALIZED VIEW fine AS
  SELECT symbol, minute, SUM(price * volume) AS pv, MAX(price) AS top
  FROM cleaned GROUP BY symbol, minute;
CREATE MATERIALIZED VIEW coarse AS
  SELECT symbol, COUNT(*) AS n, SUM(volume) AS v FROM cleaned GROUP BY symbol;
CREATE MATERIALIZED VIEW other AS SELECT minute, COUNT(*) AS n FROM trades GROUP BY minute;
"""


def trades(start: int) -> list[tuple[str, int, float, int]]:
    return [
        ("abc"[place % 3], place % 4, float(place % 7), place % 5)
        for place in range(start, start + 60)
    ]


def test_siblings_are_served_by_one_statement(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_scan, "WORTHWHILE", 1)
    computed: list[tuple[str, ...]] = []
    compute = SharedScan._compute

    def counted(one: SharedScan) -> object:
        computed.append(one._plan.names)
        return compute(one)

    monkeypatch.setattr(SharedScan, "_compute", counted)
    with laminar.connect(spark=spark) as db:
        db.execute(DEFINITIONS)
        for epoch_time in range(4):
            db.insert("trades", trades(epoch_time * 60))
            if epoch_time == 3:
                db.delete("trades", trades(0)[:20])
            db.step()
            for view, query in {
                "fine": "SELECT symbol, minute, SUM(price * volume), MAX(price) FROM trades "
                "WHERE volume > 0 GROUP BY symbol, minute",
                "coarse": "SELECT symbol, COUNT(*), SUM(volume) FROM trades WHERE volume > 0 "
                "GROUP BY symbol",
            }.items():
                found = sorted(db.sql(f"SELECT * FROM {view}").rows())
                assert found == sorted(db.sql(query).rows()), (view, epoch_time)
    # The first epoch knows no sizes yet; the last one has a retraction that MAX cannot undo.
    assert computed == [("fine#1", "coarse#1")] * 2


def test_groups_as_many_as_rows_are_not_worth_it(spark: SparkSession) -> None:
    with laminar.connect(spark=spark) as db:
        db.execute(DEFINITIONS)
        for epoch_time in range(3):
            db.insert("trades", trades(epoch_time)[:12])
            db.step()
        assert sorted(db.sql("SELECT symbol, n FROM coarse").rows()) == sorted(
            db.sql("SELECT symbol, COUNT(*) FROM trades WHERE volume > 0 GROUP BY symbol").rows()
        )


def test_one_that_fails_leaves_its_sibling_alone(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_scan, "WORTHWHILE", 1)
    with laminar.connect(spark=spark) as db:
        db.execute(
            "CREATE TABLE t (k STRING, w BIGINT);"
            "CREATE MATERIALIZED VIEW fine AS SELECT k, w, SUM(1 / w) AS s FROM t GROUP BY k, w;"
            "CREATE MATERIALIZED VIEW coarse AS SELECT k, COUNT(*) AS n FROM t GROUP BY k"
        )
        for row in (("a", 1), ("a", 2)):
            db.insert("t", [row])
            db.step()
        db.insert("t", [("a", 0)])
        with pytest.raises(laminar.OperatorError, match="fine"):
            db.step()
        assert db.sql("SELECT n FROM coarse").rows() == [(3,)]
        assert db.sql("SELECT COUNT(*) FROM fine").rows() == [(2,)]
