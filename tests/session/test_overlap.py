"""Epochs that overlap look from outside as if they had run one after the other."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import laminar
from laminar.store import durable_files
from laminar.testing.crashes import Crash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FILES = 7


def rows_of(number: int) -> list[dict[str, int]]:
    return [{"k": (number * 7 + at) % 5, "v": number * 10 + at} for at in range(6)]


@pytest.fixture
def flowing(db: laminar.Database, tmp_path: Path) -> laminar.Database:
    """Files that wait, a stage two views share, a diamond over it, and compaction all the time."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(FILES):
        lines = "".join(json.dumps(row) + "\n" for row in rows_of(number))
        (folder / f"{number:03d}.json").write_text(lines)
    db.execute(
        f"""
        SET laminar.epochs_in_flight = 3;
        SET laminar.compaction_fanout = 2;
        CREATE SOURCE s (k BIGINT, v BIGINT) WITH (
            connector = 'files', path = '{folder}', format = 'json', max_files_per_batch = '1');
        CREATE MATERIALIZED VIEW sums AS SELECT k, SUM(v) AS total FROM s GROUP BY k;
        CREATE MATERIALIZED VIEW tops AS SELECT k, MAX(v) AS top FROM s GROUP BY k;
        CREATE MATERIALIZED VIEW pairs AS
            SELECT k, total, top FROM sums JOIN tops USING (k);
        CREATE MATERIALIZED VIEW steady AS SELECT SUM(total) AS all_of_it FROM pairs;
        """
    )
    return db


def expected(files: int) -> list[tuple[int, int, int]]:
    rows = [row for number in range(files) for row in rows_of(number)]
    totals: Counter[int] = Counter()
    tops: dict[int, int] = {}
    for row in rows:
        totals[row["k"]] += row["v"]
        tops[row["k"]] = max(row["v"], tops.get(row["k"], row["v"]))
    return sorted((k, totals[k], tops[k]) for k in totals)


def test_every_epoch_is_what_it_would_have_been_alone(flowing: laminar.Database) -> None:
    seen: list[int] = []
    flowing.on_epoch(lambda report: seen.append(report.epoch))
    last = flowing.drain()
    assert last is not None
    assert seen == list(range(1, FILES + 1))
    metrics = flowing.engine.work.executor.metrics
    assert metrics is not None
    assert metrics.most_in_flight == 3
    for epoch in (1, 4, FILES):
        found = flowing.sql("SELECT k, total, top FROM pairs", as_of_epoch=epoch)
        assert sorted(found.rows()) == expected(epoch)
        total = flowing.sql("SELECT all_of_it FROM steady", as_of_epoch=epoch)
        assert total.rows() == [(sum(each[1] for each in expected(epoch)),)]


@pytest.mark.long
def test_a_failure_holds_only_the_view_that_fails(flowing: laminar.Database) -> None:
    poison = rows_of(4)[3]["v"]
    flowing.execute(f"CREATE MATERIALIZED VIEW picky AS SELECT SUM(1 / (v - {poison})) AS q FROM s")
    seen: list[int] = []
    flowing.on_epoch(lambda report: seen.append(report.epoch))
    with pytest.raises(laminar.OperatorError, match="picky"):
        flowing.drain()
    assert seen == list(range(1, len(seen) + 1))
    assert flowing.sql("SELECT q FROM picky").epoch == 4
    read = flowing.sql("SELECT k, total, top FROM pairs, picky")  # both as they were then
    assert (read.epoch, sorted(read.rows())) == (4, expected(4))
    assert sorted(flowing.sql("SELECT k, total, top FROM pairs").rows()) == expected(FILES)


def full_disk(point: str) -> None:
    if point == "manifest.before_write":
        raise OSError(28, "No space left on device")


@pytest.mark.long
@pytest.mark.parametrize("barrier", ["aligned", "unaligned"])
def test_checkpoints_of_epochs_in_the_air(
    flowing: laminar.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, barrier: str
) -> None:
    flowing.execute(
        f"SET laminar.checkpoint_barrier = '{barrier}'; SET laminar.checkpoint_interval_ms = 1;"
        "SET laminar.checkpoint_retained = 50"
    )
    flowing.drain()
    flowing.engine.work.checkpoints.settle()
    assert flowing.engine.work.checkpoints.failed == []
    kept = flowing.engine.work.checkpoints.complete
    assert kept
    chosen = next(each for each in kept if each.epoch < FILES)
    if barrier == "unaligned":
        # It waits for nobody, and keeps the rows that were on their way.
        chosen = max((each for each in kept), key=lambda each: len(each.in_flight))
        assert len(chosen.in_flight) >= 2
        for epoch in chosen.in_flight:
            (tmp_path / "in" / f"{int(epoch) - 1:03d}.json").write_text("")
    flowing.execute("SET laminar.checkpoint_interval_ms = 0")
    flowing.restore(chosen.checkpoint_id)
    query = "SELECT k, total, top FROM pairs"
    assert sorted(flowing.sql(query).rows()) == expected(chosen.epoch)
    if barrier == "unaligned":
        # A checkpoint of what waits keeps it, too; so the way back is there more than once.
        flowing.restore(flowing.checkpoint())
        with monkeypatch.context() as patch:
            patch.setattr(durable_files, "failpoint", full_disk)
            with pytest.raises(laminar.StoreUnwritable):
                flowing.step()
    flowing.drain()
    assert sorted(flowing.sql(query).rows()) == expected(FILES)
    assert not list((tmp_path / "state").glob("in_flight/*/*"))


# Event time and keys: what an epoch makes depends on the watermark and the rows before it

BATCHES = 9
TIMED = (
    *("closed", "hopping", "visits", "late", "late_sums", "total", "plain"),
    *("last", "keyed", "known"),
)


TIMES = (0, 21, 24, 30, 51, 54, 60, 81, 84)
"""When the rows of each epoch were: some epochs close windows, some close none."""


def timed_rows(number: int) -> list[dict[str, object]]:
    """Rows out of order, some of them late, of a file that is an epoch."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    seconds = [TIMES[number] - at % 2 - 20 * (at == 3 and number % 3 == 2) for at in range(5)]
    times = [(start + timedelta(seconds=max(0, each))).isoformat() for each in seconds]
    return [{"k": (number + at) % 3, "v": number * 10 + at, "ts": t} for at, t in enumerate(times)]


def timed(db: laminar.Database, folder: Path, in_flight: int) -> laminar.Database:
    """Windows of every kind, one over another, late rows that are sent on, and compaction."""
    if not folder.exists():
        folder.mkdir()
        for number in range(BATCHES):
            lines = "".join(json.dumps(row) + "\n" for row in timed_rows(number))
            (folder / f"{number:03d}.json").write_text(lines)
    tumble = "TUMBLE(ts, INTERVAL '10' SECOND)"
    hop = "HOP(ts, INTERVAL '5' SECOND, INTERVAL '15' SECOND)"
    session = "SESSION(ts, INTERVAL '4' SECOND)"
    db.execute(
        f"""
        SET laminar.epochs_in_flight = {in_flight};
        SET laminar.compaction_fanout = 2;
        CREATE SOURCE e (k BIGINT, v BIGINT, ts TIMESTAMP,
            WATERMARK FOR ts AS ts - INTERVAL '3' SECONDS) WITH (
            connector = 'files', path = '{folder}', format = 'json', max_files_per_batch = '1');
        CREATE MATERIALIZED VIEW closed AS
            SELECT k, {tumble}.end AS b, COUNT(*) AS n, SUM(v) AS s FROM e GROUP BY k, {tumble}
            EMIT ON WINDOW CLOSE;
        CREATE MATERIALIZED VIEW hopping AS
            SELECT k, {hop}.end AS b, SUM(v) AS s FROM e GROUP BY k, {hop}
            EMIT FINAL ALLOW LATENESS INTERVAL '5' SECOND;
        CREATE MATERIALIZED VIEW visits AS
            SELECT k, {session}.end AS b, SUM(v) AS s FROM e GROUP BY k, {session}
            EMIT AFTER WATERMARK LATE DATA TO late;
        CREATE MATERIALIZED VIEW late_sums AS SELECT k, COUNT(*) AS n FROM late GROUP BY k;
        CREATE MATERIALIZED VIEW total AS
            SELECT TUMBLE(b, INTERVAL '10' SECOND).end AS c, SUM(n) AS n FROM closed
            GROUP BY TUMBLE(b, INTERVAL '10' SECOND) EMIT AFTER WATERMARK;
        CREATE MATERIALIZED VIEW plain AS SELECT k, SUM(v) AS s FROM e GROUP BY k;
        CREATE SOURCE last (k BIGINT, v BIGINT, PRIMARY KEY (k)) WITH (
            connector = 'files', path = '{folder}', format = 'json', max_files_per_batch = '1');
        CREATE MATERIALIZED VIEW keyed AS SELECT k, v FROM last;
        CREATE MATERIALIZED VIEW known AS
            SELECT COUNT(*) AS n, SUM(p.s - l.v) AS s FROM plain p JOIN last l ON p.k = l.k;
        """
    )
    return db


def over(db: laminar.Database) -> None:
    """Take all files, then close all windows."""
    db.drain()
    db.end_of_stream("e")
    db.drain()


def history(db: laminar.Database) -> dict[tuple[str, int], Counter[tuple[object, ...]]]:
    """Return every timed view at every epoch, and the late rows of the end."""
    last = db.engine.ledger.epoch
    found = {
        (name, epoch): Counter(db.sql(f"SELECT * FROM {name}", as_of_epoch=epoch).rows())
        for name in TIMED
        for epoch in range(1, last + 1)
    }
    kept = db.sql("SELECT epoch, relation, `row` FROM laminar_system.late_rows").rows()
    return {**found, ("late rows", last): Counter(kept)}


def in_flight_of(db: laminar.Database) -> int:
    metrics = db.engine.work.executor.metrics
    assert metrics is not None
    return metrics.most_in_flight


@pytest.fixture(scope="module")
def alone(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[object, object]]:
    """The files, and what comes of them with one epoch at a time."""
    root = tmp_path_factory.mktemp("alone")
    with laminar.connect(root / "state", spark=spark) as db:
        over(timed(db, root / "in", 1))
        assert in_flight_of(db) == 1
        return root / "in", told(db)


def told(db: laminar.Database) -> dict[object, object]:
    """Return all that epochs make of event time."""
    found: dict[object, object] = dict(history(db))
    marks = db.sql("SELECT name, watermark FROM laminar_system.watermarks").rows()
    found["watermarks"] = sorted(marks)
    return found


@pytest.mark.long
def test_windows_close_as_they_would_have_alone(
    spark: SparkSession, tmp_path: Path, alone: tuple[Path, dict[object, object]]
) -> None:
    folder, expected = alone
    with laminar.connect(tmp_path, spark=spark) as db:
        over(timed(db, folder, 3))
        assert in_flight_of(db) == 3
        assert db.metrics().late_rows["visits"] > 0
        assert told(db) == expected
    with laminar.connect(tmp_path, spark=spark) as db:
        assert db.drain() is None
    assert expected["late_sums", BATCHES + 1]  # rows were late
    assert expected["total", BATCHES + 1] != expected["total", BATCHES]  # the end closed windows


def crash_at(point: str, nth: int) -> Callable[[str], None]:
    """Crash at the nth time that a point is passed; nothing durable is done after that."""
    left = [nth]

    def reach(at: str) -> None:
        left[0] -= at == point
        if left[0] <= 0:
            raise Crash(at)

    return reach


POINTS = (
    *("segment.after_write", "wal.before_write", "wal.after_sync", "manifest.before_write"),
    *("manifest.before_rename", "manifest.after_rename", "compaction.after_write"),
)


@pytest.mark.parametrize(
    "nth",
    [
        pytest.param(3, marks=pytest.mark.long),
        *(pytest.param(n, marks=pytest.mark.soak) for n in (1, 4)),
    ],
)
@pytest.mark.parametrize("point", POINTS)
def test_a_crash_of_overlapping_epochs_closes_no_window_twice(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    alone: tuple[Path, dict[object, object]],
    point: str,
    nth: int,
) -> None:
    folder, expected = alone
    with laminar.connect(tmp_path / "state", spark=spark) as db:
        timed(db, folder, 3)
        with monkeypatch.context() as patch, suppress(Crash):
            patch.setattr(durable_files, "failpoint", crash_at(point, nth))
            db.drain()
    with laminar.connect(tmp_path / "state", spark=spark) as db:
        over(db)
        assert told(db) == expected
