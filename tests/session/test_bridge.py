"""The way in, on the live path: bridges, strategies, the loop in the background."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar.dag import DagNode
from laminar.runtime.catalog.settings import TimeSettings
from laminar.runtime.epoch.flight import DeltaNotice
from laminar.runtime.epoch.node_task import EpochTask
from laminar.runtime.ingest.connector_inlet import SourceInlet
from laminar.testing import ManualClock
from laminar.testing.waiting import until

from .numbers_source import MADE, declared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def counted(db: laminar.Database, name: str, source: str) -> float:
    found = db.sql(
        f"SELECT value FROM laminar_system.metrics WHERE name = '{name}' AND node = '{source}'"
    )
    return float(found.rows()[0][0])


def pause(seconds: float) -> bool:
    return threading.Event().wait(seconds)


def until_reported(db: laminar.Database) -> None:
    """Call until a call raises what the loop has met."""
    while not pause(0.005):
        db.insert("t", [])


def test_options_of_the_way_in_are_checked(db: laminar.Database) -> None:
    bad = {
        "backpressure = 'wait'": "pause, drop, spill",
        "max_spill_bytes = 5": "max_spill_bytes",
        "backpressure = 'spill', max_spill_bytes = 0": "1 or more",
        "max_rows = 0": "1 or more",
        "max_latency = 'soon'": "duration",
        "max_drift = '1 minute'": "max_drift",
        "bufer_rows = 5": "bufer_rows",
        "retain = 'some'": "all, used",
        "poll_interval = '1s'": "poll_interval",
        "idle_timeout = '1s'": "no watermark",
        "watermark_alignment_group = 'g'": "no watermark",
    }
    for options, told in bad.items():
        with pytest.raises(laminar.LaminarError, match=told):
            db.execute(f"CREATE SOURCE s (n BIGINT) WITH ({options})")
    with pytest.raises(laminar.NotSupported, match="without a connector"):
        db.execute("CREATE TABLE s (n BIGINT) WITH (max_rows = 5)")
    with pytest.raises(laminar.NotSupported, match="retain"):
        db.execute("CREATE SOURCE s (n BIGINT, PRIMARY KEY (n)) WITH (retain = 'used')")
    assert db.topology().nodes == {}


def test_rows_that_are_pushed_meet_the_bound_of_their_source(db: laminar.Database) -> None:
    db.execute(
        "CREATE SOURCE p (n BIGINT) WITH (backpressure = 'pause', buffer_rows = 10);"
        "CREATE SOURCE d (n BIGINT) WITH (backpressure = 'drop', buffer_rows = 10);"
        "CREATE MATERIALIZED VIEW v AS SELECT 'p' AS s, n FROM p UNION ALL SELECT 'd', n FROM d"
    )
    rows = [(n,) for n in range(8)]
    assert db.insert("p", rows) == db.insert("d", rows) == 8
    with pytest.raises(laminar.Backpressure, match='"p" is full'):
        db.insert("p", rows)
    assert db.insert("d", rows) == 0
    assert db.step() is not None
    assert db.insert("p", rows) == 8  # there is room again
    db.step()
    assert sorted(db.sql("SELECT s, COUNT(*) FROM v GROUP BY s").rows()) == [("d", 8), ("p", 16)]
    policy = laminar.BatchPolicy(max_rows=7)
    db.configure_source("d", policy=policy, backpressure=laminar.SpillToDisk(5_000))
    assert db.insert("d", rows * 3) == 24
    assert db.engine.work.inlets.ways.of("d").options.policy == policy
    (told,) = db.execute("SHOW CREATE d").rows()[0][-1:]
    assert "backpressure = 'spill'" in told
    assert "max_spill_bytes = '5000'" in told
    db.configure_source("d", backpressure=laminar.DropNewest())
    assert db.insert("d", rows) == 0
    assert counted(db, "bridge_dropped", "d") == 8
    assert db.metrics().bridges["p"].sent == 16


def test_epochs_in_the_background(db: laminar.Database) -> None:
    """A flood, a silent source and pushed rows, side by side; nothing is lost or starved."""
    db.execute(
        declared("flood", total=3_000, per_poll=50, max_rows=500, buffer_rows=600)
        + ";"
        + declared("silent", total=0)
        + ";"
        + declared("spilling", total=800, backpressure="spill", buffer_rows=100, max_rows=400)
        + ";CREATE TABLE t (n BIGINT);"
        "CREATE MATERIALIZED VIEW f AS SELECT k, COUNT(*) AS c, SUM(n) AS s FROM flood GROUP BY k;"
        "CREATE MATERIALIZED VIEW g AS SELECT COUNT(*) AS c, SUM(n) AS s FROM spilling;"
        "CREATE MATERIALIZED VIEW h AS SELECT n FROM t UNION ALL SELECT n FROM silent"
    )
    reports: list[laminar.EpochReport] = []
    all_in = threading.Event()

    flooded: list[int] = []

    def watch(report: laminar.EpochReport) -> None:
        reports.append(report)
        if not flooded:
            # Epochs stand still here: only the bridge may tell the source, and memory is bounded.
            inlet = db.engine.work.inlets.ways.of("flood")
            until(lambda: inlet.bridge.is_paused)
            flooded.append(inlet.counters.waiting)
        if sum(each.rows_in for each in reports) >= 3_804:
            all_in.set()
        if report.epoch == 1:
            raise ValueError("a listener of its own mind")

    db.on_epoch(watch)
    db.insert("t", [(1,), (2,)])
    db.start()
    db.start()
    with pytest.raises(ValueError, match="of its own mind"):
        until_reported(db)  # by the next call, once
    db.insert("t", [(3,), (4,)])
    assert all_in.wait(60)
    db.stop()
    assert max(each.rows_in for each in reports) <= 500 + 400 + 4
    assert flooded[0] <= 600
    assert db.sql("SELECT SUM(c), SUM(s) FROM f").rows() == [(3_000, 3_000 * 2_999 // 2)]
    assert db.sql("SELECT c, s FROM g").rows() == [(800, 800 * 799 // 2)]
    assert sorted(db.sql("SELECT n FROM h").rows()) == [(1,), (2,), (3,), (4,)]
    loop = db.metrics().loop
    assert (loop.running, loop.epochs, loop.error) == (False, len(reports), None)
    assert db.metrics().bridges["flood"].waiting == 0
    assert list(db.path.rglob("*.spill")) == []

    # A source that fails is told of while others go on, and mends by itself.
    MADE["silent"].broken = "the network is gone"
    db.start()
    with pytest.raises(laminar.SourceReadFailed, match="the network is gone"):
        until_reported(db)
    MADE["silent"].broken = ""
    MADE["silent"].total = 1
    assert "silent" in db.metrics().bridges
    more = threading.Event()
    db.on_epoch(lambda _report: more.set())
    assert more.wait(60)
    db.stop()
    assert sorted(db.sql("SELECT n FROM h").rows()) == [(0,), (1,), (2,), (3,), (4,)]


def test_a_slow_view_reaches_back_to_the_source_through_the_bridge(
    db: laminar.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its input's buffer fills, then no epoch begins, then the bridge fills, then nobody polls."""
    gate = threading.Event()
    run = EpochTask.run

    def slow(task: EpochTask, node: DagNode, inputs: list[DeltaNotice]) -> DeltaNotice | None:
        if node.name == "b":
            assert gate.wait(60)
        return run(task, node, inputs)

    monkeypatch.setattr(EpochTask, "run", slow)
    db.execute(
        "SET laminar.epochs_in_flight = 6;"
        + declared("flood", total=1_000, per_poll=50, max_rows=50, buffer_rows=300)
        + ";CREATE TABLE t (n BIGINT);"
        "CREATE MATERIALIZED VIEW m AS SELECT n, k FROM flood WHERE n >= 0;"
        "CREATE MATERIALIZED VIEW a AS SELECT COUNT(*) AS c, SUM(n) AS s FROM m;"
        "CREATE MATERIALIZED VIEW b AS SELECT COUNT(*) AS c, SUM(n) AS s FROM m WHERE k >= 0;"
        "CREATE MATERIALIZED VIEW h AS SELECT n FROM t"
    )
    source = MADE["flood"]
    taken = 0

    def bridge() -> laminar.PipelineBridge:
        return db.engine.work.inlets.ways.of("flood").bridge

    def committed(report: laminar.EpochReport) -> None:
        nonlocal taken
        taken += report.rows_in
        if report.epoch == 1:  # epochs stand still until there is more than they can carry
            until(lambda: bridge().is_paused)

    db.on_epoch(committed)
    db.insert("t", [(1,)])
    db.start()
    until(lambda: db.metrics().backpressure_waits > 0)
    until(lambda: bridge().is_paused)
    assert not pause(0.2)  # time to read more, if anything let it
    assert bridge().counters.waiting <= 300
    # Six epochs, a batch that is ready, the bridge, and a poll that found no room.
    assert source.read_to <= 6 * 50 + 50 + 300 + 50
    assert taken <= 1 + 50
    gate.set()
    until(lambda: taken == 1_001)
    expected = (1_000, 1_000 * 999 // 2)
    assert db.sql("SELECT a.c, a.s, b.c, b.s FROM a, b").rows() == [expected * 2]

    # A view that is held keeps nobody waiting: what it has missed lies in the source's segments.
    db.execute("PAUSE MATERIALIZED VIEW b")
    source.total = 1_100
    until(lambda: taken == 1_101)
    assert bridge().counters.waiting == 0
    assert db.sql("SELECT c FROM a").rows() == [(1_100,)]
    assert db.sql("SELECT c FROM b").rows() == [(1_000,)]
    db.execute("RESUME MATERIALIZED VIEW b")
    assert db.sql("SELECT c, s FROM b").rows() == [(1_100, 1_100 * 1_099 // 2)]
    db.stop()


def test_a_batch_that_comes_while_an_epoch_runs_does_not_wait_for_it(
    db: laminar.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    run = EpochTask.run

    def slow(task: EpochTask, node: DagNode, inputs: list[DeltaNotice]) -> DeltaNotice | None:
        assert gate.wait(60)
        return run(task, node, inputs)

    monkeypatch.setattr(EpochTask, "run", slow)
    db.execute(
        "SET laminar.epochs_in_flight = 3;"
        + declared("s", total=10, per_poll=10, max_rows=10)
        + ";CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS c FROM s"
    )
    db.start()
    for number in (1, 2, 3):
        until(lambda: db.metrics().most_in_flight == number)  # noqa: B023 - at once
        MADE["s"].total += 10
    gate.set()
    until(lambda: db.sql("SELECT c FROM v").rows() == [(40,)])
    db.stop()


def test_an_epoch_that_fails_in_the_background_loses_nothing(
    db: laminar.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laminar.runtime.engine.background_loop._FIRST_PAUSE", 0.0)
    db.execute(
        declared("s", total=20) + ";CREATE TABLE t (n BIGINT);"
        "CREATE MATERIALIZED VIEW v AS SELECT CAST(note AS BIGINT) AS x FROM s WHERE n >= 10"
    )
    db.start()
    with pytest.raises(laminar.LaminarError, match="note 10"):
        until_reported(db)
    with contextlib.suppress(laminar.LaminarError):
        db.stop()
    db.execute("DROP MATERIALIZED VIEW v; CREATE MATERIALIZED VIEW v AS SELECT SUM(n) AS s FROM s")
    db.drain()
    assert db.sql("SELECT s FROM v").rows() == [(190,)]


KILLED = """
import sys, time
sys.path.insert(0, sys.argv[2])
import numbers_source
import laminar

db = laminar.connect(sys.argv[1], master="local[2]")
options = dict(per_poll=50, max_rows=50, buffer_rows=100, backpressure="spill")
db.execute(numbers_source.declared("s", total=3000, **options))
db.execute("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS c, SUM(n) AS s FROM s")
db.start()
while db.metrics().epoch < 2 or db.metrics().bridges["s"].spilled < 1000:
    time.sleep(0.01)
print(db.metrics().epoch, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif("LAMINAR_CRASH" not in os.environ, reason="starts a Spark to kill it")
def test_an_engine_killed_while_it_spills_loses_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its files go on from the last committed epoch; ranges that were in memory are read again."""
    state, here = tmp_path / "state", Path(__file__).parent
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(state), str(here)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    reached = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(list(state.rglob("*.spill"))) > 10
    with laminar.connect(state, spark=spark) as db:
        before = db.sql("SELECT c FROM v").rows()[0][0]
        assert reached * 50 <= before < 3_000
        db.step()
        assert db.metrics().bridges["s"].sent <= 150  # what is on disk was not read again
        db.drain()
        assert db.sql("SELECT c, s FROM v").rows() == [(3_000, 3_000 * 2_999 // 2)]
    assert list(state.rglob("*.spill")) == []


@pytest.mark.long
def test_batches_do_not_show_in_sessions(db: laminar.Database) -> None:
    """A session that spans many batches is shown once, when a watermark has passed it."""
    db.execute(
        declared("s", total=17, per_poll=3, max_rows=3, watermark=True)
        + ";CREATE MATERIALIZED VIEW v AS SELECT SESSION_START(ts, INTERVAL '5' SECOND) AS a,"
        " SESSION_END(ts, INTERVAL '5' SECOND) AS b, COUNT(*) AS c, SUM(n) AS t FROM s"
        " GROUP BY SESSION(ts, INTERVAL '5' SECOND) EMIT AFTER WATERMARK"
    )
    db.drain()
    assert db.metrics().epoch == 6
    assert db.sql("SELECT * FROM v").rows() == []
    db.end_of_stream("s")
    db.step()
    ((start, end, count, total),) = db.sql("SELECT * FROM v").rows()
    assert (start.second, end.second, count, total) == (0, 21, 17, 17 * 16 // 2)
    changes = [row for _, rows in db.subscribe("v", from_epoch=1) for row in rows.dicts()]
    assert [row["__weight"] for row in changes] == [1]


def test_sources_of_a_group_wait_for_the_slowest(spark: SparkSession, tmp_path: Path) -> None:
    clock = ManualClock(datetime(2024, 1, 1))
    settings = TimeSettings(clock=clock)
    with laminar.connect(tmp_path / "s", spark=spark, settings=settings) as db:
        group: dict[str, Any] = {
            "watermark_alignment_group": "g",
            "max_drift": "15 s",
            "watermark": True,
        }
        db.execute(
            declared("fast", total=1_000, per_poll=10, **group)
            + ";"
            + declared("slow", total=5, per_poll=5, idle_timeout="1 minute", **group)
            + ";CREATE MATERIALIZED VIEW v AS SELECT n FROM fast UNION ALL SELECT n FROM slow"
        )
        read = [getattr(db.step(), "rows_in", 0) for _ in range(4)]
        # It is read while it is at most 15 s ahead of the slow one, and then waits.
        assert read == [15, 10, 10, 0]
        fast = db.engine.work.inlets.ways.of("fast")
        assert isinstance(fast, SourceInlet)
        assert fast.bridge.is_paused
        MADE["slow"].total = 20
        # 15 of the slow one, and 10 of the fast one before it is too far ahead again.
        assert sum(getattr(db.step(), "rows_in", 0) for _ in range(4)) == 25
        clock.advance(61)  # the slow one is silent for so long that nobody waits for it
        db.step()
        assert getattr(db.step(), "rows_in", 0) == 10


def test_silence_is_set_by_a_statement(spark: SparkSession, tmp_path: Path) -> None:
    clock = ManualClock(datetime(2024, 1, 1, 1))
    settings = TimeSettings(clock=clock)
    with laminar.connect(tmp_path / "s", spark=spark, settings=settings) as db:
        mark = "ts TIMESTAMP, WATERMARK FOR ts AS ts"
        db.execute(
            f"CREATE SOURCE a ({mark}); CREATE SOURCE b ({mark}) WITH (idle_timeout = '1 hour');"
            f"CREATE SOURCE c ({mark});"
            "CREATE MATERIALIZED VIEW v AS SELECT ts FROM a UNION ALL SELECT ts FROM b;"
            "CREATE MATERIALIZED VIEW w AS SELECT ts FROM a UNION ALL SELECT ts FROM c;"
            "SET laminar.idle_timeout_ms = 60000"
        )
        old, new = datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 0, 30, tzinfo=UTC)
        for name in ("a", "b", "c"):
            db.insert(name, [(old,)])
        db.step()
        clock.advance(120)
        db.insert("a", [(new,)])
        db.step()
        marks = {
            row["name"]: row["watermark"].replace(tzinfo=UTC)
            for row in db.sql("SELECT * FROM laminar_system.watermarks").dicts()
        }
        assert marks["w"] == new  # c was left out after a minute
        assert marks["v"] == old  # b is waited for, an hour long
        db.execute("RESET laminar.idle_timeout_ms")
        assert db.engine.applied_settings.text("idle_timeout_ms") == "0"


def explained(db: laminar.Database) -> str:
    return "\n".join(row[0] for row in db.execute("EXPLAIN DAG").rows())


def test_a_source_keeps_what_its_views_use(db: laminar.Database) -> None:
    db.execute(
        declared("s", total=100, per_poll=40, watermark=True, retain="used")
        + ";CREATE SOURCE p (n BIGINT, note STRING) WITH (retain = 'used')"
    )
    db.insert("p", [(1, "x"), (50, "y"), (None, "z")])
    assert db.step() is None  # nobody reads them yet
    assert "Prefix of s: keeps nothing" in explained(db)
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT n FROM s WHERE n >= 20 AND n < 60 AND n % 2 = 0;"
        "CREATE MATERIALIZED VIEW c AS SELECT COUNT(*) AS c FROM s WHERE k IN (1, 5);"
        "CREATE MATERIALIZED VIEW q AS SELECT n + 1 AS m FROM p WHERE n > 10"
    )
    db.drain()
    assert sorted(row[0] for row in db.sql("SELECT n FROM v").rows()) == list(range(20, 60, 2))
    assert db.sql("SELECT c FROM c").rows() == [(33,)]
    assert db.sql("SELECT m FROM q").rows() == [(51,)]
    # Watermarks saw the rows that nobody wanted: the last one is at 99 seconds.
    (mark,) = db.sql("SELECT watermark FROM laminar_system.watermarks WHERE name = 's'").rows()
    assert mark[0].second == 38
    kept = sum(1 for n in range(100) if 20 <= n < 60 or n % 3 == 1)
    found = db.metrics().prefixes["s"]
    assert (found.rows_in, found.rows_kept) == (100, kept)
    assert counted(db, "prefix_rows_kept", "p") == 1
    assert sum(s.rows for s in db.engine.ledger.manifest.traces["s"].segments) == kept
    told = explained(db)
    assert f"columns pruned: 1, rows in: 100, rows surviving: {kept}" in told
    assert "keeps n, k, ts where ((n >= 20) AND (n < 60)) OR (k IN (1, 5))" in told

    # What is covered may be read by a new view; what was let go may not.
    db.execute("CREATE MATERIALIZED VIEW v2 AS SELECT ts FROM s WHERE k IN (1, 5)")
    assert db.sql("SELECT COUNT(*) FROM v2").rows() == [(33,)]
    for query, wanted in (
        ("SELECT note FROM s WHERE k IN (1, 5)", "note"),
        ("SELECT n FROM s WHERE n > 70", "other rows"),
    ):
        with pytest.raises(laminar.NotRetained, match=wanted):
            db.execute(f"CREATE MATERIALIZED VIEW bad AS {query}")
    with pytest.raises(laminar.NotRetained):
        db.subscribe("s")
    for statement in (
        "SELECT * FROM s",
        "SELECT * FROM table_changes('s', 1)",
        "SELECT * FROM s AS OF EPOCH 1",
        "DELETE FROM p WHERE n = 1",
        "UPDATE p SET n = 1",
        "CREATE SINK k FROM s WITH (connector = 'console')",
    ):
        with pytest.raises(laminar.NotRetained):
            db.execute(statement)
    MADE["s"].total = 103
    db.drain()
    assert db.sql("SELECT c FROM c").rows() == [(34,)]
