"""Random DAGs, schedules and failures, and a reader: every read is right for one prefix.

The truth is computed here, in Python: each view is a function of bags.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar.runtime.time_settings import TimeSettings
from laminar.testing.clock import ManualClock
from laminar.testing.faults import Faults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Bag = Counter[tuple[int, int]]
"""Rows (k, x) with how often they are there."""

SEEDS = range(12 if os.environ.get("LAMINAR_ORACLE") == "thorough" else 1)
EPOCHS = 25 if os.environ.get("LAMINAR_ORACLE") == "thorough" else 6


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
    """Reads several relations at once and compares them with the truth of the epoch it is told."""

    db: laminar.Database
    world: World
    rng: random.Random
    reads: int = 0
    problems: list[str] = field(default_factory=list)

    def ask(self) -> None:
        relations = [*self.world.tables, *self.world.reads]
        names = self.rng.sample(relations, self.rng.randint(1, 4))
        parts = [f"SELECT '{name}' AS name, k, x FROM {name}" for name in names]
        answer = self.db.sql(" UNION ALL ".join(parts))
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

    def run(self, stopped: threading.Event) -> None:
        try:
            while not stopped.is_set():
                self.ask()
        except Exception as error:
            self.problems.append(repr(error))


@pytest.mark.parametrize("seed", SEEDS)
def test_no_read_is_ever_mixed(seed: int, tmp_path: Path, spark: SparkSession) -> None:
    rng = random.Random(seed)
    world, faults, clock = World(rng), Faults(), ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    settings = TimeSettings(clock=clock)
    with faults.armed(), laminar.connect(tmp_path, spark=spark, settings=settings) as db:
        db.execute(f"SET laminar.compaction_fanout = 2; {world.script()}")
        world.note(0)
        checker = Checker(db, world, random.Random(seed))
        stopped = threading.Event()
        thread = threading.Thread(target=checker.run, args=(stopped,))
        thread.start()
        try:
            for _ in range(EPOCHS):
                _disturb(db, world, faults, rng)
                clock.advance(rng.choice([0, 1, 10]))
                world.change(db)
                world.note(db.engine.manifest.epoch + 1)
                _step(db)
            faults.views = set()
            for name in world.reads:
                world.note(db.engine.manifest.epoch + 1)
                db.execute(f"RESUME MATERIALIZED VIEW {name}")
            clock.advance(1000)
            world.change(db)  # whoever is behind and has nothing to take would stay there
            world.note(db.engine.manifest.epoch + 1)
            _step(db)
        finally:
            stopped.set()
            thread.join()
        for _ in range(3):
            checker.ask()
        assert checker.problems == []
        assert db.engine.holding.since == {}
    assert checker.reads > 3
    assert faults.hits > 0


def _disturb(db: laminar.Database, world: World, faults: Faults, rng: random.Random) -> None:
    """Choose who fails in the next epoch, and pause or resume somebody."""
    faults.views = {name for name in world.reads if rng.random() < 0.15}
    name = rng.choice(list(world.reads))
    if rng.random() < 0.3:
        db.execute(f"PAUSE MATERIALIZED VIEW {name}")
    paused: Any = sorted(db.engine.holding.paused)
    if paused and rng.random() < 0.4:
        world.note(db.engine.manifest.epoch + 1)
        try:
            db.execute(f"RESUME MATERIALIZED VIEW {rng.choice(paused)}")
        except laminar.OperatorError:
            world.note(db.engine.manifest.epoch + 1)


def _step(db: laminar.Database) -> None:
    with suppress(laminar.OperatorError):
        db.step()
