"""Views that step when their time has come, and reads across views of different schedules."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import laminar
from laminar.testing.faults import Faults

from .groups import cursors, new_clock, opened, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_policies_of_a_group_with_schedules(tmp_path: Path, spark: SparkSession) -> None:
    clock = new_clock()
    script = (
        "SET laminar.diamond_schedule_policy = 'slowest'; CREATE TABLE a (k INT);"
        "CREATE MATERIALIZED VIEW b WITH (schedule = '10s') AS SELECT k, COUNT(*) AS n FROM a"
        " GROUP BY k;"
        "CREATE MATERIALIZED VIEW c WITH (schedule = '30s') AS SELECT k, MAX(k) AS m FROM a"
        " GROUP BY k;"
        "CREATE MATERIALIZED VIEW d WITH (schedule = '1h') AS"
        " SELECT b.k, n, m FROM b JOIN c ON b.k = c.k"
    )
    with opened(tmp_path, spark, script, clock) as db:

        def after(seconds: float) -> list[int]:
            """Let time pass, run an epoch with one more row, and see where the group is."""
            clock.advance(seconds)
            db.insert("a", [(1,)])
            db.step()
            return cursors(db, "b", "c", "d")

        assert after(30) == [0, 0, 0]  # b and c are due, d is not
        assert after(3570) == [2, 2, 2]  # all are: one step takes both epochs
        assert rows(db, "SELECT * FROM d") == [(1, 2, 1)]
        # What a view says counts more than the default.
        db.execute("ALTER MATERIALIZED VIEW d SET (diamond_schedule_policy = 'fastest')")
        assert after(9) == [2, 2, 2]
        assert after(1) == [4, 4, 4]  # b is due
        # Of several views in which paths meet, the strictest counts.
        policies = "SELECT DISTINCT schedule_policy FROM laminar_system.diamond_groups"
        db.execute("CREATE MATERIALIZED VIEW e AS SELECT n - m AS o FROM b JOIN c ON b.k = c.k")
        assert rows(db, policies) == [("slowest",)]  # of the setting
        assert after(10) == [4, 4, 4]
        db.execute("DROP MATERIALIZED VIEW e")
        assert rows(db, policies) == [("fastest",)]
        assert after(0) == [6, 6, 6]
        # A policy is of no use in a diamond that is not tied: each has its own schedule.
        db.execute("ALTER MATERIALIZED VIEW d SET (diamond_consistency = 'none')")
        db.execute("ALTER MATERIALIZED VIEW d SET (schedule = 'every epoch')")
        assert after(10) == [7, 6, 6]  # d waits for c
        assert rows(db, "SELECT * FROM d") == [(1, 6, 1)]
        assert after(20) == [8, 8, 8]
        states = db.sql(
            "SELECT name, state, schedule, diamond_consistency, staleness"
            " FROM laminar_system.materialized_views ORDER BY name"
        ).rows()
        assert states == [
            ("b", "scheduled", "10s", "atomic", 0),
            ("c", "scheduled", "30s", "atomic", 0),
            ("d", "held", "every epoch", "none", 0),
        ]


@pytest.mark.long
def test_reads_and_views_across_schedules(tmp_path: Path, spark: SparkSession) -> None:
    clock = new_clock()
    script = (
        "CREATE TABLE t (x BIGINT); CREATE TABLE u (x BIGINT);"
        "CREATE MATERIALIZED VIEW base WITH (schedule = 'calculated') AS SELECT x FROM t"
        " WHERE x > 0;"
        "CREATE MATERIALIZED VIEW slow WITH (schedule = '60s') AS SELECT SUM(x) AS s FROM base;"
        "CREATE MATERIALIZED VIEW quick WITH (schedule = '*/25 * * * * Europe/Berlin') AS"
        " SELECT COUNT(*) AS n FROM u;"
        "CREATE MATERIALIZED VIEW both AS SELECT s, n FROM slow, quick"
    )
    with opened(tmp_path, spark, script, clock) as db:

        def after(seconds: float) -> list[int]:
            clock.advance(seconds)
            db.execute("INSERT INTO t VALUES (1); INSERT INTO u VALUES (1)")
            db.step()
            return cursors(db, "base", "slow", "quick", "both")

        assert "schedule: calculated (60s)" in [
            line for (line,) in db.execute("EXPLAIN MATERIALIZED VIEW base").rows()
        ]
        assert after(50) == [0, 0, 0, 0]
        assert after(10) == [2, 2, 0, 0]
        read = db.sql("SELECT s, n FROM slow, quick")
        assert (read.epoch, read.rows()) == (0, [(None, 0)])  # the newest epoch that both have
        assert db.sql("SELECT (SELECT COUNT(*) FROM t), s FROM slow").rows() == [(2, 2)]
        assert after(0) == [2, 2, 0, 0]
        assert after(24 * 60) == [4, 4, 4, 4]
        assert rows(db, "SELECT * FROM both") == [(4, 4)]
        assert after(60) == [5, 5, 4, 4]
        # Both at 4: slow stopped there, because quick stands at it.
        read = db.sql("SELECT s, n FROM slow, quick")
        assert (read.epoch, read.rows()) == (4, [(4, 4)])
        assert after(0) == [5, 5, 4, 4]
        stale = "SELECT name, staleness FROM laminar_system.materialized_views ORDER BY name"
        assert db.sql(stale).rows() == [("base", 1), ("both", 2), ("quick", 2), ("slow", 1)]
        db.execute("INSERT INTO t VALUES (1)")
        found = db.execute("REFRESH MATERIALIZED VIEW both").rows()
        assert found == [("both", "7", "2")]
        assert cursors(db, "base", "slow", "quick", "both") == [7, 7, 7, 7]
        assert rows(db, "SELECT * FROM both") == [(7, 6)]
        assert db.execute("REFRESH MATERIALIZED VIEW both").rows() == [("both", "7", "0")]
        assert db.step() is None
        clock.advance(3600)
        assert db.step() is None  # due, but there is nothing to take
    with opened(tmp_path, spark, clock=clock) as db:  # when a view stepped is durable
        db.execute("INSERT INTO t VALUES (1)")
        db.step()
        assert cursors(db, "slow", "quick", "both") == [8, 8, 8]
        db.execute("INSERT INTO t VALUES (1)")
        db.step()
        assert cursors(db, "slow", "quick", "both") == [8, 8, 8]
        # While slow is behind, what is built over it begins where it is.
        db.execute("CREATE MATERIALIZED VIEW more AS SELECT s, x FROM slow, t")
        assert cursors(db, "more") == [8]
        assert db.sql("SELECT COUNT(*) FROM more").rows() == [(8,)]
        with pytest.raises(laminar.BadViewOption, match="schedule"):
            db.execute("ALTER MATERIALIZED VIEW slow SET (schedule = 'sometimes')")


def test_late_rows_go_with_their_view(tmp_path: Path, spark: SparkSession) -> None:
    """A view and its late rows step together, even if it is tied to nobody else."""
    clock, faults = new_clock(), Faults()
    window = "TUMBLE(ts, INTERVAL '10' SECOND)"
    script = (
        "CREATE SOURCE s (ts TIMESTAMP, x BIGINT, WATERMARK FOR ts AS ts);"
        "CREATE MATERIALIZED VIEW base AS SELECT ts, x FROM s; PAUSE MATERIALIZED VIEW base"
    )
    start = datetime(2026, 1, 1, tzinfo=UTC)
    with faults.armed(), opened(tmp_path, spark, script, clock) as db:

        def at(*seconds: float) -> None:
            db.insert("s", [(start + timedelta(seconds=each), int(each)) for each in seconds])
            with suppress(laminar.OperatorError):
                db.step()

        at(5, 25)
        # The view begins where what it reads is, and so does the relation of its late rows.
        db.execute(
            "CREATE MATERIALIZED VIEW w WITH (schedule = '60s', diamond_consistency = 'none') AS"
            f" SELECT SUM(x) AS x FROM base GROUP BY {window} EMIT AFTER WATERMARK LATE DATA TO l"
        )
        assert cursors(db, "w", "l") == [0, 0]
        members = db.sql("SELECT member, cursor FROM laminar_system.diamond_groups").rows()
        assert sorted(members) == [("l", 0), ("w", 0)]
        db.execute("RESUME MATERIALIZED VIEW base")
        assert cursors(db, "base", "w", "l") == [2, 0, 0]  # neither is due
        clock.advance(60)
        at(36)
        assert cursors(db, "w", "l") == [3, 3]
        faults.views = {"l"}
        clock.advance(60)
        at(1)  # late, and the view must not step past it alone
        assert cursors(db, "base", "w", "l") == [4, 3, 3]
        at(2, 57)
        at(45)  # late by now; in time for who takes the last three epochs at once
        faults.views = set()
        clock.advance(600)
        at(58)
        assert cursors(db, "w", "l") == [7, 7]
        shown, refused = rows(db, "SELECT x FROM w"), rows(db, "SELECT x FROM l")
        total = db.sql("SELECT SUM(x) FROM s WHERE ts < TIMESTAMP '2026-01-01 00:00:50'").rows()
        assert sum(x for (x,) in [*shown, *refused]) == total[0][0]  # each row is in one of them
        assert refused == [(1,), (2,)]


def test_windows_of_a_view_that_was_behind(tmp_path: Path, spark: SparkSession) -> None:
    """Two views of one definition; one is held for a while, and then shows the same."""
    query = (
        "SELECT TUMBLE_START(ts, INTERVAL '10' SECOND) AS w, COUNT(*) AS n, SUM(x) AS x FROM s"
        " GROUP BY TUMBLE(ts, INTERVAL '10' SECOND) EMIT AFTER WATERMARK"
    )
    script = (
        "CREATE SOURCE s (ts TIMESTAMP, x BIGINT, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND);"
        f"CREATE MATERIALIZED VIEW steady AS {query};"
        f"CREATE MATERIALIZED VIEW held AS {query};"
        "CREATE MATERIALIZED VIEW over_it AS SELECT COUNT(*) AS windows FROM held"
    )
    start = datetime(2026, 1, 1, tzinfo=UTC)
    with opened(tmp_path, spark, script) as db:

        def at(*seconds: float) -> None:
            db.insert("s", [(start + timedelta(seconds=each), 1) for each in seconds])
            db.step()

        at(1, 12)
        db.execute("PAUSE MATERIALIZED VIEW held")
        at(16, 27)
        at(38, 39)
        assert rows(db, "SELECT * FROM held") == []
        assert db.sql("SELECT * FROM held").epoch == 1
        db.execute("RESUME MATERIALIZED VIEW held")
        assert rows(db, "SELECT * FROM held") == rows(db, "SELECT * FROM steady") != []
        at(55)
        assert rows(db, "SELECT * FROM held") == rows(db, "SELECT * FROM steady")
        shown = rows(db, "SELECT * FROM steady")
        assert rows(db, "SELECT * FROM over_it") == [(len(shown),)]
        assert [n for _, n, _ in shown] == [1, 2, 1, 2]
