"""Why a view does not move: what counts first, and what can be forced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from laminar.mv import MvState
from laminar.mv.retry import Failure
from laminar.runtime.catalog.consistency_groups import groups_of
from laminar.runtime.scheduling.epoch_plan import Hold, HoldRules, Skip, schedules_of
from laminar.runtime.scheduling.view_progress import ViewProgress

from ..parts import START_MS, catalog

NOW = START_MS
HOUR = 3_600_000
TABLES = "CREATE TABLE t (k INT, x INT); CREATE TABLE u (k INT, x INT);"


def views(**defined: str) -> str:
    """Views by name: what each reads, and its schedule behind `every`."""
    made = []
    for name, text in defined.items():
        reads, _, schedule = text.partition(" every ")
        given = f"WITH (schedule = '{schedule}')" if schedule else ""
        sources = reads.split()
        query = f"SELECT k, x FROM {sources[0]}"
        if len(sources) == 2:
            query = "SELECT a.k, b.x FROM {} a JOIN {} b ON a.k = b.k".format(*sources)
        made.append(f"CREATE MATERIALIZED VIEW {name} {given} AS {query};")
    return TABLES + "".join(made)


def skipped(
    script: str,
    progress: ViewProgress | None = None,
    *,
    paused: str = "",
    locked: str = "",
    forced: str = "",
    now: int = NOW,
) -> Mapping[str, Hold]:
    found = catalog(script)
    for view in paused.split():
        found.registry.set_state(view, MvState.PAUSED)
    rules = HoldRules(found, progress or ViewProgress(), frozenset(locked.split()), now)
    return rules.skipped(groups_of(found), frozenset(forced.split()))


def failing(view: str, *, retry_at: int = 0, suspended: bool = False) -> ViewProgress:
    return ViewProgress(failures={view: Failure(2, "boom", 0, retry_at, suspended)})


ONE = views(v="t", w="u")


@pytest.mark.parametrize(
    ("progress", "given", "hold"),
    [
        (None, {}, None),
        (None, {"paused": "v"}, Hold(Skip.PAUSED, "v")),
        (None, {"locked": "v"}, Hold(Skip.LOCKED, "v")),
        (ViewProgress(gated=frozenset({"t"})), {}, Hold(Skip.GATED, "t")),
        (failing("v", suspended=True), {}, Hold(Skip.SUSPENDED, "v", "failed 2 times, boom")),
        (failing("v", retry_at=NOW + 1), {}, Hold(Skip.BACKING_OFF, "v", "boom")),
        (failing("v", retry_at=NOW), {}, None),
        # What counts first.
        (failing("v", suspended=True), {"paused": "v"}, Hold(Skip.PAUSED, "v")),
        (failing("v", retry_at=NOW + 1), {"locked": "v"}, Hold(Skip.LOCKED, "v")),
        # What can be forced, and what cannot.
        (failing("v", retry_at=NOW + 1), {"forced": "v"}, None),
        (None, {"paused": "v", "forced": "v"}, Hold(Skip.PAUSED, "v")),
        (None, {"locked": "v", "forced": "v"}, Hold(Skip.LOCKED, "v")),
        (ViewProgress(gated=frozenset({"t"})), {"forced": "v"}, Hold(Skip.GATED, "t")),
        (
            failing("v", suspended=True),
            {"forced": "v"},
            Hold(Skip.SUSPENDED, "v", "failed 2 times, boom"),
        ),
    ],
)
def test_what_holds_a_view(
    progress: ViewProgress | None, given: dict[str, Any], hold: Hold | None
) -> None:
    assert skipped(ONE, progress, **given) == ({} if hold is None else {"v": hold})


@pytest.mark.parametrize(
    ("schedule", "passed", "due"),
    [
        ("every epoch", 0, True),
        ("1h", HOUR - 1, False),
        ("1h", HOUR, True),
        ("1h", 9 * HOUR, True),
        ("0 12 * * *", 11 * HOUR, False),
        ("0 12 * * *", 12 * HOUR, True),
        ("calculated", 0, True),  # nobody reads it
    ],
)
def test_schedules(schedule: str, passed: int, due: bool) -> None:
    script = views(v=f"t every {schedule}")
    stepped = ViewProgress(stepped_ms={"v": NOW})
    held = skipped(script, stepped, now=NOW + passed)
    assert (held == {}) is due
    assert due or held["v"].reason is Skip.NOT_DUE
    assert skipped(script, stepped, now=NOW + passed, forced="v") == {}
    assert skipped(script, now=NOW) == {}  # one that never stepped is due


def test_a_hold_says_when_the_view_is_due() -> None:
    held = skipped(views(v="t every 1h"), ViewProgress(stepped_ms={"v": NOW}))
    assert held == {"v": Hold(Skip.NOT_DUE, "v", "due at 2026-01-01T01:00:00+00:00")}


@pytest.mark.parametrize(
    ("policy", "passed", "held"),
    [
        ("fastest", 1, {}),  # c steps with every epoch, so the group does
        ("slowest", 1, {"b": Skip.NOT_DUE}),  # the one that is due last
        ("slowest", HOUR, {"b": Skip.NOT_DUE}),
        ("slowest", 2 * HOUR, {}),
    ],
)
def test_a_group_goes_by_its_policy(policy: str, passed: int, held: dict[str, Skip]) -> None:
    diamond = views(a="t every 1h", b="t every 2h", c="a b").replace(
        "VIEW c ", f"VIEW c WITH (diamond_schedule_policy = {policy})"
    )
    progress = ViewProgress(stepped_ms={"a": NOW, "b": NOW})
    found = skipped(diamond, progress, now=NOW + passed)
    assert {view: hold.reason for view, hold in found.items()} == held


def test_one_member_that_is_forced_takes_its_group_along() -> None:
    diamond = views(a="t every 1h", b="t every 1h", c="a b every 1h")
    progress = ViewProgress(
        failures={"b": Failure(2, "boom", 0, NOW + 5)}, stepped_ms=dict.fromkeys("abc", NOW)
    )
    assert set(skipped(diamond, progress)) == {"b"}
    assert skipped(diamond, progress, forced="a") == {}


def test_a_member_that_is_held_is_named_before_one_that_is_not_due() -> None:
    diamond = views(a="t every 1h", b="t every 1h", c="a b every 1h")
    progress = ViewProgress(stepped_ms=dict.fromkeys("abc", NOW))
    assert skipped(diamond, progress, paused="b") == {"b": Hold(Skip.PAUSED, "b")}


@pytest.mark.parametrize(
    ("defined", "schedules"),
    [
        ({"v": "t"}, {"v": "every epoch"}),
        ({"v": "t every calculated"}, {"v": "every epoch"}),
        ({"v": "t every calculated", "w": "v every 1h"}, {"v": "1h", "w": "1h"}),
        (
            {"v": "t every calculated", "w": "v every 2h", "x": "v every 1h"},
            {"v": "1h", "w": "2h", "x": "1h"},
        ),
        (
            {"v": "t every calculated", "w": "v every calculated", "x": "w every 1h"},
            {"v": "1h", "w": "1h", "x": "1h"},
        ),
        ({"v": "t every 3h", "w": "v every 1h"}, {"v": "3h", "w": "1h"}),
    ],
)
def test_the_schedule_that_counts(defined: dict[str, str], schedules: dict[str, str]) -> None:
    found = schedules_of(catalog(views(**defined)))
    assert {view: each.text for view, each in found.items()} == schedules


def test_late_rows_follow_the_schedule_of_their_view() -> None:
    script = (
        "CREATE SOURCE s (x INT, ts TIMESTAMP, WATERMARK FOR ts AS ts);"
        "CREATE MATERIALIZED VIEW v WITH (schedule = '{}') AS SELECT COUNT(*) AS n FROM s"
        " GROUP BY TUMBLE(ts, '1 hour') EMIT FINAL LATE DATA TO missed;"
        "CREATE MATERIALIZED VIEW w WITH (schedule = '5m') AS SELECT x FROM missed"
    )
    found = schedules_of(catalog(script.format("1h")))
    assert {view: each.text for view, each in found.items()} == {
        "v": "1h",
        "missed": "1h",
        "w": "5m",
    }
    # Who reads the late rows counts as reading the view.
    assert schedules_of(catalog(script.format("calculated")))["v"].text == "5m"
