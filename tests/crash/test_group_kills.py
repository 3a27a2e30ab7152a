"""kill -9 in the middle of a group's commit: the group is all old or all new, and then goes on.

The group {b, c, d} is a diamond. In one kind of round it was held by a failure of `c` and catches
up over two epochs at once; in the other `c` fails, and what `b` did is taken back. A process runs
that epoch and dies at a chosen durable step of it. Before anything is repaired, a reader looks at
what is there; then the database is opened as after any crash.

`make test` dies at a few steps, `make test-all` at every fourth, `make soak` at every step that
such an epoch passes.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar.store import durable_files
from laminar.testing.counted import counts

from .killer import ROOT, environment
from .test_failpoints import EVERY, THOROUGH
from .test_kills import gateway_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Bag = Counter[tuple[Any, ...]]

GROUP = ("b", "c", "d")
SCRIPT = (
    # Nothing in the background: the same epoch passes the same steps.
    "SET laminar.compaction = off; SET laminar.checkpoint_interval_ms = 0;"
    "SET laminar.max_failures = 1000; SET laminar.retry_backoff_ms = 0;"
    "CREATE TABLE a (k INT, x BIGINT);"
    "CREATE MATERIALIZED VIEW b AS SELECT k, SUM(x) AS x FROM a GROUP BY k;"
    "CREATE MATERIALIZED VIEW c AS SELECT k, SUM(100 DIV x) AS y FROM a GROUP BY k;"
    "CREATE MATERIALIZED VIEW d AS SELECT b.k, x, y FROM b JOIN c ON b.k = c.k;"
    "CREATE MATERIALIZED VIEW other AS SELECT COUNT(*) AS n FROM a"
)
POISON = (0, 0)
"""c fails while this row is there."""

FEW = [("catches up", "segment.after_write", 3), ("fails", "manifest.before_rename", 1)]

Step = tuple[str, str, int]
"""What kind of round, and where the process dies: the point, and the how-manyeth time."""


def truth(a: Bag) -> dict[str, Bag]:
    """What every relation holds if the table holds this."""
    b: Counter[int] = Counter()
    c: Counter[int] = Counter()
    for (k, x), n in a.items():
        b[k] += x * n
        c[k] += 100 // x * n if x else 0  # not asked while the poison is there
    return {
        "a": a,
        "b": Counter(b.items()),
        "c": Counter(c.items()),
        "d": Counter((k, b[k], c[k]) for k in b),
        "other": Counter([(a.total(),)]),
    }


@dataclass
class World:
    """The database, and what the table held after every epoch."""

    state: Path
    spark: SparkSession
    table: Bag = field(default_factory=Counter)
    after: dict[int, Bag] = field(default_factory=dict)

    def opened(self, *, read_only: bool = False) -> laminar.Database:
        return laminar.connect(self.state, spark=self.spark, read_only=read_only)

    def push(self, db: laminar.Database, *rows: tuple[int, int], gone: bool = False) -> None:
        """Insert or delete rows; the next epoch takes them."""
        (db.delete if gone else db.insert)("a", list(rows))
        self.table = self.table - Counter(rows) if gone else self.table + Counter(rows)
        self.after[db.engine.ledger.epoch + 1] = self.table.copy()

    def check(self, db: laminar.Database) -> tuple[int, int]:
        """All members are at one epoch and right for it; return it, and that of the other view."""
        counts(db)
        at = dict(db.sql("SELECT name, epoch FROM laminar_system.materialized_views").rows())
        assert len({at[name] for name in GROUP}) == 1, at
        for names in (("a", *GROUP), ("a", "other")):
            parts = [
                f"SELECT '{name}' AS name, TO_JSON(STRUCT(*)) AS row FROM {name}" for name in names
            ]
            answer = db.sql(" UNION ALL ".join(parts))
            assert answer.epoch == at[names[-1]]
            found: dict[str, Bag] = {name: Counter() for name in names}
            for name, row in answer.rows():
                found[name][tuple(json.loads(row).values())] += 1
            right = truth(self.after[answer.epoch])
            assert found == {name: right[name] for name in names}, answer.epoch
        return at["d"], at["other"]


def commits(db: laminar.Database) -> int:
    """How often the group has committed."""
    return db.metrics().groups["b, c, d"].epoch


def prepare(world: World, db: laminar.Database, kind: str, number: int) -> None:
    """Leave the rows waiting that the epoch of a round is about."""
    fresh = [(number % 7, 2), (number % 3, 5), (number % 5, 10)]
    world.push(db, *fresh, POISON)
    if kind == "catches up":
        with pytest.raises(laminar.OperatorError, match='"c"'):
            db.step()
        world.push(db, POISON, gone=True)
        world.push(db, (number % 4, 4))


def repair(world: World, db: laminar.Database, kind: str) -> None:
    """Take away what holds the group, if anything does."""
    if kind == "fails":
        world.push(db, POISON, gone=True)
        db.step()


def die(world: World, gateway: dict[str, str], point: str, time: int) -> None:
    """Let another process run the next epoch until it comes to a point."""
    command = [sys.executable, "-m", "tests.crash.group_worker", str(world.state), point, str(time)]
    done = subprocess.run(
        command, env=environment(gateway), cwd=ROOT, capture_output=True, check=False, timeout=120
    )
    told = done.stderr.decode(errors="replace")[-4000:]
    assert done.returncode == -signal.SIGKILL, f"{point} {time}: {done.returncode}, {told}"


def steps_of(world: World, kind: str) -> list[Step]:
    """Run such an epoch to its end; return the durable steps it passed, in order."""
    seen: list[str] = []
    with world.opened() as db, pytest.MonkeyPatch.context() as patch:
        prepare(world, db, kind, 0)
        patch.setattr(durable_files, "failpoint", seen.append)
        try:
            db.step()
        except laminar.OperatorError:
            assert kind == "fails"
        patch.undo()
        repair(world, db, kind)
        world.check(db)
    return [(kind, point, seen[: at + 1].count(point)) for at, point in enumerate(seen)]


def one_round(world: World, gateway: dict[str, str], number: int, step: Step) -> bool:
    """Die at a step, look, and open again; return whether the epoch was committed."""
    kind, point, time = step
    with world.opened() as db:
        prepare(world, db, kind, number)
        before, last = db.engine.scheduler.cursor("d"), db.engine.ledger.epoch
        committed = commits(db)
    die(world, gateway, point, time)
    with world.opened(read_only=True) as db:  # as it was left: nothing is repaired yet
        group, other = world.check(db)
        assert other in (last, last + 1)
        is_new = other == last + 1
        assert group == (other if is_new and kind == "catches up" else before)
        assert commits(db) == committed + (group > before)
    with world.opened() as db:
        if db.engine.ledger.epoch == last:  # killed before it was durable that an epoch began
            assert point.startswith("wal.")
            with suppress(laminar.OperatorError):
                db.step()
        assert db.engine.ledger.epoch == last + 1  # what was begun is finished, with or without c
        if kind == "fails":
            assert world.check(db) == (before, last + 1)
            repair(world, db, kind)
        group, other = world.check(db)
        assert group == other
        assert commits(db) == committed + 1
        assert db.recovery.damaged == ()
        assert not orphans(db)
    return is_new


@pytest.mark.long
def test_a_group_killed_as_it_commits(spark: SparkSession, tmp_path: Path) -> None:
    world, gateway = World(tmp_path / "state", spark), gateway_of(spark)
    with world.opened() as db:
        db.execute(SCRIPT)
        world.push(db, (1, 2), (2, 5))
        db.step()
    kinds = ("catches up", "fails")
    every = [step for kind in kinds for step in steps_of(world, kind)] if THOROUGH else []
    steps = every[:: 2 * EVERY - 1] or FEW
    seen: Counter[bool] = Counter()
    for number, step in enumerate(steps):
        try:
            seen[one_round(world, gateway, number, step)] += 1
        except BaseException as error:
            error.add_note(f"killed at {step}")
            raise
    assert seen[False] >= 2
    assert seen[True] > 0 or not THOROUGH


def orphans(db: laminar.Database) -> list[str]:
    """Data files that no epoch names."""
    known = set().union(*(each.files for each in db.engine.ledger.timeline.kept()))
    found = [each for each in (db.path / "data").rglob("*") if each.is_file()]
    return [str(each) for each in found if each.relative_to(db.path).as_posix() not in known]
