"""Every reason for which a member may be skipped holds its whole group, and nobody else.

One test for each reason, all on one database: b, c and d are a diamond over `a`, and `c` reads `u`
as well; `other` has nothing to do with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import laminar
from laminar.runtime.epoch.materialization import Filler
from laminar.testing.clock import ManualClock
from laminar.testing.faults import Faults

from .groups import DIAMOND, cursors, new_clock, opened, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCRIPT = "CREATE TABLE u (k INT);" + DIAMOND.replace(
    "SUM(100 / x) AS y FROM a",
    "SUM(100 / x) AS y FROM (SELECT a.k, x FROM a LEFT ANTI JOIN u ON a.k = u.k)",
)


@dataclass
class World:
    """The database, what makes views fail, and how many rows `a` has."""

    db: laminar.Database
    faults: Faults
    clock: ManualClock
    number: int = 0

    def insert(self) -> None:
        self.number += 1
        self.db.insert("a", [(self.number, 10)])

    def fails(self) -> None:
        """c fails in an epoch that others commit, or in a retry without new rows."""
        self.faults.views = {"c"}
        with pytest.raises(laminar.OperatorError, match='"c"'):
            self.db.step()
        self.faults.views = set()

    def goes_by(self, reason: str) -> None:
        """An epoch goes by without the group, and says why."""
        at = cursors(self.db, "b", "c", "d")
        before = rows(self.db, "SELECT * FROM d")
        self.insert()
        report = self.db.step()
        assert report is not None
        assert reason in report.held["c"].reason
        assert set(report.held) == {"b", "c", "d"}
        assert cursors(self.db, "b", "c", "d", "other") == [*at, report.epoch]
        assert rows(self.db, "SELECT * FROM d") == before


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    faults, clock = Faults(), new_clock()
    path = tmp_path_factory.mktemp("holds")
    with faults.armed(), opened(path, spark, SCRIPT, clock) as db:
        yield World(db, faults, clock)


def failed(world: World) -> None:
    at = cursors(world.db, "b", "c", "d")
    before = rows(world.db, "SELECT * FROM d")
    world.insert()
    world.fails()
    assert cursors(world.db, "b", "c", "d", "other") == [*at, world.db.engine.ledger.manifest.epoch]
    assert rows(world.db, "SELECT * FROM d") == before
    world.db.step()


def paused(world: World) -> None:
    world.db.execute("PAUSE MATERIALIZED VIEW c")
    world.goes_by("paused")
    world.db.execute("RESUME MATERIALIZED VIEW c")


def source_gated(world: World) -> None:
    world.db.execute("PAUSE TABLE u")
    world.goes_by("waits for u (source gated)")
    world.db.execute("RESUME TABLE u")
    world.db.step()


def locked_by_a_rebuild(world: World) -> None:
    fill = Filler.fill

    def filled(*given: Any) -> Any:
        world.goes_by("locked by a rebuild")
        return fill(*given)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Filler, "fill", filled)
        world.db.execute("ALTER MATERIALIZED VIEW c SET (refresh_policy = 'full')")
    world.db.step()


def backing_off(world: World) -> None:
    world.insert()
    world.fails()
    world.fails()
    world.goes_by("backing off")
    world.clock.advance(60)
    world.db.step()


def suspended(world: World) -> None:
    world.db.execute("SET laminar.max_failures = 1")
    world.insert()
    world.fails()
    world.goes_by("suspended")
    world.db.execute("RESET laminar.max_failures; RESUME MATERIALIZED VIEW c")


def not_due(world: World) -> None:
    world.db.execute(
        "ALTER MATERIALIZED VIEW c SET (schedule = '1h');"
        "ALTER MATERIALIZED VIEW d SET (diamond_schedule_policy = 'slowest')"
    )
    world.insert()
    world.db.step()  # from here on an hour counts
    world.goes_by("not due")
    world.clock.advance(3600)
    world.db.step()
    world.db.execute("ALTER MATERIALIZED VIEW c SET (schedule = 'every epoch')")


REASONS: list[Callable[[World], None]] = [
    failed,
    paused,
    source_gated,
    locked_by_a_rebuild,
    backing_off,
    suspended,
    not_due,
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("reason", REASONS, ids=lambda each: each.__name__)
def test_a_member_that_is_skipped_holds_the_group(
    world: World, reason: Callable[[World], None]
) -> None:
    reason(world)
    assert cursors(world.db, "b", "c", "d") == [world.db.engine.ledger.manifest.epoch] * 3
    truth = [(k, 10, 10.0) for k in range(1, world.number + 1)]
    assert rows(world.db, "SELECT * FROM d") == truth
