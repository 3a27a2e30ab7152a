"""ALTER, PAUSE, RESUME SINK, and a database with sinks that hang, fail or are away."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar.cli.output import Format
from laminar.cli.scripts import run_script
from laminar.runtime.introspection.status import read_status
from laminar.sql import parse_script
from laminar.testing.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PATIENCE = 60.0
WHERE = (
    "SELECT state, reason, epoch, lag_epochs, attempts FROM laminar_system.sinks WHERE name = '{}'"
)


def total(folder: Path) -> Counter[Any]:
    """What the files of a sink add up to."""
    held: Counter[Any] = Counter()
    for path in sorted(folder.glob("[0-9]*")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            held[row["n"]] += 1 if row["__change"] == "insert" else -1
    return +held


def add(db: laminar.Database, *numbers: int) -> laminar.EpochReport:
    db.insert("t", [(each,) for each in numbers])
    report = db.step()
    assert report is not None
    return report


def state(db: laminar.Database, name: str = "k") -> tuple[Any, ...]:
    (found,) = db.sql(WHERE.format(name)).rows()
    return tuple(found)


@pytest.fixture
def table(db: laminar.Database) -> laminar.Database:
    db.execute("CREATE TABLE t (n BIGINT)")
    return db


def test_a_sink_that_is_altered_goes_on_or_starts_at_its_new_place(
    table: laminar.Database, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    add(table, 1)
    table.execute(f"CREATE SINK k FROM t WITH (connector = 'files', path = '{first}')")
    point = table.checkpoint()
    add(table, 2)
    # The same place: it goes on, in another format.
    table.execute("ALTER SINK k SET (format = 'csv', max_lag_epochs = 5)")
    add(table, 3)
    assert sorted(path.name for path in first.iterdir()) == [
        "000000000001.json", "000000000002.json", "000000000003.csv",
    ]  # fmt: skip
    assert dict(table.sql("SELECT options FROM laminar_system.sinks").rows()[0][0]) == {
        "path": str(first), "format": "csv", "max_lag_epochs": "5",
    }  # fmt: skip
    (shown,) = table.execute("SHOW CREATE SINK k").rows()[0]
    assert shown == (
        f"CREATE SINK k FROM t WITH (connector = 'files', path = '{first}', format = 'csv',"
        " max_lag_epochs = '5')"
    )
    # Another place: it starts there with all rows.
    table.execute(f"ALTER SINK k SET (path = '{second}', format = 'json')")
    assert total(second) == Counter([1, 2, 3])
    add(table, 4)
    assert total(second) == Counter([1, 2, 3, 4])
    facts = dict(table.execute("DESCRIBE SINK k").rows())
    assert (facts["state"], facts["epoch"], facts["lag_epochs"]) == ("running", "4", "0")
    # Going back does not undo it: it is told what changes there where it writes now.
    table.restore(point)
    assert total(second) == Counter([1])
    assert len(list(first.iterdir())) == 3


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("formt = 'csv'", laminar.UnknownOption),
        ("format = 'xml'", laminar.BadOption),
        ("on_lag = 'forget'", laminar.BadOption),
        ("max_lag_epochs = 0, on_lag = 'hold'", laminar.BadOption),
        ("connector = 'console'", laminar.NotSupported),
        ("path = '{taken}'", laminar.BadOption),
        ("path = '{other}'", laminar.NotSupported),
    ],
)
def test_options_that_are_refused_leave_all_as_it_was(
    table: laminar.Database, tmp_path: Path, options: str, error: type[laminar.LaminarError]
) -> None:
    out, taken, other = tmp_path / "out", tmp_path / "taken", tmp_path / "other"
    taken.mkdir()
    (taken / "000000000001.json").touch()
    table.execute(
        f"CREATE SINK k FROM t WITH (connector = 'files', path = '{out}');"
        f"CREATE SINK o FROM t WITH (connector = 'files', path = '{other}')"
    )
    before = table.engine.ledger.manifest
    with pytest.raises(error):
        table.execute(f"ALTER SINK k SET ({options.format(taken=taken, other=other)})")
    assert table.engine.ledger.manifest is before
    add(table, 1)
    assert total(out) == total(other) == Counter([1])


def test_how_a_place_is_filled_stays(table: laminar.Database, tmp_path: Path) -> None:
    file = tmp_path / "out.db"
    add(table, 1)
    table.execute(f"CREATE SINK k FROM t WITH (connector = 'sqlite', path = '{file}')")
    with pytest.raises(laminar.NotSupported, match="altering how"):
        table.execute("ALTER SINK k SET (mode = 'changelog')")
    table.execute("ALTER SINK k SET (mode = 'changelog', table = 'log')")
    add(table, 2)
    with sqlite3.connect(file) as target:
        assert target.execute("SELECT n FROM t").fetchall() == [(1,)]
        assert target.execute("SELECT n, __epoch FROM log").fetchall() == [(1, 1), (2, 2)]


def test_names_that_are_no_sinks(table: laminar.Database) -> None:
    for statement in ("PAUSE SINK t", "RESUME SINK nope", "ALTER SINK t SET (a = 1)"):
        with pytest.raises(laminar.UnknownRelation):
            table.execute(statement)


class Sink:
    """Notes what it is given; waits, or raises, where it is told to."""

    def __init__(self) -> None:
        self.taken: list[tuple[int, list[Any]]] = []
        self.stuck_in = ""
        self.fails: BaseException | None = None
        self.entered, self.may_go_on = threading.Event(), threading.Event()
        self.closed = 0

    def reach(self, where: str) -> None:
        if self.stuck_in == where:
            self.entered.set()
            assert self.may_go_on.wait(PATIENCE)

    def begin(self) -> None:
        self.reach("begin")

    def write(self, epoch: int, delta: DataFrame) -> None:
        self.reach("write")
        if self.fails is not None:
            raise self.fails
        self.taken.append((epoch, sorted(row[0] or 0 for row in delta.collect())))

    def close(self) -> None:
        self.reach("close")
        self.closed += 1


@pytest.fixture
def stuck() -> Iterator[Sink]:
    made = Sink()
    laminar.register_sink("stuck", lambda _spec: made)
    yield made
    made.may_go_on.set()


@pytest.fixture
def piped(
    table: laminar.Database,
    stuck: Sink,  # noqa: ARG001 - registers its connector
    tmp_path: Path,
) -> laminar.Database:
    """A database with a sink that may get stuck, and one that does not."""
    table.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT SUM(n) AS n FROM t;"
        "CREATE SINK k FROM t WITH (connector = 'stuck');"
        f"CREATE SINK well FROM t WITH (connector = 'files', path = '{tmp_path}/well')"
    )
    return table


def test_nothing_waits_for_a_sink_that_hangs(
    piped: laminar.Database, stuck: Sink, tmp_path: Path
) -> None:
    point = piped.checkpoint()
    stuck.stuck_in = "write"
    piped.execute("SET laminar.sink_wait_ms = 10; SET laminar.sink_timeout_ms = 10")
    assert set(add(piped, 1).sinks) >= {"k"}
    assert stuck.entered.wait(PATIENCE)
    piped.execute(
        "SET laminar.sink_wait_ms = 60000;"
        "CREATE MATERIALIZED VIEW w AS SELECT n * 2 AS n FROM t; DROP MATERIALIZED VIEW w;"
        "ALTER MATERIALIZED VIEW v SET (refresh_policy = 'full');"  # no sink hears of it
        f"CREATE SINK o FROM t WITH (connector = 'files', path = '{tmp_path}/o')"
    )
    piped.checkpoint()
    report = add(piped, 2)
    assert list(report.sinks) == ["k"]
    assert total(tmp_path / "well") == total(tmp_path / "o") == Counter([1, 2])
    piped.restore(point)
    assert total(tmp_path / "well") == Counter()
    add(piped, 3)
    assert total(tmp_path / "well") == Counter([3])
    assert state(piped)[3] == 4
    piped.execute("DROP SINK k")
    assert stuck.closed == 0
    stuck.may_go_on.set()
    until(lambda: stuck.closed)


def test_what_it_missed_comes_to_it_across_a_restore(piped: laminar.Database, stuck: Sink) -> None:
    add(piped, 1)
    point = piped.checkpoint()
    stuck.fails = OSError("refused")
    add(piped, 2)
    piped.restore(point)
    add(piped, 3)
    stuck.fails = None
    piped.execute("RESUME SINK k")
    assert stuck.taken == [(1, [1]), (2, [2]), (3, [2]), (4, [3])]


def test_a_view_is_not_rebuilt_under_a_sink_that_is_behind(
    piped: laminar.Database, stuck: Sink
) -> None:
    piped.execute("CREATE SINK s FROM v WITH (connector = 'stuck')")
    stuck.fails = OSError("refused")
    add(piped, 1)
    rebuild = "ALTER MATERIALIZED VIEW v SET (refresh_policy = 'full')"
    with pytest.raises(laminar.SinkBehind, match='"s"') as found:
        piped.execute(rebuild)
    assert "refused" in found.value.detail
    stuck.fails = None
    piped.execute(f"RESUME SINK s; {rebuild}")
    stuck.taken.clear()
    add(piped, 2)
    assert (2, [1, 3]) in stuck.taken


@pytest.mark.parametrize("where", ["begin", "write"])
def test_creating_a_sink_that_hangs_comes_back(
    table: laminar.Database, stuck: Sink, where: str
) -> None:
    add(table, 1)
    stuck.stuck_in = where
    table.execute("SET laminar.sink_wait_ms = 10; SET laminar.sink_timeout_ms = 10")
    create = "CREATE SINK k FROM t WITH (connector = 'stuck')"
    if where == "begin":
        with pytest.raises(laminar.ConnectorError, match="k"):
            table.execute(create)
        assert table.execute("SHOW SINKS").rows() == []
    else:
        table.execute(create)
        assert state(table)[3] == 1
        stuck.may_go_on.set()
        until(lambda: stuck.taken == [(1, [1])])


def test_a_sink_that_cannot_be_reached_is_away_and_can_be_altered(
    tmp_path: Path, spark: SparkSession
) -> None:
    out, folder = tmp_path / "out", tmp_path / "state"
    with laminar.connect(folder, spark=spark) as db:
        db.execute("CREATE TABLE t (n BIGINT); SET laminar.sink_backoff_ms = 3600000;")
        for name in ("k", "l", "m"):
            db.execute(
                f"CREATE SINK {name} FROM t WITH (connector = 'files', path = '{out}/{name}')"
            )
        add(db, 1)
    moved = out.rename(tmp_path / "elsewhere")
    out.touch()
    with laminar.connect(folder, spark=spark) as db:
        report = add(db, 2)
        until(lambda: all(state(db, name)[0] == "away" for name in ("k", "l", "m")))
        assert "path" in str(state(db)[1])
        assert set(report.sinks) == {"k", "l", "m"}
        shown = {each.name: each.state for each in read_status(folder).sinks}
        assert shown == {"k": "away", "l": "away", "m": "away"}
        with laminar.connect(folder, spark=spark, read_only=True) as reader:
            assert state(reader)[0] == "away"
        db.execute(f"DROP SINK l; ALTER SINK m SET (path = '{tmp_path}/new')")
        assert total(tmp_path / "new") == Counter([1, 2])
        out.unlink()
        moved.rename(out)
        db.execute("RESUME SINK k")
        assert total(out / "k") == Counter([1, 2])
        assert state(db) == ("running", None, 2, 0, 0)


def test_a_pause_survives_and_a_bound_is_kept(tmp_path: Path, spark: SparkSession) -> None:
    out, folder = tmp_path / "out", tmp_path / "state"
    with laminar.connect(folder, spark=spark) as db:
        db.execute(
            "CREATE TABLE t (n BIGINT); SET laminar.retained_epochs = 1;"
            f"CREATE SINK k FROM t WITH (connector = 'files', path = '{out}', max_lag_epochs = 3)"
        )
        add(db, 1)
        db.execute("PAUSE SINK k")
        add(db, 2)
    with laminar.connect(folder, spark=spark) as db:
        add(db, 3)
        assert (state(db)[0], total(out)) == ("paused", Counter([1]))
        for number in range(4, 10):
            add(db, number)
        assert state(db)[0] == "suspended"
        assert db.metrics().sinks["k"].state == "suspended"
    with laminar.connect(folder, spark=spark) as db:
        assert state(db)[0] == "suspended"
        db.execute("RESUME SINK k")
        assert total(out) == Counter(range(1, 10))
        # The epoch after its last one as it was, and what it had missed as one change.
        assert sorted(path.stem[-2:] for path in out.iterdir())[:2] == ["01", "02"]
        assert len(list(out.iterdir())) < 6


def test_epochs_wait_for_a_sink_that_holds_them(piped: laminar.Database, stuck: Sink) -> None:
    piped.execute(
        "ALTER SINK k SET (max_lag_epochs = 2, on_lag = 'hold');"
        "SET laminar.sink_backoff_ms = 3600000; SET laminar.sink_backoff_most_ms = 3600000"
    )
    stuck.fails = OSError("refused")
    add(piped, 1)
    add(piped, 2)
    piped.insert("t", [(3,)])
    with pytest.raises(laminar.SinkHolds, match="k"):
        piped.step()
    assert piped.engine.ledger.epoch == 2
    piped.start()
    piped.insert("t", [(4,)])
    assert piped.metrics().loop.running
    stuck.fails = None
    piped.execute("RESUME SINK k")
    until(lambda: sorted(row for _, rows in stuck.taken for row in rows) == [1, 2, 3, 4])
    piped.stop()


def test_the_loop_waits_for_no_sink(piped: laminar.Database, stuck: Sink, tmp_path: Path) -> None:
    stuck.stuck_in = "write"
    piped.start()
    for number in range(1, 6):
        piped.insert("t", [(number,)])
        until(lambda: piped.sql("SELECT COUNT(*) FROM t").rows() == [(number,)])  # noqa: B023
    until(lambda: total(tmp_path / "well") == Counter(range(1, 6)))
    piped.stop()
    assert stuck.taken == []


def test_a_script_waits_for_its_sinks_at_the_end(
    table: laminar.Database, stuck: Sink, capsys: pytest.CaptureFixture[str]
) -> None:
    script = parse_script(
        "SET laminar.sink_wait_ms = 0;"
        "CREATE SINK k FROM t WITH (connector = 'stuck'); INSERT INTO t VALUES (1)"
    )
    run_script(table, script, Format.TABLE)
    assert stuck.taken == [(1, [1])]
    assert "idle at epoch 1" in capsys.readouterr().out
    stuck.fails = OSError("refused")
    with pytest.raises(laminar.ConnectorError, match="k") as found:
        run_script(table, parse_script("INSERT INTO t VALUES (2)"), Format.TABLE)
    assert found.value.detail == "refused"


EXIT = """
import sys, threading, laminar
called = threading.Event()
class Stuck:
    def {where}(self, *_):
        threading.Event().wait()
    def write(self, *_):
        called.set()
        {then}
laminar.register_sink("stuck", lambda _spec: Stuck())
db = laminar.connect(sys.argv[1])
db.execute("SET laminar.sink_wait_ms = 50; CREATE TABLE t (n BIGINT)")
db.execute("CREATE SINK k FROM t WITH (connector = 'stuck'); INSERT INTO t VALUES (1)")
db.step()
assert called.wait(60)
db.close()
print("over")
"""


@pytest.mark.long
@pytest.mark.parametrize("where", ["write", "close"])
def test_a_process_ends_whose_sink_hangs(tmp_path: Path, where: str) -> None:
    script = EXIT.format(
        where=where, then="threading.Event().wait()" if where == "write" else "pass"
    )
    found = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "state")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (found.returncode, found.stdout.strip()) == (0, "over"), found.stderr
    assert 'closed without sink "k"' in found.stderr


def test_relative_paths_of_sinks_mean_the_same_from_everywhere(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for each in (here, there):
        each.mkdir()
    monkeypatch.chdir(here)
    with laminar.connect(tmp_path / "state", spark=spark) as db:
        db.execute("CREATE TABLE t (n INT); CREATE MATERIALIZED VIEW v AS SELECT n FROM t")
        db.execute("CREATE SINK k FROM v WITH (connector = 'files', path = 'out')")
        db.execute("CREATE SINK l FROM v WITH (connector = 'sqlite', path = 'b.db', table = 't')")
        add(db, 1)
        assert f"path = '{here / 'out'}'" in str(db.execute("SHOW CREATE k").rows())
    monkeypatch.chdir(there)
    with laminar.connect(tmp_path / "state", spark=spark) as db:
        add(db, 2)
        db.execute("ALTER SINK k SET (format = 'csv')")  # the folder is not said again
    assert total(here / "out") == Counter([1, 2])
    assert list(there.iterdir()) == []
