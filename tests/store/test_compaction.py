from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.model.trace import Segment, Trace
from laminar.store.compaction import _level, plan, stretches

FANOUT, BASE = 4, 10


def segment(lo: int, hi: int, rows: int) -> Segment:
    return Segment((f"{lo}-{hi}",), lo, hi, rows, rows, True, ("c",))


def merged(group: tuple[Segment, ...]) -> Segment:
    return segment(group[0].lo, group[-1].hi, sum(one.rows for one in group))


@dataclass
class Log:
    """A trace that is compacted after every append, and the account of what that wrote."""

    fanout: int = FANOUT
    base: int = BASE
    trace: Trace = field(default_factory=lambda: Trace("a INT, __weight BIGINT"))
    appended: int = 0
    written: int = 0
    longest: int = 0
    appends: int = 0

    def append(self, rows: int) -> None:
        self.appends += 1
        self.appended += rows
        self.trace = self.trace.append(segment(self.appends, self.appends, rows))
        for group in plan(self.trace.segments, self.fanout, base=self.base):
            self.written += sum(one.rows for one in group)
            self.trace = self.trace.replace(group, merged(group))
        self.longest = max(self.longest, len(self.trace.segments))

    def check(self) -> None:
        assert self.trace.rows == self.appended
        assert self.trace.segments[0].lo == 1
        assert self.trace.segments[-1].hi == self.appends
        assert all(old.hi + 1 == new.lo for old, new in pairwise(self.trace.segments))
        levels = _level(self.appended, self.fanout, self.base) + 1
        assert self.longest <= 2 * (self.fanout - 1) * levels
        tiny = self.appends * self.fanout**2 * self.base / (self.fanout - 1)
        assert self.written <= 2 * levels * self.appended + tiny


def log_of(sizes: Iterable[int]) -> Log:
    log = Log()
    for rows in sizes:
        log.append(rows)
    return log


sizes = st.one_of(st.integers(1, 20), st.integers(1, 2_000), st.integers(1, 1_000_000))


@given(st.lists(sizes, min_size=1, max_size=200))
def test_laws_hold_for_any_sizes(rows: list[int]) -> None:
    log_of(rows).check()


@pytest.mark.parametrize("seed", range(5))
def test_bounds_hold_over_thousands_of_appends(seed: int) -> None:
    dice = random.Random(seed)
    log = log_of(int(10 ** dice.uniform(0, dice.choice([1, 3, 6]))) for _ in range(5_000))
    log.check()


@pytest.mark.parametrize(
    "pattern",
    [
        [1],
        [1_000],
        [1, 100_000],
        [1] * (FANOUT - 1) + [1_000_000],
        [1, 10, 100, 1_000, 10_000, 100_000],
        [100_000, 10_000, 1_000, 100, 10, 1],
        [BASE * FANOUT - 1, BASE * FANOUT],
    ],
)
def test_bounds_hold_for_hostile_patterns(pattern: list[int]) -> None:
    log_of(pattern * (4_000 // len(pattern))).check()


def test_equal_deltas_make_a_geometric_trace() -> None:
    log = log_of([BASE * FANOUT] * 1_000)
    counts = [one.rows // (BASE * FANOUT) for one in log.trace.segments]
    assert counts == [256, 256, 256, 64, 64, 64, 16, 16, 4, 4]


def test_a_large_delta_does_not_drag_the_others_along() -> None:
    old = [segment(1, 1, 5_000), segment(2, 2, 3), segment(3, 3, 4), segment(4, 4, 6_000)]
    assert plan(old, FANOUT, base=BASE) == ((old[1], old[2]),)


def test_cascading_merges_are_written_once() -> None:
    big = [segment(at, at, BASE * FANOUT) for at in range(1, FANOUT)]
    small = [segment(at, at, BASE) for at in range(FANOUT, 2 * FANOUT)]
    assert plan([*big, *small], FANOUT, base=BASE) == ((*big, *small),)


def test_nothing_is_merged_across_a_cursor() -> None:
    log = [segment(at, at, BASE) for at in range(1, 9)]
    assert stretches(log, ()) == [tuple(log)]
    assert stretches(log, {3, 5}) == [tuple(log[:3]), tuple(log[3:5]), tuple(log[5:])]
    assert stretches(log, {0, 8, 20}) == [tuple(log)]
    merged_once = [segment(1, 4, BASE), *log[5:]]
    assert stretches(merged_once, {4, 7}) == [
        tuple(merged_once[:1]), tuple(merged_once[1:3]), tuple(merged_once[3:]),
    ]  # fmt: skip


@pytest.mark.parametrize("count", range(FANOUT))
def test_a_short_trace_is_left_alone(count: int) -> None:
    assert plan([segment(at, at, 1) for at in range(1, count + 1)], FANOUT, base=BASE) == ()


@pytest.mark.parametrize(
    ("rows", "level"), [(0, 0), (39, 0), (40, 1), (159, 1), (160, 2), (10 * 4**30, 30)]
)
def test_levels_meet_exactly(rows: int, level: int) -> None:
    assert _level(rows, FANOUT, BASE) == level
