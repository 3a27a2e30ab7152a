"""Going back to a checkpoint, and opening a database that was damaged."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar import DagBuilder, RecoveryConfig, RecoveryMode
from laminar.store import durable_files
from laminar.testing.published import published

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def rows(db: laminar.Database, query: str) -> Counter[tuple[Any, ...]]:
    return Counter(map(tuple, db.sql(query).rows()))


def test_going_back_sets_later_history_aside(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with laminar.connect(tmp_path / "state", spark=spark) as db:
        db.execute(
            "CREATE TABLE t (k STRING, n BIGINT);"
            "CREATE MATERIALIZED VIEW s AS SELECT k, SUM(n) AS n FROM t GROUP BY k;"
            "CREATE MATERIALIZED VIEW c AS SELECT COUNT(*) AS n FROM s;"
            f"CREATE SINK k FROM s WITH (connector = 'files', path = '{out}')"
        )
        db.insert("t", [("a", 1), ("b", 2)])
        db.step()
        db.insert("t", [("waiting", 7)])
        first = db.checkpoint()
        then = rows(db, "SELECT * FROM s")
        db.step()
        db.insert("t", [("a", 10)])
        db.delete("t", [("b", 2)])
        db.step()
        db.insert("t", [("later", 1)])
        db.execute(
            "CREATE MATERIALIZED VIEW late AS SELECT k FROM t;"
            "CREATE OR REPLACE MATERIALIZED VIEW c AS SELECT SUM(n) AS n FROM s"
        )
        now = rows(db, "SELECT * FROM s")
        assert now != then
        (made,) = db.execute(f"RESTORE FROM CHECKPOINT {first}").dicts()
        # A new epoch that holds what the checkpoint's epoch held; the sink got the difference.
        assert made["epoch"] == "4"
        assert rows(db, "SELECT * FROM s") == then == published(out)
        assert rows(db, "SELECT * FROM c") == Counter([(2,)])
        assert rows(db, "SELECT * FROM s AS OF EPOCH 3") == now
        with pytest.raises(laminar.UnknownRelation):
            db.sql("SELECT * FROM late")
        with pytest.raises(laminar.NoCheckpointFound, match="LMR-1014"):
            db.restore(99)
        # The row that had been pushed by then waits again; the one that came later does not.
        db.insert("t", [("b", 5)])
        report = db.step()
        assert report is not None
        assert (report.epoch, report.rows_in) == (5, 2)
        after = Counter([("a", 1), ("b", 7), ("waiting", 7)])
        assert rows(db, "SELECT * FROM s") == after == published(out)
        second = db.checkpoint()
        aside = Path(made["set_aside"])
    # What was set aside is a database of its own, with all that was pending.
    with laminar.connect(aside, spark=spark) as old:
        assert rows(old, "SELECT * FROM s") == now
        assert rows(old, "SELECT * FROM c") == Counter([(18,)])
        old.execute("DROP SINK k")
        old.step()
        assert ("later", 1) in rows(old, "SELECT * FROM s")
    config = RecoveryConfig(RecoveryMode.Specific(first))
    with laminar.connect(tmp_path / "state", spark=spark, recovery=config) as db:
        assert (db.recovery.checkpoint_id, db.recovery.source) == (first, "checkpoint")
        db.engine.outputs.sinks.waits.settle()  # opening waits for no sink
        assert rows(db, "SELECT * FROM s") == then == published(out)
        # Definitions of now, rows of then: what is defined alike keeps its rows.
        db.execute("CREATE MATERIALIZED VIEW d AS SELECT n * 2 AS n FROM c")
        assert db.restore(second, definitions="current") == 7
        assert rows(db, "SELECT * FROM s") == after == published(out)
        assert rows(db, "SELECT * FROM d") == Counter([(6,)])
        assert db.step() is None


def test_event_time_goes_back_too(db: laminar.Database) -> None:
    db.execute(
        "CREATE SOURCE e (n BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '0' SECOND);"
        "CREATE MATERIALIZED VIEW w AS SELECT window(ts, '10 seconds').start AS s, SUM(n) AS n"
        " FROM e GROUP BY window(ts, '10 seconds') EMIT AFTER WATERMARK"
    )
    db.execute("INSERT INTO e VALUES (1, TIMESTAMP '2026-01-01 00:00:01')")
    db.step()
    kept = db.checkpoint()
    for _ in range(2):
        # Both times the first window is still open, and closes once.
        db.execute(
            "INSERT INTO e VALUES (2, TIMESTAMP '2026-01-01 00:00:02'),"
            " (4, TIMESTAMP '2026-01-01 00:00:12')"
        )
        db.step()
        assert [row[1] for row in db.sql("SELECT * FROM w").rows()] == [3]
        db.restore(kept)
        assert db.sql("SELECT * FROM w").rows() == []


class Running:
    """A stateful operator: the running total of all rows it has seen."""

    def __init__(self) -> None:
        self.total = 0
        self.restored: list[int] = []

    def process(self, delta: DataFrame, _ctx: object) -> DataFrame:
        before = self.total
        found = delta.selectExpr("COALESCE(SUM(n * __weight), 0) AS n").first()
        assert found is not None
        self.total += found["n"]
        return delta.sparkSession.sql(
            f"SELECT {before}L AS n, -1L AS __weight UNION ALL SELECT {self.total}L, 1L"
        )

    def snapshot(self) -> bytes:
        return str(self.total).encode()

    def restore(self, state: bytes) -> None:
        self.total = int(state)
        self.restored.append(self.total)


def test_operators_get_their_state_back(spark: SparkSession, tmp_path: Path) -> None:
    def dag(operator: Running) -> laminar.StreamingDag:
        builder = DagBuilder().source("t", schema="n BIGINT")
        return builder.operator("total", operator, schema="n BIGINT").connect("t", "total").build()

    operator = Running()
    with laminar.connect(tmp_path, spark=spark) as db:
        db.run(dag(operator))
        db.insert("t", [(1,), (2,)])
        db.step()
        kept = db.checkpoint()
        assert db.engine.work.checkpoints.complete[-1].node_snapshots == {"total": b"3"}
        db.insert("t", [(10,)])
        db.step()
        assert operator.total == 13
        db.restore(kept)
        assert operator.restored[-1] == 3
        db.insert("t", [(4,)])
        db.step()
        assert operator.total == 7
        assert (7,) in db.sql("SELECT n FROM total").rows()
        monkey = durable_files.failpoint
        db.insert("t", [(1,)])

        def crash(point: str) -> None:
            if point == "manifest.before_write":
                raise KeyboardInterrupt

        durable_files.failpoint = crash
        try:
            with pytest.raises(KeyboardInterrupt):
                db.step()
        finally:
            durable_files.failpoint = monkey
    with laminar.connect(tmp_path, spark=spark) as db:
        # The epoch that was cut short waits for the operator.
        assert (db.recovery.replayed, db.recovery.to_replay) == ((), (5,))
        again = Running()
        db.run(dag(again))
        report = db.step()
        assert report is not None
        assert (report.epoch, again.total) == (5, 8)


@pytest.mark.long
def test_damage_is_told_and_repaired(spark: SparkSession, tmp_path: Path) -> None:
    with laminar.connect(tmp_path, spark=spark) as db:
        db.execute(
            "CREATE TABLE t (k STRING, n BIGINT);"
            "CREATE MATERIALIZED VIEW s AS SELECT k, SUM(n) AS n FROM t GROUP BY k;"
            "CREATE MATERIALIZED VIEW c AS SELECT n, COUNT(*) AS m FROM s GROUP BY n"
        )
        for n in range(3):
            db.insert("t", [("a", n), ("b", 1)])
            db.step()
        expected = {name: rows(db, f"SELECT * FROM {name}") for name in "tsc"}
        last = db.engine.ledger.manifest
        report = [db.sql("SELECT epoch, rows_in FROM laminar_system.epochs").rows()]
    table = tmp_path / last.traces["t"].segments[-1].files[0]
    view = next(tmp_path / f for name, t in last.traces.items() if name != "t" for f in t.files)
    view.write_bytes(view.read_bytes()[:-1])
    with pytest.warns(laminar.RecoveryWarning, match="rebuilt: s"):
        db = laminar.connect(tmp_path, spark=spark)
    with db:
        assert db.recovery.rebuilt == ("s",)
        assert {name: rows(db, f"SELECT * FROM {name}") for name in "tsc"} == expected
    table.unlink()
    with pytest.warns(laminar.RecoveryWarning, match="epochs replayed: 3"):
        db = laminar.connect(tmp_path, spark=spark)
    with db:
        assert (db.recovery.epoch, db.recovery.replayed) == (2, (3,))
        assert {name: rows(db, f"SELECT * FROM {name}") for name in "tsc"} == expected
        assert [db.sql("SELECT epoch, rows_in FROM laminar_system.epochs").rows()] == report
    with laminar.connect(tmp_path, spark=spark) as db:
        assert db.recovery.damaged == ()
        first = tmp_path / db.engine.ledger.manifest.traces["t"].segments[0].files[0]
    # The log reaches back to the beginning: even the first segment can be read again.
    first.unlink()
    with pytest.warns(laminar.RecoveryWarning, match="epochs replayed: 1, 2, 3"):
        db = laminar.connect(tmp_path, spark=spark)
    with db:
        assert {name: rows(db, f"SELECT * FROM {name}") for name in "tsc"} == expected
        first = tmp_path / db.engine.ledger.manifest.traces["t"].segments[0].files[0]
    first.unlink()
    (tmp_path / "wal" / "epochs.log").unlink()
    with pytest.raises(laminar.RecoveryFailed, match="LMR-1015"):
        laminar.connect(tmp_path, spark=spark)
