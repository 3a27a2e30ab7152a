"""What is shown because of time, decided from segments; statements are noted and not run."""

from __future__ import annotations

from typing import Any, cast

import pytest

from laminar.delta.program import Aged, Emitted, Periodic
from laminar.model.trace import Segment
from laminar.runtime.epoch.timed_relations import InTime, rows_of
from laminar.runtime.event_time.watermarks import EpochTime
from laminar.runtime.relations.bindings import Bindings
from laminar.runtime.relations.trace_versions import TraceVersions, versions_of

from ..parts import NO_SPARK, catalog, segment

MINUTE = 60_000_000
RELATIONS = catalog(
    """
    CREATE SOURCE t (k INT, ts TIMESTAMP, WATERMARK FOR ts AS ts);
    CREATE MATERIALIZED VIEW closing AS SELECT TUMBLE_END(ts, '1 minute') AS e, COUNT(*) AS n
      FROM t GROUP BY TUMBLE(ts, '1 minute') EMIT ON WINDOW CLOSE;
    CREATE MATERIALIZED VIEW recent AS SELECT k FROM t WHERE ts >= now() - INTERVAL '1' HOUR;
    CREATE MATERIALIZED VIEW slow AS SELECT k FROM t EMIT PERIODICALLY INTERVAL '10' SECONDS;
    """
).relations


class Noted(Bindings):
    """Notes statements instead of running them."""

    said: list[str]

    def compute(self, sql: str, _names: tuple[str, ...]) -> Any:
        self.said.append(sql)
        return sql

    def consolidated_delta(self, name: str) -> Any:
        return f"delta of {name}"


class Shown:
    """One epoch, and what it appends to which trace."""

    def __init__(self, epoch_time: EpochTime, *, first: str = "") -> None:
        versions = versions_of(RELATIONS, {})
        self.bindings = Noted(
            NO_SPARK,
            NO_SPARK,
            RELATIONS,
            versions,
            first=frozenset(first.split()),
            epoch_time=epoch_time,
        )
        self.bindings.said = []
        self.appended: list[str] = []
        self.in_time = InTime(self.bindings, self._append)

    def _append(self, trace: str, _frame: object, _relation: object) -> int:
        self.appended.append(trace)
        self.put(trace, delta=[segment(9)])
        return 7

    def put(self, trace: str, before: list[Segment] | None = None, delta: Any = ()) -> None:
        held = self.bindings.versions[trace]
        given = held.before if before is None else tuple(before)
        self.bindings.versions[trace] = TraceVersions(held.schema, given, tuple(delta))

    def read(self) -> list[tuple[Segment, ...]]:
        """Return the segments that statements read a part of."""
        return [segments for _, segments in self.bindings._cuts.values()]


CLOSING = cast("Emitted", RELATIONS.by_name["closing#2"])
RECENT = cast("Aged", RELATIONS.by_name["recent#2"])
SLOW = cast("Periodic", RELATIONS.by_name["slow"])
PATH, STATE = CLOSING.horizon.path, "closing#1!partial"


def between(before: int | None, after: int | None) -> EpochTime:
    then, now = ({} if mark is None else {"closing": mark} for mark in (before, after))
    return EpochTime(then, now)


OLD = segment(1, spans={PATH: (MINUTE, MINUTE)})
NEW = segment(2, spans={PATH: (9 * MINUTE, 9 * MINUTE)})


def test_only_segments_with_windows_that_close_are_read() -> None:
    shown = Shown(between(0, MINUTE))
    shown.put(STATE, [OLD, NEW])
    assert shown.in_time.maintain(CLOSING) == 7
    assert (shown.appended, shown.read()) == (["closing#2"], [(OLD,)])


@pytest.mark.parametrize("epoch_time", [between(None, None), between(MINUTE, MINUTE + 1)])
def test_without_a_window_that_closes_nothing_runs(epoch_time: EpochTime) -> None:
    shown = Shown(epoch_time)
    shown.put(STATE, [OLD, NEW])
    assert shown.in_time.maintain(CLOSING) == 0
    assert (shown.appended, shown.bindings.said) == ([], [])


def test_a_change_to_a_window_that_is_shown_corrects_it() -> None:
    shown = Shown(between(5 * MINUTE, 5 * MINUTE))
    shown.put(STATE, [], [OLD])
    assert shown.in_time.maintain(CLOSING) == 7
    untouched = Shown(between(5 * MINUTE, 5 * MINUTE))
    untouched.put(STATE, [], [NEW])
    assert untouched.in_time.maintain(CLOSING) == 0


def test_changes_wait_for_their_turn_and_are_shown_as_a_whole() -> None:
    waiting = Shown(EpochTime())
    waiting.put("t", [], [segment(1)])
    assert waiting.in_time.maintain(SLOW) == 0
    assert waiting.appended == ["slow!pending"]
    assert waiting.in_time.results.shown == frozenset()
    due = Shown(EpochTime(due=frozenset({"slow"})))
    due.put("slow!pending", [segment(1), segment(2)])
    assert due.in_time.maintain(SLOW) == 7
    assert (due.appended, due.read()) == (["slow"], [(segment(1), segment(2))])
    results = due.in_time.results
    assert (results.emptied, results.shown) == (frozenset({"slow!pending"}), frozenset({"slow"}))


def test_a_turn_without_changes_is_a_turn() -> None:
    shown = Shown(EpochTime(due=frozenset({"slow"})))
    assert shown.in_time.maintain(SLOW) == 0
    assert (shown.appended, shown.in_time.results.emptied) == ([], frozenset())
    assert shown.in_time.results.shown == {"slow"}


def test_a_new_view_shows_at_once() -> None:
    shown = Shown(EpochTime(), first="slow slow#1")
    shown.put("t", [], [segment(1)])
    assert shown.in_time.maintain(SLOW) == 7
    assert shown.appended == ["slow"]
    assert shown.in_time.results.shown == {"slow"}


START, END = RECENT.node.start, RECENT.node.end


def aging(before: int | None, now_ms: int, rows: int = 100_000) -> Shown:
    known = {} if before is None else {"recent#2": before}
    return Shown(EpochTime(now_ms=now_ms, aged_to=known, aging_rows=rows))


def test_rows_go_when_the_clock_reaches_their_limit() -> None:
    goes = segment(1, rows=3, spans={START: (0, 0), END: (5000, 5000)})
    stays = segment(2, rows=3, spans={START: (0, 0), END: (9000, 9000)})
    shown = aging(4000, 5)
    shown.put("recent#1", [goes, stays])
    assert shown.in_time.maintain(RECENT) == 7
    assert shown.read() == [(goes,)]
    assert shown.in_time.results.aged_to == {"recent#2": 5000}
    early = aging(4000, 4)
    early.put("recent#1", [goes, stays])
    assert early.in_time.maintain(RECENT) == 0
    assert early.in_time.results.aged_to == {"recent#2": 4000}


def test_a_clock_that_is_set_back_stands_still() -> None:
    shown = aging(9_000_000, 5)
    assert shown.in_time.maintain(RECENT) == 0
    assert shown.in_time.results.aged_to == {"recent#2": 9_000_000}


def test_more_rows_than_an_epoch_may_move_go_by_and_by() -> None:
    many = segment(1, rows=50, spans={START: (0, 0), END: (4500, 5000)})
    shown = aging(4000, 6, rows=10)
    shown.put("recent#1", [many])

    def reached(sql: str, _names: tuple[str, ...]) -> Any:
        shown.bindings.said.append(sql)
        return Collected(4700) if len(shown.bindings.said) == 1 else sql

    shown.bindings.compute = reached  # type: ignore[method-assign]
    assert shown.in_time.maintain(RECENT) == 7
    assert shown.in_time.results.aged_to == {"recent#2": 4700}
    assert rows_of((many, many)) == 100


class Collected:
    """A frame of one value."""

    def __init__(self, value: int) -> None:
        self._value = value

    def collect(self) -> list[tuple[int]]:
        return cast("list[tuple[int]]", [(self._value,)])
