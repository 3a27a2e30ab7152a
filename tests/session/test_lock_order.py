"""A busy database takes all its locks, and always in the order of docs/locks.md.

Every lock of our modules is replaced by one that remembers what its thread has already.
"""

from __future__ import annotations

import importlib
import runpy
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar import DagBuilder
from laminar.console.folder import Folder
from laminar.runtime.history.turn import WriterTurn

from . import numbers_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PATIENCE = 120.0

_RULES = runpy.run_path(str(Path(__file__).parents[1] / "test_architecture.py"))
ROOT: Path = _RULES["ROOT"]
ORDER: list[str] = _RULES["told_locks"](_RULES["LOCKS_PAGE"].read_text(encoding="utf-8"))


def made_in(place: str) -> dict[int, str]:
    """Return the lines of a module that make locks and turns, and what those are called."""
    source = (ROOT / place).read_text(encoding="utf-8")
    found = _RULES["made_in"](source, place, _RULES["WAITED_FOR"] | _RULES["TURNS"])
    return {line: name for name, lines in found.items() for line in lines}


class Watch:
    """Who has what, and who took something that its order forbids."""

    def __init__(self, order: list[str]) -> None:
        self._rank = {name: place for place, name in enumerate(order)}
        self._has: defaultdict[int, list[tuple[str, object]]] = defaultdict(list)
        self.seen: set[str] = set()
        self.faults: set[str] = set()

    def taken(self, name: str, lock: object) -> None:
        held = self._has[threading.get_ident()]
        self.seen.add(name)
        for before, other in held:
            is_again = other is lock and name.endswith(".turn")
            if self._rank[before] >= self._rank[name] and not is_again:
                self.faults.add(f"{name} while having {before}")
        held.append((name, lock))

    def left(self, name: str, lock: object) -> None:
        self._has[threading.get_ident()].remove((name, lock))


class Watched:
    """A lock that tells when it is taken; a condition may be built on it."""

    def __init__(self, watch: Watch, name: str) -> None:
        self._watch = watch
        self._name = name
        self._lock = threading.Lock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        found = self._lock.acquire(blocking, timeout)
        if found:
            self._watch.taken(self._name, self)
        return found

    def release(self) -> None:
        self._watch.left(self._name, self)
        self._lock.release()

    def locked(self) -> bool:
        return self._lock.locked()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Threading:
    """Stands for the module `threading` in a module of ours; a lock is named by its line."""

    def __init__(self, watch: Watch, names: dict[int, str]) -> None:
        self._watch = watch
        self._names = names

    def __getattr__(self, kind: str) -> Any:
        name = self._names.get(sys._getframe(1).f_lineno)
        if kind == "Lock" and name is not None:
            return lambda: Watched(self._watch, name)
        assert kind != "RLock", "none of ours needs one"
        return getattr(threading, kind)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    made = Watch(ORDER)
    for place in {name.partition("::")[0] for name in ORDER}:
        lines = made_in(place)
        module = importlib.import_module(f"laminar.{place[:-3].replace('/', '.')}")
        if hasattr(module, "threading"):
            monkeypatch.setattr(module, "threading", Threading(made, lines))
        if any(name.endswith(".turn") for name in lines.values()):
            monkeypatch.setattr(module, "WriterTurn", turn_of(made, lines))
    return made


def turn_of(watch: Watch, lines: dict[int, str]) -> Callable[..., WriterTurn]:
    """Return what makes turns that tell when they are taken."""

    class WatchedTurn(WriterTurn):
        name = ""

        @contextmanager
        def __call__(self, what: str) -> Iterator[None]:
            with super().__call__(what):
                watch.taken(self.name, self)
                try:
                    yield
                finally:
                    watch.left(self.name, self)

    def make(*args: Any) -> WatchedTurn:
        found = WatchedTurn(*args)
        found.name = lines[sys._getframe(1).f_lineno]
        return found

    return make


class Counting:
    """An operator with a state, so that barriers have something to take."""

    def __init__(self) -> None:
        self.calls = 0

    def process(self, delta: DataFrame, _ctx: object) -> DataFrame:
        self.calls += 1
        return delta.selectExpr("n", "__weight")

    def snapshot(self) -> bytes:
        return str(self.calls).encode()

    def restore(self, state: bytes) -> None:
        self.calls = int(state)


def define(db: laminar.Database) -> None:
    """All that there can be: views of every kind, a source, an operator, sinks."""
    laminar.register_sink("reading", lambda _spec: Reading(db))
    db.execute(
        "SET laminar.compaction = off; SET laminar.epochs_in_flight = 2;"
        "CREATE SOURCE p (g INT, n BIGINT);"
        "CREATE TABLE keyed (id INT, x INT, PRIMARY KEY (id));"
        "CREATE MATERIALIZED VIEW one AS SELECT g, SUM(n) AS s FROM p GROUP BY g;"
        "CREATE MATERIALIZED VIEW two AS SELECT g, COUNT(*) AS c FROM p GROUP BY g;"
        "CREATE MATERIALIZED VIEW both AS SELECT a.g, s, c FROM one a JOIN two b ON a.g = b.g;"
        "CREATE MATERIALIZED VIEW high AS SELECT g FROM one WHERE s > 1;"
        "CREATE MATERIALIZED VIEW whole WITH (refresh_policy = 'full') AS"
        " SELECT COUNT(*) AS n FROM p"
    )
    db.execute(
        "CREATE SOURCE numbers (n BIGINT, k BIGINT, note STRING, ts TIMESTAMP,"
        " WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)"
        " WITH (connector = 'numbers', total = 60, per_poll = 5);"
        "CREATE MATERIALIZED VIEW counted AS SELECT k, COUNT(*) AS c FROM numbers GROUP BY k;"
        "CREATE SINK k FROM both WITH (connector = 'reading')"
    )


class Reading:
    """A sink that uses the database while it writes."""

    def __init__(self, db: laminar.Database) -> None:
        self._db = db

    def write(self, epoch: int, delta: DataFrame) -> None:
        delta.count()
        self._db.insert("p", [(9, epoch)] if epoch < 4 else [])
        self._db.sql("SELECT * FROM both").rows()


def busy(db: laminar.Database, path: Path, spark: SparkSession) -> None:
    """Let several threads do what they may do at the same time."""

    def follow() -> None:
        for name in ("one", "p"):
            changes = db.subscribe(name, name=f"follow {name}", timeout=1.0)
            for _ in zip(range(4), changes, strict=False):
                pass

    def push() -> None:
        for number in range(6):
            db.insert("p", [(at % 2, number) for at in range(40)])
            db.execute(f"INSERT INTO keyed VALUES ({number}, {number})")
        db.execute("UPDATE keyed SET x = 0 WHERE id < 3")

    def look() -> None:
        for table in ("sinks", "sources", "checkpoints", "epochs", "subscriptions", "metrics"):
            db.sql(f"SELECT * FROM laminar_system.{table}").rows()
        db.metrics()
        db.sql("SELECT * FROM table_changes('one', 1)").rows()
        Folder(path).snapshot()
        with laminar.connect(path, spark=spark, read_only=True) as reader:
            reader.sql("SELECT * FROM both").rows()

    def change() -> None:
        db.execute("CREATE MATERIALIZED VIEW later AS SELECT g, s FROM one WHERE s > 2")
        db.checkpoint()
        db.execute("ALTER MATERIALIZED VIEW high SET (refresh_policy = 'full')")
        db.execute("DROP MATERIALIZED VIEW later; EXPLAIN DAG; EXPLAIN SELECT * FROM one")
        db.advance_watermark("numbers", "2024-01-01")

    db.start()
    others = ThreadPoolExecutor(4)
    try:
        for each in [others.submit(work) for work in (push, follow, look, change)]:
            each.result(PATIENCE)
    finally:
        others.shutdown(wait=False)
    db.stop()


MADE_WHEN_IMPORTED = {"runtime/spark/lifeline.py::Lifeline.starting"}
"""Locks of a class, which are there before anybody watches how locks are made."""


@pytest.mark.spark
@pytest.mark.long
def test_a_busy_database_takes_its_locks_in_order(
    watch: Watch, spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "state"
    with laminar.connect(path, spark=spark) as db:
        numbers_source.MADE.clear()
        define(db)
        for _ in range(2):
            db.insert("p", [(at % 2, at) for at in range(40)])
            db.insert("keyed", [(100 + _, 1)])
            db.drain()
        busy(db, path, spark)
        db.execute("SET laminar.checkpoint_interval_ms = 1; SET laminar.epochs_in_flight = 1")
        dag = (
            DagBuilder()
            .source("o", schema="n BIGINT")
            .operator("stateful", Counting(), schema="n BIGINT")
            .connect("o", "stateful")
            .build()
        )
        db.run(dag)
        db.insert("o", [(1,)])
        db.step()
        point = db.checkpoint()
        db.drain()
        db.restore(point)
        db.execute("DROP SINK k; DROP SOURCE numbers CASCADE")
    assert watch.faults == set()
    assert set(ORDER) - watch.seen - MADE_WHEN_IMPORTED == set()


def test_an_order_that_is_not_that_of_the_page_is_caught() -> None:
    watch = Watch(["a.py::A.turn", "b.py::B.x", "c.py::C.y"])
    turn, one, two = object(), Watched(watch, "b.py::B.x"), Watched(watch, "c.py::C.y")
    watch.taken("a.py::A.turn", turn)
    watch.taken("a.py::A.turn", turn)
    with one, two:
        pass
    condition = threading.Condition(two)  # type: ignore[arg-type]
    with one, condition:
        condition.wait(0)
    assert watch.faults == set()
    with two, one:
        pass
    assert watch.faults == {"b.py::B.x while having c.py::C.y"}
    with one, Watched(watch, "b.py::B.x"):
        pass
    assert "b.py::B.x while having b.py::B.x" in watch.faults
