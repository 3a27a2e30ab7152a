"""Sinks: every committed epoch reaches them, in order, also after a crash or a pause."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import laminar
from laminar.store import durable_files
from laminar.testing.crashes import Crash

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def changes(folder: Path) -> dict[int, Counter[tuple[Any, ...]]]:
    """Epoch -> what its file says, as a bag of (change, values)."""
    found: dict[int, Counter[tuple[Any, ...]]] = {}
    for path in sorted(folder.iterdir()):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        assert {row["__epoch"] for row in rows} == {int(path.stem)}
        found[int(path.stem)] = Counter(
            (row.pop("__change"), *(value for key, value in row.items() if key != "__epoch"))
            for row in rows
        )
    return found


def total(folder: Path) -> Counter[tuple[Any, ...]]:
    """What is there after all changes."""
    held: Counter[tuple[Any, ...]] = Counter()
    for epoch in changes(folder).values():
        for (change, *values), times in epoch.items():
            held[tuple(values)] += times if change == "insert" else -times
    return +held


def define(db: laminar.Database, folder: Path) -> None:
    db.execute(
        "CREATE TABLE t (id INT, x INT);"
        "CREATE MATERIALIZED VIEW v AS SELECT id, SUM(x) AS x FROM t GROUP BY id;"
        "CREATE MATERIALIZED VIEW w AS SELECT id FROM t WHERE x > 1;"
        "INSERT INTO t VALUES (1, 1), (1, 2), (2, 5)"
    )
    db.step()
    made = db.execute(
        f"CREATE SINK k FROM v WITH (connector = 'files', path = '{folder}/v');"
        f"CREATE SINK l FROM w WITH (connector = 'files', path = '{folder}/w')"
    )
    assert made.rows()[0][0] == "l"
    assert "exactly once" in made.rows()[0][1]


def test_an_epoch_is_a_file(tmp_path: Path, spark: SparkSession) -> None:
    out = tmp_path / "out"
    state = tmp_path / "state"
    with laminar.connect(state, spark=spark) as db:
        define(db, out)
        db.insert("t", [(1, 1), (3, 7), (3, 7)])
        db.step()
        assert changes(out / "v") == {
            1: Counter({("insert", 1, 3): 1, ("insert", 2, 5): 1}),
            2: Counter({("delete", 1, 3): 1, ("insert", 1, 4): 1, ("insert", 3, 14): 1}),
        }
        assert changes(out / "w")[2] == Counter({("insert", 3): 2})
        first = (out / "v" / "000000000002.json").read_text(encoding="utf-8")
        db.insert("t", [(2, -5)])
        db.engine.outputs.sinks.books._held += 1
        db.step()
        # A crash after the commit: the sink has not heard of the last two epochs.
        db.engine.outputs.sinks.books._cursors.advance("k", 1)
    for path in (out / "v").glob("*2.json"):
        path.unlink()
    lag = "SELECT name, cursor, lag FROM laminar_system.sinks ORDER BY name"
    with laminar.connect(state, spark=spark, read_only=True) as reader:
        assert reader.sql(lag).rows() == [("k", 1, 2), ("l", 2, 1)]
    with laminar.connect(state, spark=spark) as db:
        assert db.step() is None
        assert db.sql(lag).rows() == [("k", 3, 0), ("l", 3, 0)]
        again = (out / "v" / "000000000002.json").read_text(encoding="utf-8")
        assert sorted(again.splitlines()) == sorted(first.splitlines())
        assert sorted(changes(out / "v")) == [1, 2, 3]
        # While a view is held its sink waits; then it gets the difference, and nothing is lost.
        db.execute("SET laminar.retained_epochs = 1; PAUSE MATERIALIZED VIEW v")
        for row in [(5, 1), (5, 2), (6, 1)]:
            db.insert("t", [row])
            db.step()
        assert sorted(changes(out / "v")) == [1, 2, 3]
        db.execute("RESUME MATERIALIZED VIEW v")
        assert sorted(changes(out / "v")) == [1, 2, 3, 7]  # catching up is an epoch
        held = {tuple(row): 1 for row in db.sql("SELECT * FROM v").rows()}
        assert total(out / "v") == Counter(held)
        with pytest.raises(laminar.NotSupported, match="sink"):
            db.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT id, x FROM t")
        with pytest.raises(laminar.HasDependents):
            db.execute("DROP MATERIALIZED VIEW v")
        db.execute("ALTER MATERIALIZED VIEW v SET (refresh_policy = 'full'); DROP SINK l")
        db.insert("t", [(6, 1)])
        db.step()
        held = {tuple(row): 1 for row in db.sql("SELECT * FROM v").rows()}
        assert total(out / "v") == Counter(held)
        db.execute("DROP TABLE t CASCADE")
        assert db.execute("SHOW SINKS").rows() == []


def test_other_formats_and_sinks(
    db: laminar.Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken: list[tuple[int, list[tuple[Any, ...]]]] = []
    broken = True

    class Remembering:
        promise = "remembers"

        def write(self, epoch: int, delta: DataFrame) -> None:
            if broken:
                raise ValueError("no room")
            taken.append((epoch, sorted(map(tuple, delta.collect()))))

    laminar.register_sink("remembering", lambda _spec: Remembering())
    db.execute("CREATE TABLE t (id INT, name STRING); INSERT INTO t VALUES (1, 'a,b')")
    db.step()
    with pytest.raises(laminar.ConnectorError, match="m"):
        db.execute("CREATE SINK m FROM t WITH (connector = 'remembering')")
    assert db.execute("SHOW SINKS").rows() == []
    broken = False
    db.execute(
        "CREATE SINK m FROM t WITH (connector = 'remembering');"
        f"CREATE SINK c FROM t WITH (connector = 'files', path = '{tmp_path}/c', format = 'csv');"
        f"CREATE SINK p FROM t WITH (connector = 'files', path = '{tmp_path}/p', format = parquet);"
        "CREATE SINK s FROM t WITH (connector = 'console')"
    )
    # One that fails keeps nothing from the others, and gets its epoch later.
    broken = True
    db.insert("t", [(2, None)])
    report = db.step()
    assert report is not None
    assert {name: each.state for name, each in report.sinks.items()} == {"m": "retrying"}
    assert report.sinks["m"].reason == "no room"
    broken = False
    db.execute("RESUME SINK m")
    assert taken == [(1, [(1, "a,b", 1)]), (2, [(2, None, 1)])]
    with (tmp_path / "c" / "000000000001.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [
            ["id", "name", "__change", "__epoch"],
            ["1", "a,b", "insert", "1"],
        ]
    assert pq.read_table(tmp_path / "p" / "000000000002.parquet").to_pylist() == [
        {"id": 2, "name": None, "__change": "insert", "__epoch": 2}
    ]
    assert "+1  id=2, name=None" in capsys.readouterr().out


def test_a_crash_between_any_two_writes_shows_in_no_sink(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files and a table of SQLite hold every change once, wherever the process ends."""
    state, out, file = tmp_path / "state", tmp_path / "out", tmp_path / "out.db"
    seen: list[str] = []
    crash_at = ""

    def reach(point: str) -> None:
        if point.startswith(("sink", "cursor")):
            seen.append(point)
            if point == crash_at:
                raise Crash(point)

    def epoch(row: int) -> None:
        with laminar.connect(state, spark=spark) as db:
            db.insert("t", [(row % 3, row)])
            report = db.step()
            assert report is not None
            assert bool(report.sinks) == bool(crash_at)

    monkeypatch.setattr(durable_files, "failpoint", reach)
    with laminar.connect(state, spark=spark) as db:
        db.execute(
            "CREATE TABLE t (id INT, x INT);"
            "CREATE MATERIALIZED VIEW s AS SELECT id, SUM(x) AS x FROM t GROUP BY id;"
            "CREATE MATERIALIZED VIEW v AS SELECT id, CAST(SUM(x) AS DECIMAL(9, 1)) AS d,"
            " COLLECT_LIST(x) AS l FROM t GROUP BY id;"
            f"CREATE SINK k FROM s WITH (connector = 'files', path = '{out}');"
            f"CREATE SINK q FROM v WITH (connector = 'sqlite', path = '{file}');"
            f"CREATE SINK a FROM t WITH (connector = 'sqlite', path = '{file}', mode = 'changelog')"
        )
        told = db.sql("SELECT DISTINCT promise FROM laminar_system.sinks").rows()
        assert all(promise.startswith("exactly once") for (promise,) in told)
    seen.clear()
    epoch(1)
    points = sorted(set(seen))
    assert points == [
        "cursor.after_rename", "cursor.after_sync", "cursor.after_write", "cursor.before_rename",
        "cursor.before_write", "sink.after_commit", "sink.after_publish", "sink.after_rename",
        "sink.after_sync", "sink.after_write", "sink.before_commit", "sink.before_publish",
        "sink.before_rename", "sink.before_write",
    ]  # fmt: skip
    if os.environ.get("LAMINAR_TESTS") != "all":
        points = points[1::7]  # all of them in `make test-all`
    for row, point in enumerate(points, 2):
        crash_at = point
        epoch(row)
    crash_at = ""
    epoch(100)
    with laminar.connect(state, spark=spark) as db, sqlite3.connect(file) as target:
        rows = db.sql("SELECT id, CAST(d AS STRING), TO_JSON(l) FROM v").rows()
        found = target.execute("SELECT * FROM v").fetchall()
        assert sorted(found) == sorted(rows)
        made = target.execute("SELECT sql FROM sqlite_master WHERE name = 'v'").fetchone()
        assert 'UNIQUE ("id")' in made[0]
        log = target.execute("SELECT id, x, __change FROM t ORDER BY __epoch, x").fetchall()
        numbers = [*range(1, len(points) + 2), 100]
        assert log == [(row % 3, row, "insert") for row in numbers]
        assert total(out) == Counter(db.sql("SELECT * FROM s").rows())
        assert not [path for path in out.iterdir() if path.name.startswith(".")]
        for again, path in (("files", out), ("sqlite", file)):
            with pytest.raises(laminar.NotSupported, match="second sink"):
                db.execute(f"CREATE SINK z FROM v WITH (connector = {again}, path = '{path}')")
        db.execute("DROP SINK k; DROP SINK q")
        for again, path in (("files", out), ("sqlite", file)):
            with pytest.raises(laminar.BadOption):
                db.execute(f"CREATE SINK z FROM v WITH (connector = {again}, path = '{path}')")
