"""Definitions change while a database runs: views are replaced, altered, added, dropped."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar.testing import Oracle
from laminar.testing.live import LiveRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = [(1, "a", 10), (2, "a", 20), (3, "b", 5)]


def chain(db: laminar.Database) -> None:
    db.execute(
        "CREATE TABLE t (id INT, g STRING, x INT);"
        "CREATE MATERIALIZED VIEW base AS SELECT id, g, x FROM t WHERE x > 0;"
        "CREATE MATERIALIZED VIEW sums AS SELECT g, SUM(x) AS x FROM base GROUP BY g;"
        "CREATE MATERIALIZED VIEW top AS"
        " SELECT b.id, s.x FROM base b JOIN sums s ON b.g = s.g WHERE b.x > 5"
    )


@pytest.mark.long
def test_replacing_a_view_rebuilds_what_reads_it(tmp_path: Path, spark: SparkSession) -> None:
    with laminar.connect(tmp_path, spark=spark) as db:
        chain(db)
        oracle = Oracle(db, spark)
        oracle.tables["t"] = LiveRows()
        oracle.insert("t", ROWS)
        oracle.step()
        before = db.engine.ledger.manifest.revision
        db.execute("CREATE OR REPLACE MATERIALIZED VIEW base AS SELECT id, g, x FROM t WHERE x > 0")
        assert db.engine.ledger.manifest.revision == before
        # A projection becomes an aggregate: other hidden relations, other storage.
        db.execute(
            "CREATE OR REPLACE MATERIALIZED VIEW base AS"
            " SELECT MAX(id) AS id, g, SUM(x) AS x FROM t GROUP BY g"
        )
        oracle.check()
        oracle.insert("t", [(4, "c", 7)])
        oracle.delete("t", ROWS[:1])
        oracle.step()
        for bad, error in (
            ("SELECT id, g FROM t", laminar.DependentRefused),
            ("SELECT id, g, x FROM top", laminar.SqlError),
            ("SELECT s.g, s.x, 1 AS id FROM sums s", laminar.MvCycleDetected),
            ("SELECT id, g, x / 0 AS x FROM t", laminar.OperatorError),
        ):
            with pytest.raises(error):
                db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW base AS {bad}")
        oracle.insert("t", [(5, "c", 8)])
        oracle.step()
    with laminar.connect(tmp_path, spark=spark) as db:
        again = Oracle(db, spark)
        again.tables = oracle.tables
        again.check()
        # It may now read what was defined after it; the order of definitions follows.
        db.execute(
            "CREATE MATERIALIZED VIEW doubled AS SELECT id, g, x * 2 AS x FROM t;"
            "CREATE OR REPLACE MATERIALIZED VIEW base AS SELECT id, g, x FROM doubled"
        )
        again.insert("t", [(6, "a", 1)])
        again.step()
        db.execute("DROP MATERIALIZED VIEW top")
        again.insert("t", [(7, "b", 1)])
        again.step()
    with laminar.connect(tmp_path, spark=spark) as db:
        last = Oracle(db, spark)
        last.tables = oracle.tables
        last.insert("t", [(8, "b", 2)])
        last.step()
        assert db.execute("SHOW DEPENDENCIES FOR sums").rows() == [
            ("sums -> base -> doubled -> t",)
        ]


def test_readers_see_the_old_rows_until_the_new_are_ready(
    db: laminar.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain(db)
    db.insert("t", ROWS)
    db.step()
    seen: list[Any] = []
    real = type(db.engine.ledger).commit

    def slow(self: Any, *args: Any, **kwargs: Any) -> None:
        reader = threading.Thread(
            target=lambda: seen.append(
                (db.sql("SELECT * FROM sums ORDER BY g").rows(), db.sql("TABLE base").columns)
            )
        )
        reader.start()
        reader.join(60)
        real(self, *args, **kwargs)

    monkeypatch.setattr(type(db.engine.ledger), "commit", slow)
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW base AS SELECT id, g, x * 2 AS x FROM t")
    assert seen == [([("a", 30), ("b", 5)], ["id", "g", "x"])]
    assert db.sql("SELECT * FROM sums ORDER BY g").rows() == [("a", 60), ("b", 10)]


@pytest.mark.long
def test_another_policy_builds_the_view_anew(db: laminar.Database, spark: SparkSession) -> None:
    chain(db)
    oracle = Oracle(db, spark, may_be_full=frozenset({"sums"}))
    oracle.tables["t"] = LiveRows()
    oracle.insert("t", ROWS)
    oracle.step()
    for policy, strategy in (("full", "full"), ("auto", "incremental")):
        db.execute(f"ALTER MATERIALIZED VIEW sums SET (refresh_policy = '{policy}')")
        shown = db.execute("SHOW MATERIALIZED VIEWS").rows()
        assert ("sums", strategy, "running") in shown
        oracle.insert("t", [(9, "b", 100)])
        oracle.step()
    db.execute("CREATE MATERIALIZED VIEW odd AS SELECT id FROM t ORDER BY x LIMIT 5")
    assert "refresh_policy = 'auto'" in db.execute("SHOW CREATE sums").rows()[0][0]


@pytest.mark.long
@pytest.mark.parametrize("names", [("ohlc_1", "ohlc_1m", "ohlc_1m_")])
def test_names_that_begin_alike_are_not_mixed_up(
    db: laminar.Database, spark: SparkSession, names: tuple[str, ...]
) -> None:
    first, second, third = names
    db.execute(
        f"CREATE TABLE o (id INT, x INT);"
        f"CREATE MATERIALIZED VIEW {second} AS SELECT id, x + 1 AS x FROM o;"
        f"CREATE MATERIALIZED VIEW {first} AS SELECT id, SUM(x) AS x FROM {second} GROUP BY id;"
        f"CREATE MATERIALIZED VIEW {third} AS"
        f" SELECT a.id, a.x, b.x AS y FROM {first} a JOIN {second} b ON a.id = b.id"
    )
    oracle = Oracle(db, spark)
    oracle.tables["o"] = LiveRows()
    oracle.insert("o", [(1, 1), (1, 2), (2, 3)])
    oracle.step()
    oracle.delete("o", [(1, 2)])
    oracle.step()
    db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW {first} AS SELECT id, x FROM {second}")
    oracle.check()
