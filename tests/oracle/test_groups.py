"""Random DAGs, schedules, failures and a restart, and readers: every read is right for one prefix.

The truth is computed here, in Python: each view is a function of bags.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar.runtime.catalog.settings import TimeSettings
from laminar.runtime.epoch import executor
from laminar.runtime.epoch.executor import DagExecutor
from laminar.testing.clock import ManualClock
from laminar.testing.faults import Faults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Bag = Counter[tuple[int, int]]
"""Rows (k, x) with how often they are there."""

SEEDS = range(12 if os.environ.get("LAMINAR_SOAK") else 3)
EPOCHS = 25 if os.environ.get("LAMINAR_TESTS") == "all" else 6


def _total(bag: Bag) -> Bag:
    sums: dict[int, int] = {}
    for (k, x), count in bag.items():
        sums[k] = sums.get(k, 0) + x * count
    return Counter(sums.items())


def _joined(a: Bag, b: Bag) -> Bag:
    found: Bag = Counter()
    for (k, x), n in a.items():
        for (j, y), m in b.items():
            if k == j:
                found[k, x + y] += n * m
    return found


KINDS: dict[str, tuple[int, str, Callable[..., Bag]]] = {
    "total": (1, "SELECT k, SUM(x) AS x FROM {0} GROUP BY k", _total),
    "moved": (
        1,
        "SELECT k, x + 1 AS x FROM {0}",
        lambda bag: Counter({(k, x + 1): n for (k, x), n in bag.items()}),
    ),
    "even": (
        1,
        "SELECT k, x FROM {0} WHERE x % 2 = 0",
        lambda bag: Counter({(k, x): n for (k, x), n in bag.items() if x % 2 == 0}),
    ),
    "joined": (2, "SELECT a.k, a.x + b.x AS x FROM {0} a JOIN {1} b ON a.k = b.k", _joined),
    "all": (2, "SELECT k, x FROM {0} UNION ALL SELECT k, x FROM {1}", lambda a, b: a + b),
}


OPTIONS = (
    "",
    "",
    " WITH (diamond_consistency = 'none')",
    " WITH (schedule = '7s')",
    " WITH (schedule = '20s', diamond_schedule_policy = 'slowest')",
    " WITH (schedule = 'calculated', diamond_consistency = 'none')",
)


@dataclass
class World:
    """A random DAG, and what each relation holds after every epoch."""

    rng: random.Random
    reads: dict[str, tuple[str, ...]] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    tables: dict[str, Bag] = field(default_factory=dict)
    after: dict[int, dict[str, Bag]] = field(default_factory=dict)
    rebuilt: set[str] = field(default_factory=set)
    """Views that were built anew, so that their rows begin at a later epoch."""

    def script(self) -> str:
        made = []
        for name in ("t", "u"):
            self.tables[name] = Counter()
            made.append(f"CREATE TABLE {name} (k INT, x BIGINT)")
        for number in range(7):
            kind = self.rng.choice(list(KINDS))
            arity, sql, _ = KINDS[kind]
            known = [*self.tables, *self.reads, *list(self.reads)[-2:]]  # deep rather than wide
            inputs = tuple(self.rng.choice(known) for _ in range(arity))
            name = f"v{number}"
            self.reads[name], self.kinds[name] = inputs, kind
            options = self.rng.choice(OPTIONS)
            made.append(f"CREATE MATERIALIZED VIEW {name}{options} AS {sql.format(*inputs)}")
        return "; ".join(made)

    def note(self, epoch: int) -> None:
        """Remember the truth of an epoch, before anybody can see it."""
        found = {name: Counter(bag) for name, bag in self.tables.items()}
        for name, inputs in self.reads.items():
            found[name] = KINDS[self.kinds[name]][2](*(found[each] for each in inputs))
        self.after[epoch] = found

    def change(self, db: laminar.Database) -> None:
        """Insert some rows, and take some back."""
        for name in self.rng.choice([("t",), ("u",), ("t", "u")]):
            rows = [(self.rng.randint(0, 3), self.rng.randint(0, 9)) for _ in range(3)]
            gone = [row for row in self.tables[name] if self.rng.random() < 0.2]
            if gone:
                db.delete(name, gone)
            db.insert(name, rows)
            self.tables[name] = self.tables[name] + Counter(rows) - Counter(gone)


@dataclass
class Checker:
    """Reads several relations at once, all the time, and compares them with the truth.

    All that one read returns must be right for the one epoch that it says, and nothing may go back.
    """

    db: laminar.Database
    world: World
    rng: random.Random
    reads: int = 0
    refused: int = 0
    seen: dict[str, int] = field(default_factory=dict)
    """Relation -> the newest epoch that it was seen at."""
    problems: list[str] = field(default_factory=list)

    def ask(self) -> None:
        relations = [*self.world.tables, *self.world.reads]
        names = self.rng.sample(relations, self.rng.randint(1, 4))
        parts = [f"SELECT '{name}' AS name, k, x FROM {name}" for name in names]
        try:
            answer = self.db.sql(" UNION ALL ".join(parts))
        except laminar.NoCommonEpoch as error:
            if error.younger not in self.world.rebuilt or error.begins <= error.epoch:
                raise
            self.refused += 1  # there is no epoch to answer with, and no mixed answer is given
            return
        found: dict[str, Bag] = {name: Counter() for name in names}
        for name, k, x in answer.rows():
            found[name][k, x] += 1
        self.reads += 1
        truth = self.world.after[answer.epoch]
        for name in names:
            if found[name] != truth[name]:
                self.problems.append(
                    f"{name} of {names} at epoch {answer.epoch}:"
                    f" {sorted(found[name].items())} is not {sorted(truth[name].items())}"
                )
        if answer.epoch < min(self.seen.get(name, 0) for name in names):
            self.problems.append(f"{names} went back to epoch {answer.epoch}: {self.seen}")
        for name in names:
            self.seen[name] = max(answer.epoch, self.seen.get(name, 0))


@contextmanager
def reading(*checkers: Checker) -> Iterator[None]:
    """Read in a thread of its own while the context lasts, by turns."""
    stopped = threading.Event()

    def ask() -> None:
        for each in cycle(checkers):
            if stopped.is_set():
                return
            try:
                each.ask()
            except Exception as error:
                each.problems.append(repr(error))
                return

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_no_read_is_ever_mixed(
    seed: int, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One reader shares the database with the writer, one looks on from outside.

    Half way the database is closed and opened again; the reader outside stays open. Before that,
    nodes run side by side, and afterwards one by one.
    """
    rng = random.Random(seed)
    world, faults, clock = World(rng), Faults(), ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    settings = TimeSettings(clock=clock)

    def opened(*, read_only: bool = False) -> laminar.Database:
        return laminar.connect(tmp_path, spark=spark, settings=settings, read_only=read_only)

    with ExitStack() as left:
        left.enter_context(faults.armed())
        with opened() as db:
            db.execute(f"SET laminar.compaction_fanout = 2; {world.script()}")
            world.note(0)
            beside = Checker(db, world, random.Random(seed))
            outside = Checker(
                left.enter_context(opened(read_only=True)), world, random.Random(seed + 1)
            )
            with reading(beside, outside):
                for _ in range(EPOCHS // 2):
                    _epoch(db, world, faults, clock)
            stood = dict(db.engine.scheduler.since)
        monkeypatch.setattr(executor, "DagExecutor", partial(DagExecutor, workers=1))
        with opened() as db:
            assert dict(db.engine.scheduler.since) == stood
            beside.db = db
            with reading(beside, outside):
                for _ in range(EPOCHS - EPOCHS // 2):
                    _epoch(db, world, faults, clock)
                _repair(db, world, faults, clock)
            for each in (beside, outside):
                each.ask()
            assert db.engine.scheduler.since == {}
    assert beside.problems + outside.problems == []
    assert beside.reads > 3
    assert outside.reads > 0
    assert faults.hits > 0


def _epoch(db: laminar.Database, world: World, faults: Faults, clock: ManualClock) -> None:
    """Disturb somebody, let time pass, and run an epoch."""
    _disturb(db, world, faults)
    clock.advance(world.rng.choice([0, 1, 10]))
    world.change(db)
    world.note(db.engine.ledger.epoch + 1)
    _step(db)


def _disturb(db: laminar.Database, world: World, faults: Faults) -> None:
    """Choose who fails in the next epoch, and pause, gate, untie or rebuild somebody."""
    rng = world.rng
    faults.views = {name for name in world.reads if rng.random() < 0.15}
    view, table = rng.choice(list(world.reads)), rng.choice(list(world.tables))
    if rng.random() < 0.3:
        db.execute(f"PAUSE MATERIALIZED VIEW {view}")
    paused: Any = sorted(db.engine.scheduler.paused)
    if paused and rng.random() < 0.4:
        world.note(db.engine.ledger.epoch + 1)
        try:
            db.execute(f"RESUME MATERIALIZED VIEW {rng.choice(paused)}")
        except laminar.OperatorError:
            world.note(db.engine.ledger.epoch + 1)
    if rng.random() < 0.2:
        db.execute(f"PAUSE TABLE {table}")
    elif rng.random() < 0.5:
        db.execute(f"RESUME TABLE {table}")
    if rng.random() < 0.2:
        tied = rng.choice(["atomic", "none"])
        db.execute(f"ALTER MATERIALIZED VIEW {view} SET (diamond_consistency = '{tied}')")
    if rng.random() < 0.1:
        policy = rng.choice(["full", "auto"])
        world.rebuilt.add(view)
        with suppress(laminar.NotSupported):  # not while somebody who reads it is behind
            db.execute(f"ALTER MATERIALIZED VIEW {view} SET (refresh_policy = '{policy}')")


def _repair(db: laminar.Database, world: World, faults: Faults, clock: ManualClock) -> None:
    """Take away all that holds anybody, and run an epoch that everybody has something to do in."""
    faults.views = set()
    for name in world.tables:
        db.execute(f"RESUME TABLE {name}")
    for name in world.reads:
        world.note(db.engine.ledger.epoch + 1)
        db.execute(f"RESUME MATERIALIZED VIEW {name}")
    clock.advance(1000)
    world.change(db)  # whoever is behind and has nothing to take would stay there
    world.note(db.engine.ledger.epoch + 1)
    _step(db)


def _step(db: laminar.Database) -> None:
    with suppress(laminar.OperatorError):
        db.step()
