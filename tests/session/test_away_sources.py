"""Sources that are away: the database opens, says so, goes on without them, takes them back."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar.connectors import source_registry
from laminar.errors import (
    BadOffset,
    BadOption,
    ConnectorError,
    ConnectorHung,
    OptionIsFixed,
    SourceAway,
    SourceReadFailed,
)
from laminar.runtime.catalog.settings import TimeSettings
from laminar.runtime.introspection.status import read_status
from laminar.store import Range
from laminar.testing import ManualClock
from laminar.testing.counted import counts
from laminar.testing.waiting import until

from .moody_source import MOODS, Mood, MoodySource, moody

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    MOODS.clear()
    MOODS.update(a=Mood(), b=Mood())
    yield
    for mood in MOODS.values():
        mood.released.set()


class Site:
    """A folder with two sources, and a clock that is ours."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.root = spark, root
        self.clock = ManualClock(datetime(2026, 1, 1))

    def open(self) -> laminar.Database:
        settings = TimeSettings(clock=self.clock)
        return laminar.connect(self.root, spark=self.spark, settings=settings)


@pytest.fixture
def site(spark: SparkSession, tmp_path: Path) -> Site:
    made = Site(spark, tmp_path / "state")
    with made.open() as db:
        db.execute(moody("a") + ";" + moody("b"))
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM a")
    MOODS["a"].total = MOODS["b"].total = 5
    return made


def state(db: laminar.Database, name: str = "a") -> tuple[Any, ...]:
    query = "SELECT state, reason, attempts, next_try FROM laminar_system.sources WHERE name = :n"
    return tuple(db.sql(query, {"n": name}).rows()[0])


def held(db: laminar.Database, table: str) -> list[int]:
    return sorted(n for (n,) in db.sql(f"SELECT n FROM {table}").rows())


def test_a_constructor_that_fails_leaves_its_source_away(site: Site) -> None:
    MOODS["a"].fail = "constructor"
    with site.open() as db:
        assert state(db)[0] == "away"
        assert "the server is gone" in state(db)[1]
        assert state(db)[2] == 1
        db.drain()
        assert (held(db, "a"), held(db, "b")) == ([], list(range(5)))
        for tries, pause in ((2, 2), (3, 4), (4, 8)):
            site.clock.advance({2: 1, 4: 2, 8: 4}[pause] - 0.001)
            db.step()
            assert state(db)[2] == tries - 1
            site.clock.advance(0.001)
            db.step()
            assert state(db)[2] == tries
        with pytest.raises(SourceAway, match="server is gone"):
            db.execute("RESUME SOURCE a")
        MOODS["a"].fail = ""
        db.execute("RESUME SOURCE a")
        assert state(db) == ("running", None, 0, None)
        db.drain()
        assert held(db, "a") == list(range(5))
        assert db.sql("SELECT n FROM v").rows() == [(5,)]


def test_a_connector_that_this_process_does_not_know(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.delitem(source_registry._FACTORIES.known, "moody")
        with site.open() as db:
            assert "LMR-8001" in state(db)[1]
            assert db.step() is None
            db.execute("DROP SOURCE b")
            assert db.sql("SELECT n FROM v").rows() == [(0,)]
    with site.open() as db:
        db.drain()
        assert held(db, "a") == list(range(5))


def test_an_object_of_python_code_that_nobody_has_handed_in_yet(site: Site) -> None:
    def dag() -> laminar.StreamingDag:
        source = MoodySource(MOODS["a"], 10)
        builder = laminar.DagBuilder().source("o", source, schema="n BIGINT")
        return builder.operator("ov", "SELECT COUNT(*) AS n FROM o").connect("o", "ov").build()

    with site.open() as db:
        db.run(dag())
        db.drain()
    MOODS["b"].total = 9
    with site.open() as db:
        assert state(db, "o")[0] == "away"
        assert "Python" in state(db, "o")[1]
        db.drain()
        assert held(db, "b") == list(range(9))
        db.run(dag())
        assert state(db, "o")[0] == "running"
        db.run(dag())  # another object takes its place
        MOODS["a"].total = 9
        db.drain()
        assert held(db, "o") == list(range(9))


@pytest.mark.parametrize("call", ["latest_offset", "read_arrow"])
def test_a_call_that_hangs_is_left_alone_and_the_others_go_on(site: Site, call: str) -> None:
    mood = MOODS["a"]
    with site.open() as db:
        db.step()
        mood.total = MOODS["b"].total = 10
        mood.hang = call
        db.step()
        assert held(db, "b") == list(range(10))
        assert (state(db)[0], held(db, "a")) == ("away", list(range(5)))
        assert call in state(db)[1]
        called, built = mood.calls, mood.built
        db.step()
        assert (mood.calls, mood.built) == (called, built)  # not due
        mood.hang = ""
        site.clock.advance(1)
        db.drain()  # another object of the connector is built, while the old call is out
        assert mood.built == built + 1
        assert state(db)[0] == db.metrics().sources["a"].state == "running"
        assert db.metrics().hung_calls == {"a": 1}
        assert held(db, "a") == list(range(10))
        assert counts(db)["a"].read == 10
        assert mood.most_at_once == 1
        mood.released.set()
    for _ in range(mood.built):  # the one that hung closes once its call is over
        assert mood.closed.acquire(timeout=30)


def test_a_source_without_a_call_timeout_has_the_one_of_the_settings(site: Site) -> None:
    mood = MOODS.setdefault("c", Mood())
    with site.open() as db:
        db.execute("CREATE SOURCE c (n BIGINT) WITH (connector = 'moody')")
        db.execute("SET laminar.call_timeout_ms = 50")  # also for a connector that is there
        mood.hang = "latest_offset"
        db.step()
        assert state(db, "c")[0] == "away"
        assert "in 0.05 s" in state(db, "c")[1]
        mood.released.set()
        mood.hang = "constructor"
        mood.released.clear()
        with pytest.raises(ConnectorHung, match=r"constructor in 0\.05 s"):
            db.execute("CREATE SOURCE d (n BIGINT) WITH (connector = 'moody', of = 'c')")
        mood.released.set()


def test_a_hung_constructor_is_not_called_again_before_it_returns(site: Site) -> None:
    mood = MOODS["a"]
    mood.hang = "constructor"
    with site.open() as db:
        assert "constructor" in state(db)[1]
        built = mood.built
        for _ in range(3):
            site.clock.advance(100)
            db.step()
        assert (mood.built, state(db)[2]) == (built, 4)
        mood.hang = ""
        mood.released.set()
        site.clock.advance(100)
        db.drain()
        assert (mood.built, held(db, "a")) == (built + 1, list(range(5)))


def test_the_loop_goes_on_without_a_source_that_hangs_and_takes_it_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    with laminar.connect(tmp_path, spark=spark) as db:
        db.execute(moody("a") + ";" + moody("b"))
        seen = threading.Event()
        came, wanted = 0, 5

        def look(report: laminar.EpochReport) -> None:
            nonlocal came
            came += report.rows_in
            if came == wanted:
                seen.set()

        db.on_epoch(look)
        MOODS["a"].hang = "latest_offset"
        MOODS["a"].total = MOODS["b"].total = 5
        db.start()
        assert seen.wait(30)
        assert MOODS["a"].hanging.wait(10)
        seen.clear()
        wanted = 9
        MOODS["b"].total = 9
        assert seen.wait(30)
        until(lambda: db.metrics().loop.error)  # it has missed its deadline
        MOODS["a"].hang = ""
        with pytest.raises(laminar.ConnectorHung):
            db.stop()
        db.execute("RESUME SOURCE a")
        db.drain()
        assert held(db, "a") == list(range(5))


@pytest.mark.parametrize("call", ["latest_offset", "close"])
def test_nothing_waits_for_a_connector_without_an_end(site: Site, call: str) -> None:
    """DROP, RESTORE and close end, while the call never does."""
    mood = MOODS["a"]
    with site.open() as db:
        kept = db.checkpoint()
        db.step()
        mood.hang = call
        mood.total = 20
        db.step()
        db.restore(kept)
        assert held(db, "b") == []
        db.execute("DROP SOURCE a CASCADE")
        db.drain()
        assert held(db, "b") == list(range(5))
    assert not mood.released.is_set()


def test_a_source_is_altered_while_its_poll_hangs(site: Site) -> None:
    mood = MOODS["a"]
    with site.open() as db:
        db.step()
        mood.total, mood.hang = 30, "read_arrow"
        db.step()
        assert state(db)[0] == "away"
        mood.hang = ""
        db.execute("ALTER SOURCE a SET (step = 7, call_timeout = '5 s')")
        assert state(db)[0] == "running"
        db.step()
        assert held(db, "a") == list(range(12))
        mood.released.set()  # the old call comes back, with rows that nobody wants
        db.drain()
        assert held(db, "a") == list(range(30))
        assert counts(db)["a"].read == 30
    with site.open() as db:
        (made,) = db.sql(
            "SELECT options['step'] AS s FROM laminar_system.sources WHERE name = 'a'"
        ).rows()
        assert made == ("7",)
        assert "step = '7'" in db.execute("SHOW CREATE a").rows()[0][0]


def test_what_cannot_be_altered_changes_nothing(site: Site) -> None:
    with site.open() as db:
        db.step()
        before = db.engine.ledger.manifest
        for options, error in (
            ("host = 'elsewhere'", ConnectorError),
            ("seed = 3", OptionIsFixed),
            ("retain = 'used'", OptionIsFixed),
            ("connector = 'files'", OptionIsFixed),
            ("call_timeout = 'soon'", BadOption),
            ("step = 7, max_rows = 0", BadOption),
        ):
            with pytest.raises(error):
                db.execute(f"ALTER SOURCE a SET ({options})")
            assert db.engine.ledger.manifest is before
        MOODS["a"].fail = "latest_offset"
        with pytest.raises(OSError, match="server is gone"):
            db.execute("ALTER SOURCE a SET (step = 2)")
        assert db.engine.ledger.manifest is before
        MOODS["a"].fail = ""
        MOODS["a"].total = 9
        db.drain()
        assert held(db, "a") == list(range(9))


def test_offsets_that_do_not_do_are_refused_and_take_nothing(site: Site) -> None:
    mood = MOODS["a"]
    with site.open() as db:
        db.step()
        for offset in (float("nan"), {1, 2}, object(), 3, -1):
            mood.offsets = [offset]
            with pytest.raises(BadOffset, match='"a"'):
                db.step()
            assert state(db)[0] == "failing"
            assert held(db, "a") == list(range(5))
        mood.offsets = [5]  # where it was: nothing new
        assert db.step() is None
        mood.total = 8
        db.drain()
        assert (held(db, "a"), state(db)[0]) == (list(range(8)), "running")


@pytest.mark.parametrize("call", ["latest_offset", "read_arrow"])
@pytest.mark.parametrize("in_flight", [1, 2])
def test_one_that_cannot_be_read_keeps_the_others_from_nothing(
    site: Site, call: str, in_flight: int
) -> None:
    mood = MOODS["a"]
    with site.open() as db:
        db.execute(f"SET laminar.epochs_in_flight = {in_flight}")
        heard: list[int] = []
        db.on_epoch(lambda report: heard.append(report.epoch))
        mood.fail, MOODS["b"].total = call, 30
        with pytest.raises(SourceReadFailed, match="the server is gone") as found:
            db.step()
        assert isinstance(found.value.__cause__, OSError)
        assert found.value.report.rows_in == 10
        assert heard == [found.value.report.epoch]
        assert (held(db, "a"), held(db, "b")) == ([], list(range(10)))
        with pytest.raises(SourceReadFailed) as found:
            db.drain()
        assert found.value.report.epoch == heard[-1]
        assert held(db, "b") == list(range(30))
        epoch = heard[-1]
        for call_again in (db.step, db.drain):
            with pytest.raises(SourceReadFailed) as found:
                call_again()
            assert found.value.report is None
        MOODS["b"].total = 35
        with pytest.raises(SourceReadFailed):
            db.execute("REFRESH MATERIALIZED VIEW v")
        assert heard == [*range(heard[0], epoch + 2)]
        assert (held(db, "a"), held(db, "b")) == ([], list(range(35)))
        mood.fail = ""
        db.drain()
        assert held(db, "a") == list(range(5))
        assert db.sql("SELECT n FROM v").rows() == [(5,)]


def test_a_source_that_flaps_loses_and_doubles_nothing(site: Site) -> None:
    mood = MOODS["a"]
    with site.open() as db:
        for turn, call in enumerate(["latest_offset", "read_arrow", "", "latest_offset", ""] * 3):
            mood.total += 4
            mood.released.clear()
            mood.hang = call if turn % 2 else ""
            mood.fail = "" if turn % 2 else call
            try:
                db.step()
            except SourceReadFailed:
                assert state(db)[0] == "failing"
            mood.released.set()
            site.clock.advance(120)
        mood.hang = mood.fail = ""
        db.drain()
        assert held(db, "a") == list(range(mood.total))
        assert counts(db)["a"].read == mood.total
        assert mood.most_at_once == 1


def test_an_epoch_that_was_logged_over_a_source_that_is_away(site: Site) -> None:
    with site.open() as db:
        db.engine.ledger.wal.begin(1, [Range("a", None, 5), Range("b", None, 5)])
    MOODS["a"].fail = "constructor"
    with site.open() as db:
        db.drain()
        assert (held(db, "a"), held(db, "b")) == ([], list(range(5)))
        MOODS["a"].fail = ""
        site.clock.advance(1)
        db.drain()
        assert held(db, "a") == list(range(5))
        assert counts(db)["a"].read == 5


def test_a_folder_that_is_unmounted_and_one_that_moves(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    Path("in/1.json").write_text('{"n": 1}\n')
    with laminar.connect("state", spark=spark) as db:
        db.execute(
            "CREATE SOURCE f (n BIGINT) WITH (connector = 'files', path = 'in', format = 'json')"
        )
        db.step()
    os.chdir("/")  # a relative path means the folder that it meant
    with laminar.connect(tmp_path / "state", spark=spark) as db:
        (tmp_path / "in/2.json").write_text('{"n": 2}\n')
        db.step()
        assert held(db, "f") == [1, 2]
    (tmp_path / "in").rename(tmp_path / "moved")
    with laminar.connect(tmp_path / "state", spark=spark) as db:
        assert state(db, "f")[0] == "away"
        assert db.step() is None
        (tmp_path / "other").mkdir()
        for options, error in (
            (f"path = '{tmp_path}/other'", SourceReadFailed),
            ("format = 'csv'", OptionIsFixed),
        ):
            with pytest.raises(error):
                db.execute(f"ALTER SOURCE f SET ({options})")
        db.execute(f"ALTER SOURCE f SET (path = '{tmp_path}/moved')")
        (tmp_path / "moved/3.json").write_text('{"n": 3}\n')
        db.drain()
        assert held(db, "f") == [1, 2, 3]


def test_who_reads_the_folder_is_told_what_does_not_run(site: Site) -> None:
    def told() -> dict[str, tuple[str, str | None]]:
        found = {e.name: e for e in read_status(site.root).relations}
        return {name: (found[name].state, found[name].state_reason) for name in ("a", "b")}

    MOODS["a"].fail = "constructor"
    with site.open() as db:
        assert told()["a"][0] == "away"
        assert told()["a"][1] == "LMR-1012; laminar_system.sources says more"
        assert told()["b"] == ("running", None)
        MOODS["a"].fail = "latest_offset"
        site.clock.advance(1)
        with pytest.raises(SourceReadFailed, match="gone"):
            db.step()
        assert told()["a"][0] == state(db)[0] == "failing"
        with laminar.connect(site.root, spark=site.spark, read_only=True) as reader:
            assert state(reader)[:3] == ("failing", "OSError: latest_offset: the server is gone", 1)
        MOODS["a"].fail = ""
        db.step()
        assert told() == {"a": ("running", None), "b": ("running", None)}
        MOODS["a"].hang = "latest_offset"  # the status asks connectors, too: it has an end
    assert told()["a"] == ("running", None)


@pytest.mark.long
def test_a_process_with_a_connector_that_never_returns_can_exit(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import sys, threading
        from tests_path import moody, MOODS, Mood
        import laminar
        MOODS["a"] = Mood()
        db = laminar.connect(sys.argv[1], master="local[1]")
        db.execute(moody("a"))
        MOODS["a"].hang = "latest_offset"
        db.step()
        db.start()
        print("left", flush=True)
    """).replace("tests_path", "moody_source")
    folder = Path(__file__).parent
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "state")],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, b"left"), done.stderr.decode()[-2000:]
