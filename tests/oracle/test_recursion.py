"""Recursion over graphs that change: random ones, rings that cancel, limits, falling back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from laminar.delta.program import Strategy
from laminar.errors import OperatorError
from laminar.session import Database, connect
from laminar.testing import Oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = "spark.sql.cteRecursionRowLimit"

PATHS = """
    WITH RECURSIVE r(a, b, n, l) AS (
        SELECT v, v, 1L, 0 FROM s
        UNION ALL SELECT r.a, e.b, r.n * e.q, r.l + 1 FROM r JOIN e ON e.a = r.b
    ) SELECT a, b, n, l FROM r
"""
TWO_STEPS = """
    WITH RECURSIVE r(v, l) AS (
        SELECT v, 0 FROM s UNION ALL (
            SELECT e.b, l + 1 FROM r JOIN e ON e.a = v
            UNION ALL SELECT g.b, l + 1 FROM r JOIN e ON e.a = v JOIN e g ON g.a = e.b AND g.q > e.q
            UNION ALL SELECT v + 100, l + 1 FROM r LEFT ANTI JOIN e ON e.a = v WHERE v < 100
        )
    ) SELECT v, l FROM r
"""
OVER = "SELECT a, COUNT(*) AS ways, SUM(n) AS n FROM paths WHERE l > 0 GROUP BY a"
AGAIN = """
    WITH RECURSIVE r(a, b, l) AS (
        SELECT a, b, 0 FROM paths WHERE l = 1
        UNION ALL SELECT r.a, CAST(o.ways AS INT) + 100, l + 1
        FROM r JOIN over_it o ON o.a = r.b WHERE l < 2
    ) SELECT a, b, l FROM r
"""


@contextmanager
def graph(spark: SparkSession, **settings: str) -> Iterator[tuple[Database, Oracle]]:
    """Open a database with edges and starts."""
    caller = spark.newSession()
    for name, value in settings.items():
        caller.conf.set(ROWS if name == "rows" else name, value)
    with connect(spark=caller) as db:
        db.execute("SET laminar.retry_backoff_ms = 0")
        oracle = Oracle(db, spark)
        oracle.table("e", "a INT, b INT, q INT")
        oracle.table("s", "v INT")
        yield db, oracle


def strategy(db: Database, view: str) -> Strategy:
    return db.engine.defined.catalog.programs[view].strategy


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(8))
def test_random_graphs(seed: int, spark: SparkSession) -> None:
    """Edges lead to greater numbers: however they come and go, every path ends."""
    chance = random.Random(seed)
    with graph(spark) as (db, oracle):

        def change() -> None:
            for name, count in (("e", 3), ("s", 1)):
                oracle.delete(name, oracle.tables[name].some(chance, chance.randint(0, count)))
            for _ in range(chance.randint(0, 5)):
                low = chance.randint(1, 5)
                edge = (low, low + chance.randint(1, 2), chance.randint(1, 3))
                oracle.insert("e", [edge] * chance.randint(1, 2))
                if chance.random() < 0.3:
                    oracle.delete("e", [edge])
            oracle.insert("s", [(chance.randint(1, 4),) for _ in range(chance.randint(0, 2))])

        db.execute(f"CREATE MATERIALIZED VIEW paths AS {PATHS}")
        change()
        oracle.step()
        db.execute(
            f"CREATE MATERIALIZED VIEW two_steps AS {TWO_STEPS};"
            f"CREATE MATERIALIZED VIEW over_it AS {OVER}; CREATE MATERIALIZED VIEW again AS {AGAIN}"
        )
        for _ in range(3):
            change()
            oracle.step()


RING = """
    WITH RECURSIVE r(v) MAX RECURSION LEVEL 6 AS (
        SELECT v FROM s UNION ALL SELECT e.b FROM r JOIN e ON e.a = r.v
    ) SELECT v FROM r
"""


def test_a_ring_that_cancels_ends(spark: SparkSession) -> None:
    """What is taken away goes round with a minus, and what comes with a plus."""
    with graph(spark) as (db, oracle):
        db.execute(f"CREATE MATERIALIZED VIEW ring AS {RING}")
        oracle.insert("s", [(1,), (7,)])
        oracle.insert("e", [(7, 8, 1), (3, 3, 1)])
        oracle.step()
        oracle.delete("s", [(1,)])
        oracle.delete("e", [(3, 3, 1)])
        oracle.insert("e", [(1, 2, 1), (2, 1, 1), (8, 9, 1), (9, 9, 1)])
        oracle.delete("e", [(9, 9, 1)])
        report = db.step()
        oracle.check()
        assert report is not None
        assert report.views["ring"].strategy == "incremental"


GROWING = """
    WITH RECURSIVE r(v, n) AS (
        SELECT v, 1 FROM s UNION ALL SELECT e.b, CAST(r.n * 10000 + e.q AS INT)
        FROM r JOIN e ON e.a = r.v
    ) SELECT v, n FROM r
"""
BRANCHING = """
    WITH RECURSIVE r(v, n) AS (
        SELECT v, 1L FROM s UNION ALL SELECT e.b, (r.n * 2 + e.q) % 1000000007
        FROM r JOIN e ON e.a = r.v
    ) SELECT v, n FROM r
"""


@pytest.mark.parametrize("view", [GROWING, pytest.param(BRANCHING, marks=pytest.mark.long)])
def test_what_fails_for_rows_that_cancel_is_computed_in_full(
    view: str, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    with graph(spark, rows="300") as (db, oracle):
        db.execute(
            f"CREATE MATERIALIZED VIEW v AS {view};"
            "CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM v"
        )
        oracle.insert("s", [(1,), (5,)])
        oracle.insert("e", [(5, 6, 1)])
        oracle.step()
        oracle.delete("s", [(1,)])
        oracle.insert("e", [(1, 2, 0), (1, 2, 1), (2, 1, 0), (2, 1, 1), (6, 7, 1)])
        report = db.step()
        oracle.check()
        assert report is not None
        assert report.views["v"].strategy == "full"
        assert "computes v#1 in full" in caplog.text
        oracle.insert("e", [(7, 8, 1)] if view is BRANCHING else [(9, 8, 1)])
        report = db.step()
        oracle.check()
        assert report is not None
        assert report.views["v"].strategy == "incremental"


def test_the_limit_of_levels_is_that_of_a_recomputation(spark: SparkSession) -> None:
    """A change of one level may be what makes it one level too many."""
    with graph(spark) as (db, oracle):
        limited = RING.replace("LEVEL 6", "LEVEL 3")
        db.execute(
            f"CREATE MATERIALIZED VIEW v AS {limited};"
            "CREATE MATERIALIZED VIEW e2 AS SELECT a FROM e"
        )
        oracle.insert("s", [(1,)])
        oracle.insert("e", [(1, 2, 1), (2, 3, 1)])
        oracle.step()
        oracle.insert("e", [(3, 4, 1)])
        with pytest.raises(OperatorError, match="more than 3 levels"):
            db.step()
        assert db.sql("SELECT COUNT(*) AS n FROM e2").rows() == [(3,)]
        assert db.sql("SELECT v FROM v ORDER BY v").rows() == [(1,), (2,), (3,)]
        oracle.delete("e", [(2, 3, 1)])
        oracle.step()
        assert strategy(db, "v") is Strategy.INCREMENTAL
