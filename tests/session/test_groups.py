"""Groups commit all members or none; what one member misses is taken later, all at once."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar.runtime.epoch import executor
from laminar.runtime.epoch.executor import DagExecutor
from laminar.runtime.introspection.metrics import GroupMetrics
from laminar.store import durable_files

from .groups import DIAMOND, cursors, new_clock, opened, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OUTCOMES = (
    "SELECT view, outcome, from_epoch, group_epoch FROM laminar_system.refresh_history"
    " WHERE epoch = {} ORDER BY view"
)
STATES = "SELECT name, state, state_reason FROM laminar_system.materialized_views ORDER BY name"


def group_epoch(db: laminar.Database) -> int:
    ((epoch,),) = set(db.sql("SELECT epoch FROM laminar_system.diamond_groups").rows())
    return int(epoch)


def group_line(db: laminar.Database) -> str:
    """What EXPLAIN says about the group of d."""
    lines = [str(line) for (line,) in db.execute("EXPLAIN MATERIALIZED VIEW d").rows()]
    return next(line for line in lines if line.startswith("group: "))


@pytest.mark.parametrize(
    "workers",
    [pytest.param(1, marks=pytest.mark.long, id="serial"), pytest.param(4, id="parallel")],
)
def test_a_member_that_fails_holds_its_group(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr(executor, "DagExecutor", partial(DagExecutor, workers=workers))
    with opened(tmp_path, spark, DIAMOND) as db:
        db.insert("a", [(1, 10), (2, 5)])
        db.step()
        assert group_epoch(db) == 1
        before = {view: rows(db, f"SELECT * FROM {view}") for view in "bcd"}
        traces = dict(db.engine.ledger.manifest.traces)
        db.insert("a", [(1, 0), (3, 4)])
        with pytest.raises(laminar.OperatorError, match='"c"'):
            db.step()
        # B was computed, and taken back; D is as it was; the others went on.
        assert {view: rows(db, f"SELECT * FROM {view}") for view in "bcd"} == before
        assert cursors(db, "b", "c", "d", "other", "a") == [1, 1, 1, 2, 2]
        assert rows(db, "SELECT * FROM other") == [(4,)]
        now = db.engine.ledger.manifest.traces
        assert all(now[name] == traces[name] for name in now if name[0] in "bcd")
        read = db.sql("SELECT n, COUNT(*) AS groups FROM other, d GROUP BY n")
        assert (read.epoch, read.rows()) == (1, [(2, 2)])
        assert group_epoch(db) == 1
        history = rows(db, OUTCOMES.format(2))
        assert history == [
            ("b", "held", 1, 1), ("c", "failed", 1, 1), ("d", "held", 1, 1),
            ("other", "committed", 1, 2),
        ]  # fmt: skip
        metrics = db.metrics().groups["b, c, d"]
        assert metrics == GroupMetrics(epoch=1, age=1, holds=1, retries=0, failures=1)
        told = group_line(db)
        assert told == "group: 1 [b, c, d] meets in d: atomic, fastest, epoch 1"
    with opened(tmp_path, spark) as db:  # all of that is durable, but counters begin anew
        assert cursors(db, "b", "c", "d", "other") == [1, 1, 1, 2]
        assert group_epoch(db) == 1
        assert rows(db, OUTCOMES.format(2)) == history
        assert group_line(db) == told
        metrics = db.metrics().groups["b, c, d"]
        assert metrics == GroupMetrics(epoch=1, age=1, holds=0, retries=0, failures=0)
        states = {name: (state, why) for name, state, why in db.sql(STATES).rows()}
        assert states["c"][0] == "failing"
        assert "DIVIDE_BY_ZERO" in states["c"][1]
        assert states["d"][0] == states["b"][0] == "running"  # with the next step
        db.delete("a", [(1, 0)])
        db.insert("a", [(2, 20)])
        report = db.step()
        assert report is not None
        assert (report.views["b"].from_epoch, report.views["b"].to_epoch) == (1, 3)
        assert rows(db, "SELECT * FROM d") == [(1, 10, 10.0), (2, 25, 25.0), (3, 4, 25.0)]
        assert cursors(db, "b", "c", "d", "other") == [3, 3, 3, 3]
        assert group_epoch(db) == 2
        assert db.metrics().groups["b, c, d"].retries == 1
        assert not list_orphans(db)


def list_orphans(db: laminar.Database) -> list[str]:
    """Data files that no epoch names."""
    known = set().union(*(each.files for each in db.engine.ledger.timeline.kept()))
    found = [each for each in (db.path / "data").rglob("*") if each.is_file()]
    return [str(each) for each in found if each.relative_to(db.path).as_posix() not in known]


@pytest.mark.long
def test_failing_again_and_again_ends_in_suspension(tmp_path: Path, spark: SparkSession) -> None:
    clock = new_clock()
    settings = "SET laminar.max_failures = 3; SET laminar.retry_backoff_ms = 2000;"
    with opened(tmp_path, spark, settings + DIAMOND, clock) as db:
        db.insert("a", [(1, 0)])
        for wait in (0, 0, 2):
            clock.advance(wait)
            with pytest.raises(laminar.OperatorError):
                db.step()
            if wait == 0 and db.metrics().groups["b, c, d"].failures == 2:
                assert db.step() is None  # it waits
                states = {row[0]: row[1:] for row in db.sql(STATES).rows()}
                assert states["c"][0] == "failing"
                assert states["b"][0] == "held"
                assert states["b"][1].startswith("waits for c (backing off: ")
        clock.advance(10_000)
        assert db.step() is None
        states = {row[0]: row[1:] for row in db.sql(STATES).rows()}
        assert states["c"][0] == "suspended"
        assert states["c"][1].startswith("failed 3 times")
        db.insert("a", [(2, 4)])
        assert db.step() is not None  # the others go on
        assert cursors(db, "d", "other") == [0, 2]
        (reason,) = {
            r for (r,) in db.sql("SELECT reason FROM laminar_system.diamond_groups").rows()
        }
        assert "suspended" in reason
        metrics = db.metrics().groups["b, c, d"]
        assert (metrics.age, metrics.failures, metrics.retries) == (2, 3, 2)
        with pytest.raises(laminar.NotSupported, match="suspended"):
            db.execute("REFRESH MATERIALIZED VIEW d")
    with opened(tmp_path, spark, clock=clock) as db:
        assert db.step() is None  # still suspended
        with pytest.raises(laminar.OperatorError):
            db.execute("RESUME MATERIALIZED VIEW c")
        db.delete("a", [(1, 0)])
        db.step()
        assert rows(db, "SELECT * FROM d") == [(2, 4, 25.0)]
        assert cursors(db, "b", "c", "d", "other") == [3, 3, 3, 3]


@pytest.mark.long
def test_opting_out_unties_and_never_mixes(tmp_path: Path, spark: SparkSession) -> None:
    script = DIAMOND.replace("VIEW d AS", "VIEW d WITH (diamond_consistency = 'none') AS")
    with opened(tmp_path, spark, script) as db:
        assert db.sql("SELECT * FROM laminar_system.diamond_groups").rows() == []
        db.insert("a", [(1, 10)])
        db.step()
        db.insert("a", [(1, 0)])
        with pytest.raises(laminar.OperatorError, match='"c"'):
            db.step()
        # B is not rolled back; D waits for C rather than mix B's new rows with C's old ones.
        assert cursors(db, "b", "c", "d") == [2, 1, 1]
        assert rows(db, "SELECT * FROM b") == [(1, 10)]
        assert rows(db, "SELECT * FROM d") == [(1, 10, 10.0)]
        read = db.sql("SELECT b.x, d.y FROM b JOIN d ON b.k = d.k")
        assert (read.epoch, read.rows()) == (1, [(10, 10.0)])
        db.insert("a", [(1, 5)])
        with pytest.raises(laminar.OperatorError):
            db.step()
        assert cursors(db, "b", "c", "d") == [3, 1, 1]
        # Another view in which the same paths meet ties them: the strictest counts.
        db.delete("a", [(1, 0)])
        db.engine.env.clock.advance(10)  # type: ignore[attr-defined]
        db.step()
        assert rows(db, "SELECT * FROM d") == [(1, 15, 30.0)]
        assert cursors(db, "b", "c", "d") == [4, 4, 4]
        db.execute(
            "CREATE MATERIALIZED VIEW e AS SELECT b.k, x, y FROM b JOIN c ON b.k = c.k;"
            "INSERT INTO a VALUES (2, 0)"
        )
        with pytest.raises(laminar.OperatorError, match='"c"'):
            db.step()
        assert cursors(db, "b", "c", "d", "e", "other") == [4, 4, 4, 4, 5]
        members = db.sql("SELECT member FROM laminar_system.diamond_groups ORDER BY member").rows()
        assert members == [("b",), ("c",), ("e",)]
        db.execute("ALTER MATERIALIZED VIEW d SET (diamond_consistency = 'atomic')")
        members = db.sql("SELECT member FROM laminar_system.diamond_groups ORDER BY member").rows()
        assert members == [("b",), ("c",), ("d",), ("e",)]


@pytest.mark.long
def test_nested_and_overlapping_diamonds_fall_together(tmp_path: Path, spark: SparkSession) -> None:
    script = DIAMOND + (
        ";CREATE MATERIALIZED VIEW e AS SELECT b.k, x - y AS z FROM b JOIN c ON b.k = c.k;"
        "CREATE MATERIALIZED VIEW f AS SELECT k, x FROM a WHERE x > 1000;"
        "CREATE MATERIALIZED VIEW g AS SELECT d.k, y FROM d LEFT JOIN f ON d.k = f.k"
    )
    with opened(tmp_path, spark, script) as db:
        ((group,),) = db.sql(
            "SELECT SORT_ARRAY(COLLECT_LIST(member)) FROM laminar_system.diamond_groups"
        ).rows()
        assert group == ["b", "c", "d", "e", "f", "g"]
        meets = "SELECT member FROM laminar_system.diamond_groups WHERE is_convergence"
        assert rows(db, meets) == [("d",), ("e",), ("g",)]
        db.insert("a", [(1, 10)])  # f is an idle branch: nothing of this concerns it
        db.step()
        assert cursors(db, *"bcdefg") == [1] * 6
        db.insert("a", [(1, 0)])
        with pytest.raises(laminar.OperatorError, match='"c"'):
            db.step()
        assert cursors(db, *"bcdefg") == [1] * 6
        db.delete("a", [(1, 0)])
        db.insert("a", [(1, 5)])
        db.step()
        assert cursors(db, *"bcdefg") == [3] * 6
        joined = "SELECT e.z, g.y FROM e JOIN g ON e.k = g.k"
        assert rows(db, joined) == [(-15.0, 30.0)]


def test_a_crash_in_the_middle_of_a_group_commit(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    with opened(tmp_path, spark, DIAMOND) as db:
        db.insert("a", [(1, 10)])
        db.step()
        db.execute("PAUSE MATERIALIZED VIEW c")
        db.insert("a", [(1, 5)])
        db.step()
        assert cursors(db, "b", "d", "other") == [1, 1, 2]

        def die(point: str) -> None:
            if point == "manifest.before_rename":
                raise Killed

        db.engine.defined.catalog.registry.set_state("c", laminar.MvState.RUNNING)
        monkeypatch.setattr(durable_files, "failpoint", die)
        with pytest.raises(Killed):
            db.step()
        monkeypatch.undo()
        assert cursors(db, "b", "d", "other") == [1, 1, 2]
        db.engine.defined.catalog.registry.set_state("c", laminar.MvState.PAUSED)
    with opened(tmp_path, spark) as db:
        # The epoch that was begun runs again, as it stands now: c is paused, and holds its group.
        assert cursors(db, "b", "d", "other") == [1, 1, 3]
        assert not list_orphans(db)
        db.execute("RESUME MATERIALIZED VIEW c")
        assert cursors(db, "b", "d", "other") == [4, 4, 4]
        assert rows(db, "SELECT * FROM d") == [(1, 15, 30.0)]


@pytest.mark.long
def test_held_views_outlive_compaction_and_changes_of_storage(
    tmp_path: Path, spark: SparkSession
) -> None:
    script = (
        "SET laminar.compaction_fanout = 2; SET laminar.retained_epochs = 1;"
        "CREATE TABLE a (k INT, x BIGINT);"
        "CREATE MATERIALIZED VIEW plain AS SELECT k, x + 1 AS x FROM a;"
        "CREATE MATERIALIZED VIEW s AS SELECT k, SUM(x) AS x FROM plain GROUP BY k;"
        "CREATE MATERIALIZED VIEW n AS SELECT k, COUNT(*) AS n FROM a GROUP BY k"
    )
    with opened(tmp_path, spark, script) as db:
        db.insert("a", [(1, 1)])
        db.step()
        db.execute("PAUSE MATERIALIZED VIEW plain")  # fused: it has no files of its own
        for number in range(2, 6):
            db.insert("a", [(number, 1)])
            db.step()
        db.engine.settle()
        assert len(db.engine.ledger.manifest.traces["a"].segments) == 2  # not merged across epoch 1
        assert rows(db, "SELECT * FROM plain") == rows(db, "SELECT * FROM s") == [(1, 2)]
        # A new reader makes `n` store its rows; it can still be read at epoch 1.
        db.execute("CREATE MATERIALIZED VIEW big AS SELECT k FROM n WHERE n > 0")
        both: Any = db.sql("SELECT s.k, n FROM s JOIN n ON s.k = n.k")
        assert (both.epoch, both.rows()) == (1, [(1, 1)])
        with pytest.raises(laminar.NoCommonEpoch, match='"big"'):
            db.sql("SELECT * FROM big, s")
        # A view over both is computed at the epoch they have in common, and follows.
        db.execute("CREATE MATERIALIZED VIEW j AS SELECT s.k, x, n FROM s JOIN n ON s.k = n.k")
        assert rows(db, "SELECT * FROM j") == [(1, 2, 1)]
        assert cursors(db, "j", "n", "s") == [1, 5, 1]
        db.execute("RESUME MATERIALIZED VIEW plain")
        assert cursors(db, "j", "n", "s", "plain", "big") == [6] * 5
        assert rows(db, "SELECT * FROM j") == [(k, 2, 1) for k in range(1, 6)]
        db.engine.settle()
        assert len(db.engine.ledger.manifest.traces["a"].segments) == 1
