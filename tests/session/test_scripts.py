"""Each statement of a script sees what those before it did, before an epoch has taken it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import laminar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TABLES = """
    CREATE TABLE s (k INT, x INT); CREATE TABLE t (k INT, x INT);
    CREATE SOURCE p (k INT PRIMARY KEY, x INT);
    CREATE MATERIALIZED VIEW sums AS SELECT k, SUM(x) AS x FROM s GROUP BY k;
    CREATE MATERIALIZED VIEW top AS SELECT k, x FROM sums WHERE x > 5;
    INSERT INTO s VALUES (1, 1); INSERT INTO p VALUES (1, 1);
"""


@pytest.fixture(scope="module")
def shared_db(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with laminar.connect(tmp_path_factory.mktemp("scripts"), spark=spark) as opened:
        opened.execute(TABLES)
        opened.step()
        yield opened


@pytest.fixture
def db(shared_db: laminar.Database) -> Iterator[laminar.Database]:
    """Rows (1, 1) in `s` and `p` that are committed; nothing waits, `t` is empty."""
    yield shared_db
    shared_db.execute("RESUME MATERIALIZED VIEW sums; RESUME SOURCE s")
    shared_db.execute("DELETE FROM s; INSERT INTO s VALUES (1, 1); DELETE FROM t")
    shared_db.execute("INSERT INTO p VALUES (1, 1); DELETE FROM p WHERE k > 1")
    shared_db.drain()
    assert rows(shared_db, "s") == rows(shared_db, "p") == rows(shared_db, "sums") == [(1, 1)]


def rows(db: laminar.Database, name: str) -> list[Any]:
    return sorted(db.sql(f"SELECT * FROM {name}").rows())


SCRIPTS = [
    ("INSERT INTO t SELECT * FROM s", [(1, 1)]),
    ("INSERT INTO s VALUES (2, 2); INSERT INTO t SELECT * FROM s", [(1, 1), (2, 2)]),
    (
        "INSERT INTO s VALUES (2, 2); INSERT INTO t SELECT a.k, b.x FROM s a, s b",
        [(1, 1), (1, 2), (2, 1), (2, 2)],
    ),
    ("UPDATE s SET x = 5; INSERT INTO t SELECT * FROM s", [(1, 5)]),
    ("DELETE FROM s; INSERT INTO t SELECT 1, COUNT(*) FROM s", [(1, 0)]),
    ("INSERT INTO t VALUES (1, 2); INSERT INTO t SELECT * FROM t", [(1, 2), (1, 2)]),
    ("INSERT INTO s VALUES (1, 1), (1, 1); INSERT INTO t SELECT * FROM s", [(1, 1)] * 3),
    (
        "INSERT INTO p VALUES (1, 7), (2, 8); INSERT INTO t SELECT * FROM p WHERE x > 1",
        [(1, 7), (2, 8)],
    ),
    (
        "INSERT INTO t VALUES (2, 0), (3, 0); INSERT INTO s VALUES (2, 9);"
        "UPDATE t SET x = (SELECT MAX(x) FROM s) WHERE k IN (SELECT k FROM s)",
        [(2, 9), (3, 0)],
    ),
    (
        "INSERT INTO t VALUES (2, 0), (3, 0); INSERT INTO s VALUES (2, 9);"
        "DELETE FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s.k = t.k)",
        [(3, 0)],
    ),
    (
        "INSERT INTO t VALUES (2, 0); INSERT INTO s VALUES (2, 9), (3, 4);"
        "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET *"
        " WHEN NOT MATCHED AND s.k IN (SELECT k FROM s WHERE x > 3) THEN INSERT *",
        [(2, 9), (3, 4)],
    ),
    (
        "INSERT INTO s VALUES (2, 9);"
        "MERGE INTO t USING (SELECT k, x FROM s) AS q ON t.k = q.k"
        " WHEN NOT MATCHED THEN INSERT (k, x) VALUES (q.k, q.x)",
        [(1, 1), (2, 9)],
    ),
    # Views: as the next epoch leaves them.
    ("INSERT INTO s VALUES (2, 9), (1, 9); INSERT INTO t TABLE top", [(1, 10), (2, 9)]),
    (
        "INSERT INTO s VALUES (2, 9); INSERT INTO t VALUES (2, 1), (5, 5);"
        "DELETE FROM t WHERE k NOT IN (SELECT k FROM sums)",
        [(2, 1)],
    ),
    (
        "INSERT INTO s VALUES (2, 9);"
        "MERGE INTO t USING top AS q ON t.k = q.k WHEN NOT MATCHED THEN INSERT *",
        [(2, 9)],
    ),
    (
        "INSERT INTO s VALUES (2, 9); INSERT INTO t SELECT s.k, sums.x FROM s JOIN sums"
        " ON s.k = sums.k",
        [(1, 1), (2, 9)],
    ),
    # One that is held is read as it is, beside tables with all that waits.
    (
        "PAUSE MATERIALIZED VIEW sums; INSERT INTO s VALUES (2, 9);"
        "INSERT INTO t SELECT k, x FROM sums UNION ALL SELECT k, 100 FROM s",
        [(1, 1), (1, 100), (2, 100)],
    ),
    (
        "PAUSE SOURCE s; INSERT INTO s VALUES (2, 9);"
        "INSERT INTO t SELECT k, x FROM sums UNION ALL SELECT k, 100 FROM s",
        [(1, 1), (1, 100), (2, 100)],
    ),
]
QUICK = (1, 9, 12, 16)
"""Those that run every time; the others only where there is time for all."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param(*each, marks=[] if place in QUICK else pytest.mark.long)
        for place, each in enumerate(SCRIPTS)
    ],
)
def test_a_statement_sees_what_waits(
    db: laminar.Database, script: str, expected: list[Any]
) -> None:
    db.execute(script)
    db.drain()
    assert rows(db, "t") == expected


def test_an_epoch_runs_first_only_where_rows_wait_for_a_view(db: laminar.Database) -> None:
    before, told = db.engine.ledger.epoch, list[int]()
    db.on_epoch(lambda report: told.append(report.epoch))
    db.execute("INSERT INTO t VALUES (9, 9); INSERT INTO t SELECT * FROM sums")
    assert db.engine.ledger.epoch == before
    db.execute("INSERT INTO s VALUES (2, 2); INSERT INTO t SELECT k, x FROM s")
    assert db.engine.ledger.epoch == before
    db.execute("DELETE FROM t WHERE k IN (SELECT k FROM sums)")
    assert db.engine.ledger.epoch == before + 1
    assert told == [before + 1]


def test_an_insert_that_reads_nothing_that_waits_waits_for_nobody(db: laminar.Database) -> None:
    import threading

    db.execute("SET laminar.writer_timeout_ms = 1")
    failed: list[Exception] = []

    def run() -> None:
        try:
            db.execute("INSERT INTO t VALUES (1, 2); INSERT INTO t SELECT k, x FROM sums")
        except Exception as error:
            failed.append(error)

    other = threading.Thread(target=run)
    with db.engine.ledger.turn("a test"):
        other.start()
        other.join(60)
    db.execute("RESET laminar.writer_timeout_ms")
    assert not failed
