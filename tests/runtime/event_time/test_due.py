"""What time asks for: windows that close, rows that come and go, state that is of no use."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.delta.emission import Thresholds
from laminar.delta.program import Aged, Emitted
from laminar.model.trace import Segment, Trace
from laminar.runtime.event_time.due import (
    aging_due,
    cutoffs,
    is_due,
    periodic_due,
    state_trace,
    that_age,
    that_close,
    thresholds,
    turns,
    without_final,
)
from laminar.runtime.event_time.watermarks import EpochTime

from ..parts import catalog, segment, trace

S = 1_000_000
MINUTE = 60 * S

WINDOW = "TUMBLE(ts, INTERVAL '1' MINUTE)"
SCRIPT = f"""
CREATE SOURCE t (k INT, ts TIMESTAMP, WATERMARK FOR ts AS ts);
CREATE MATERIALIZED VIEW closing AS
  SELECT {WINDOW}.end AS e, COUNT(*) AS n FROM t GROUP BY {WINDOW} EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW patient AS
  SELECT {WINDOW}.end AS e, COUNT(*) AS n FROM t GROUP BY {WINDOW}
  EMIT ON WINDOW CLOSE ALLOW LATENESS INTERVAL '2' MINUTES;
CREATE MATERIALIZED VIEW sessions AS
  SELECT COUNT(*) AS n FROM t GROUP BY SESSION(ts, INTERVAL '5' SECOND) EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW recent AS SELECT k FROM t WHERE ts >= now() - INTERVAL '1' HOUR;
CREATE MATERIALIZED VIEW slow AS SELECT k FROM t EMIT PERIODICALLY INTERVAL '10' SECONDS;
CREATE MATERIALIZED VIEW plain AS SELECT k FROM t;
"""
PLAN = catalog(SCRIPT).relations


def emitted(name: str) -> Emitted:
    found = PLAN.by_name[name]
    assert isinstance(found, Emitted)
    return found


CLOSING, PATIENT, SESSIONS = emitted("closing#2"), emitted("patient#2"), emitted("sessions#2")
PATH = CLOSING.horizon.path
AGED = PLAN.by_name["recent#2"]
assert isinstance(AGED, Aged)
START, END = AGED.node.start, AGED.node.end


def at(before: Mapping[str, int], after: Mapping[str, int]) -> EpochTime:
    return EpochTime(before, after)


@pytest.mark.parametrize(
    ("before", "after", "found", "moved"),
    [
        (None, None, (None, None), False),
        (None, 0, (None, MINUTE), True),
        (0, 59 * S, (MINUTE, MINUTE), False),  # the first minute goes on
        (59 * S, 60 * S, (MINUTE, 2 * MINUTE), True),
        (60 * S, 200 * S, (2 * MINUTE, 4 * MINUTE), True),
    ],
)
def test_ends_of_windows_before_these_are_shown(
    before: int | None, after: int | None, found: tuple[int | None, int | None], moved: bool
) -> None:
    marks = [{} if mark is None else {"closing": mark} for mark in (before, after)]
    limits = thresholds(CLOSING, at(*marks))
    assert (limits.before, limits.after, limits.moved) == (*found, moved)


def test_where_windows_wait() -> None:
    assert state_trace(CLOSING, PLAN) == "closing#1!partial"
    assert state_trace(SESSIONS, PLAN) == "sessions#1"


def spanning(low: int, high: int, path: str = PATH, epoch: int = 1) -> Segment:
    return segment(epoch, spans={path: (low, high)})


@pytest.mark.parametrize(
    ("low", "high", "limits", "closes"),
    [
        (10, 20, (0, 30), True),
        (10, 20, (20, 30), True),  # 20 is not shown before, and is after
        (10, 20, (21, 30), False),  # all of it is shown already
        (10, 20, (0, 10), False),  # 10 itself is not before 10
        (10, 20, (0, 11), True),
        (10, 20, (None, 11), True),
        (10, 20, (None, 10), False),
        (10, 20, (15, 15), False),  # nothing moved
        (10, 20, (None, None), False),
    ],
)
def test_segments_that_may_hold_windows_which_close(
    low: int, high: int, limits: tuple[int | None, int | None], closes: bool
) -> None:
    known, unknown = spanning(low, high), segment(2)
    found = that_close((known, unknown), PATH, Thresholds(*limits))
    assert (known in found) is closes
    assert (unknown in found) is Thresholds(*limits).moved  # what it spans is not known


@pytest.mark.parametrize(
    ("traces", "after", "due"),
    [
        ({}, 10 * MINUTE, False),
        ({"closing#1": trace(spanning(MINUTE, MINUTE))}, 10 * MINUTE, False),
        ({"closing#1!partial": trace(spanning(MINUTE, MINUTE))}, MINUTE, True),
        ({"closing#1!partial": trace(spanning(MINUTE, MINUTE))}, MINUTE - 1, False),
        ({"closing#1!partial": trace(spanning(9 * MINUTE, 9 * MINUTE))}, MINUTE, False),
    ],
)
def test_stored_windows_ask_for_an_epoch(
    traces: Mapping[str, Trace], after: int, due: bool
) -> None:
    assert is_due(CLOSING, PLAN, at({"closing": 0}, {"closing": after}), traces) is due


def test_state_that_can_no_longer_change() -> None:
    marks = {"closing": 2 * MINUTE, "patient": 5 * MINUTE}
    found = cutoffs(PLAN, marks, {"recent#2": 7})
    assert found == {
        "closing#1!partial": (PATH, 3 * MINUTE),
        "patient#1!partial": (PATIENT.horizon.path, 4 * MINUTE),  # two minutes later
        "recent#1": (END, 7),
    }
    assert cutoffs(PLAN, {}, {}) == {}


def test_segments_of_final_windows_are_let_go() -> None:
    old, mixed, unknown = spanning(1, 9), spanning(5, 10, epoch=2), segment(3)
    whole = trace(old, mixed, unknown)
    assert without_final(whole, PATH, 10).segments == (mixed, unknown)
    assert without_final(whole, PATH, 9) is whole
    assert without_final(whole, "other", 99) is whole


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(sorted)), st.integers(0, 30))
def test_only_what_is_final_as_a_whole_is_let_go(spans: list[list[int]], bound: int) -> None:
    segments = [spanning(low, high, epoch=n) for n, (low, high) in enumerate(spans, 1)]
    kept = without_final(trace(*segments), PATH, bound).segments
    for each in segments:
        assert (each in kept) == (each.spans[PATH][1] >= bound)


@pytest.mark.parametrize(
    ("start", "end", "before", "after", "ages"),
    [
        ((5, 5), (50, 50), 4, 5, True),  # rows come at 5
        ((5, 5), (50, 50), 5, 6, False),
        ((5, 5), (50, 50), 49, 50, True),  # and go at 50
        ((5, 5), (50, 50), 50, 60, False),
        ((5, 5), (50, 50), 6, 49, False),
        ((5, 5), (50, 50), None, 50, False),  # nothing was shown before: all is new
        ((0, 9), (0, 99), 9, 9, False),
        ((0, 9), (0, 99), 60, 50, False),  # a clock that is set back
        (None, (50, 50), 40, 60, True),
        (None, None, 0, 99, False),
    ],
)
def test_segments_that_hold_rows_which_come_or_go(
    start: tuple[int, int] | None,
    end: tuple[int, int] | None,
    before: int | None,
    after: int,
    ages: bool,
) -> None:
    spans = {name: span for name, span in ((START, start), (END, end)) if span is not None}
    one = segment(1, spans=spans)
    assert isinstance(AGED, Aged)
    assert that_age(AGED, (one,), before, after) == ((one,) if ages else ())


def test_views_of_which_rows_come_or_go() -> None:
    traces = {"recent#1": trace(segment(1, spans={START: (0, 0), END: (5000, 5000)}))}
    assert aging_due(PLAN, traces, {"recent#2": 4000}, 5) == {"recent"}
    assert aging_due(PLAN, traces, {"recent#2": 4000}, 4) == set()
    assert aging_due(PLAN, traces, {}, 5) == set()
    assert aging_due(PLAN, {}, {"recent#2": 4000}, 5) == set()


@pytest.mark.parametrize(
    ("shown_ms", "now_ms", "waits", "due", "turn"),
    [
        (0, 10_000, True, True, True),
        (0, 9_999, True, False, False),
        (0, 10_000, False, False, True),  # its turn, but there is nothing to show
        (None, 10_000, True, True, True),
    ],
)
def test_turns_of_the_wall_clock(
    shown_ms: int | None, now_ms: int, waits: bool, due: bool, turn: bool
) -> None:
    emitted_at = {} if shown_ms is None else {"slow": shown_ms}
    traces = {"slow!pending": trace(segment(1))} if waits else {}
    assert periodic_due(PLAN, traces, emitted_at, now_ms) == ({"slow"} if due else set())
    assert turns(PLAN, emitted_at, now_ms) == ({"slow"} if turn else set())
