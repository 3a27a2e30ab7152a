"""Readers beside a writer: they see what is committed, and leave no trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import laminar
from laminar.store.wal import WAL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_reader_follows_the_writer(tmp_path: Path, spark: SparkSession) -> None:
    state = tmp_path / "state"
    with pytest.raises(laminar.DatabaseNotFound):
        laminar.connect(state, read_only=True)
    assert not state.exists()
    with laminar.connect(state, spark=spark) as writer:
        writer.execute(
            "CREATE TABLE t (id INT, x INT);"
            "CREATE MATERIALIZED VIEW s AS SELECT id, SUM(x) AS x FROM t GROUP BY id;"
            f"CREATE SINK k FROM s WITH (connector = 'files', path = '{tmp_path}/out')"
        )
        with laminar.connect(state, spark=spark, read_only=True) as reader:
            follower = reader.subscribe("s", timeout=0)
            writer.insert("t", [(1, 1), (2, 2)])
            assert reader.sql("SELECT COUNT(*) FROM t").rows() == [(0,)]
            waiting = "SELECT pending_rows FROM laminar_system.sources"
            assert reader.sql(waiting).rows() == [(2,)]
            writer.step()
            assert sorted(reader.sql("SELECT * FROM s").rows()) == [(1, 1), (2, 2)]
            # Definitions change while it looks on.
            writer.execute(
                "CREATE MATERIALIZED VIEW n AS SELECT id FROM t WHERE x > 1;"
                "CREATE MATERIALIZED VIEW m AS SELECT COUNT(*) AS c FROM n;"
                "PAUSE MATERIALIZED VIEW s"
            )
            writer.insert("t", [(2, 3)])
            writer.step()
            asked = "SELECT (SELECT c FROM m), (SELECT SUM(x) FROM s), (SELECT SUM(x) FROM t)"
            # The newest epoch that all three have: `s` stays at the first.
            assert reader.sql(asked).rows() == [(1, 3, 3)]
            states = "SELECT name, state FROM laminar_system.materialized_views WHERE name = 's'"
            assert reader.sql(states).rows() == [("s", "paused")]
            writer.execute("RESUME MATERIALIZED VIEW s")
            assert reader.sql(asked).rows() == [(2, 6, 6)]
            assert [epoch for epoch, _ in follower] == [1, 3]  # catching up is an epoch of its own
            sinks = "SELECT cursor, lag FROM laminar_system.sinks"
            assert reader.sql(sinks).rows() == [(3, 0)]
            changed = "SELECT COUNT(*) FROM table_changes('s', 1) WHERE id = 2"
            assert reader.sql(changed).rows() == [(3,)]
            before = snapshot(tmp_path)
            (state / WAL).mkdir(exist_ok=True)
            for statement in (
                "INSERT INTO t VALUES (9, 9)", "CREATE TABLE u (id INT)", "DROP SINK k",
                "SET laminar.compaction = off", "CHECKPOINT", "PAUSE MATERIALIZED VIEW m",
            ):  # fmt: skip
                with pytest.raises(laminar.ReadOnlyDatabase):
                    reader.execute(statement)
            with pytest.raises(laminar.ReadOnlyDatabase):
                reader.insert("t", [(9, 9)])
            with pytest.raises(laminar.ReadOnlyDatabase):
                reader.step()
            with pytest.raises(laminar.ReadOnlyDatabase):
                reader.subscribe("s", name="mine")
        assert snapshot(tmp_path) == before


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file under a folder, with its size and the time it was last written."""
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_query_that_is_overtaken_runs_on_a_newer_epoch(
    tmp_path: Path, spark: SparkSession
) -> None:
    state = tmp_path / "state"
    with laminar.connect(state, spark=spark) as writer:
        writer.execute(
            "SET laminar.retained_epochs = 1; SET laminar.compaction_fanout = 2;"
            "CREATE TABLE t (id INT); INSERT INTO t VALUES (0)"
        )
        writer.step()
        with laminar.connect(state, spark=spark, read_only=True) as reader:
            slow = reader.sql("SELECT COUNT(*), SUM(id) FROM t WHERE id < 10")
            past = reader.sql("SELECT id FROM t AS OF EPOCH 1")
            rows = iter(reader.sql("SELECT id FROM t"))
            for row in (1, 2, 3):
                writer.insert("t", [(row,)])
                writer.step()
            writer.engine.settle()
            assert slow.rows() == [(4, 6)]
            assert slow.epoch == 4
            with pytest.raises(laminar.EpochNotFound):
                past.rows()
            assert sorted(rows) == [(0,), (1,), (2,), (3,)]
