"""Time of one engine: what an epoch does because of it, and what stays if the epoch fails."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.dag.watermark import WatermarkAlignmentGroup
from laminar.delta.program import Aged, Emitted
from laminar.model.state import Clocks, EngineState
from laminar.runtime.catalog.source_options import InletOptions
from laminar.runtime.event_time.clocks import EventTime, WatermarkRow, alignment
from laminar.runtime.event_time.late_batch import LATE_SCHEMA, LateBatch, TimedResults

from ..parts import START_MS, Parts, segment, trace

S = 1_000_000
MINUTE = 60 * S
NOW = START_MS

WINDOW = "TUMBLE(ts, INTERVAL '1' MINUTE)"
SCRIPT = f"""
CREATE SOURCE t (k INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECONDS);
CREATE SOURCE u (k INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH (idle_timeout = '1 s');
CREATE TABLE names (k INT);
CREATE MATERIALIZED VIEW closing AS
  SELECT {WINDOW}.end AS e, COUNT(*) AS n FROM t GROUP BY {WINDOW} EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW recent AS SELECT k FROM t WHERE ts >= now() - INTERVAL '1' HOUR;
CREATE MATERIALIZED VIEW slow AS SELECT k FROM t EMIT PERIODICALLY INTERVAL '10' SECONDS;
CREATE MATERIALIZED VIEW both AS SELECT t.k FROM t JOIN u ON t.k = u.k;
"""


class DiskFull(Exception):
    """Stands for whatever keeps a commit from happening."""


def commit(time: EventTime, epoch: int, **behind: int) -> None:
    with time.kept(time.clocks, epoch, behind):
        pass


def late(relation: str, count: int) -> LateBatch:
    return LateBatch(relation, count, LATE_SCHEMA.empty_table())


def path_of(parts: Parts) -> str:
    found = parts.catalog.relations.by_name["closing#2"]
    assert isinstance(found, Emitted)
    return found.horizon.path


def test_an_epoch_knows_its_watermarks_its_clock_and_whose_turn_it_is() -> None:
    parts = Parts(SCRIPT)
    parts.time.clocks = Clocks(emitted_at={"slow": NOW - 9_000}, aged_to={"recent#2": 7})
    epoch_time = parts.time.begin({"t": {"0": 65 * S}}, NOW)
    assert epoch_time.before == {}
    # `both` waits for u.
    assert epoch_time.after == dict.fromkeys(("t", "closing", "recent", "slow"), 60 * S)
    assert (epoch_time.now_ms, epoch_time.due) == (NOW, frozenset())
    assert epoch_time.aged_to == {"recent#2": 7}
    assert parts.time.begin({}, NOW + 1000).due == {"slow"}


def test_views_that_time_alone_may_change() -> None:
    parts = Parts(SCRIPT)
    aged = parts.catalog.relations.by_name["recent#2"]
    assert isinstance(aged, Aged)
    traces = {
        "closing#1!partial": trace(segment(1, spans={path_of(parts): (MINUTE, MINUTE)})),
        "slow!pending": trace(segment(1)),
        "recent#1": trace(segment(1, spans={aged.node.end: (NOW * 1000, NOW * 1000)})),
    }
    parts.time.clocks = Clocks({"slow": NOW - 10_000}, {"recent#2": NOW * 1000 - 1})
    epoch_time = parts.time.begin({"t": {"0": 65 * S}}, NOW)
    assert parts.time.in_motion(epoch_time, traces) == {"closing", "slow", "recent"}
    assert parts.time.in_motion(epoch_time, {}) == set()
    # Behind an epoch that is under way, nobody knows yet what is stored.
    assert parts.time.in_motion(epoch_time, {}, is_behind=True) == {"closing"}


def test_time_alone_asks_for_an_epoch() -> None:
    parts = Parts(SCRIPT)
    traces = {"slow!pending": trace(segment(1))}
    parts.time.clocks = Clocks({"slow": NOW})
    assert not parts.time.is_due(traces, ())
    parts.clock.advance(10)
    assert parts.time.is_due(traces, ())
    assert not parts.time.is_due(traces, {"slow"})  # it would not move anyway
    parts.time.watermarks.advance("t", 5)
    assert parts.time.is_due({}, {"slow"})


def test_a_new_view_begins_now_and_its_clocks_with_it() -> None:
    parts = Parts(SCRIPT)
    parts.time.begin({"t": {"0": 65 * S}}, NOW)
    for view in ("slow", "recent", "closing"):
        epoch_time = parts.time.first(parts.catalog.programs[view])
        assert (epoch_time.before, epoch_time.now_ms) == ({}, NOW)
        assert epoch_time.after["t"] == 60 * S
    assert parts.time.clocks == Clocks({"slow": NOW}, {"recent#2": NOW * 1000})


def test_a_new_view_may_begin_where_another_one_stands() -> None:
    parts = Parts(SCRIPT)
    time, program = parts.time, parts.catalog.programs["both"]
    time.begin({"t": {"0": 65 * S}, "u": {"0": 10 * S}}, NOW)
    commit(time, 1)
    time.begin({"t": {"0": 165 * S}, "u": {"0": 20 * S}}, NOW)
    commit(time, 2, closing=1)
    assert time.first(program).after["both"] == 20 * S
    assert time.first(program, 1).after["both"] == 10 * S  # the least of its inputs then
    assert time.first(program, 1).after["t"] == 60 * S


def test_what_views_showed_and_what_was_late_is_remembered() -> None:
    parts = Parts(SCRIPT)
    parts.time.clocks = Clocks({"slow": 1}, {"recent#2": 2}, {"closing": 3})
    epoch_time = parts.time.begin({}, NOW)
    shown = TimedResults(frozenset(), frozenset({"slow"}), {"recent#2": 9})
    batches = [late("closing", 2), late("t", 1)]
    clocks = parts.time.after(epoch_time, [shown], batches, {}, {})
    assert clocks == Clocks({"slow": NOW}, {"recent#2": 9}, {"closing": 5, "t": 1})
    assert parts.time.clocks.late == {"closing": 3}  # nothing is true before the commit


def test_state_of_windows_that_are_final_goes_with_the_epoch() -> None:
    parts = Parts(SCRIPT)
    path, name = path_of(parts), "closing#1!partial"
    old = segment(1, spans={path: (MINUTE, MINUTE)})
    new = segment(2, spans={path: (9 * MINUTE, 9 * MINUTE)})
    traces = {name: trace(old, new)}
    epoch_time = parts.time.begin({"t": {"0": 65 * S}}, NOW)
    parts.time.after(epoch_time, [], [], traces, {})
    assert traces[name].segments == (new,)
    # It stays as long as others stand on it.
    traces = {name: trace(old, new)}
    parts.time.after(epoch_time, [], [], traces, {}, lets_go=False)
    assert traces[name].segments == (old, new)
    # A view that stays behind has not shown it yet.
    parts.time.after(epoch_time, [], [], traces, {"closing": 0})
    assert traces[name].segments == (old, new)


def test_what_was_shown_as_a_whole_is_empty_afterwards() -> None:
    parts = Parts(SCRIPT)
    traces = {"slow!pending": trace(segment(1))}
    emptied = TimedResults(frozenset(traces), frozenset({"slow"}), {})
    parts.time.after(parts.time.begin({}, NOW), [emptied], [], traces, {})
    assert traces["slow!pending"].segments == ()


def test_a_commit_that_fails_leaves_time_as_it_was() -> None:
    parts = Parts(SCRIPT)
    time = parts.time
    time.begin({"t": {"0": 65 * S}}, NOW)
    commit(time, 1)
    before, clocks, marks = time.saved(EngineState()), time.clocks, dict(time.watermarks.current)
    time.begin({"t": {"0": 500 * S}}, NOW)
    with pytest.raises(DiskFull), time.kept(Clocks({"slow": 9}), 2, {}):
        raise DiskFull
    assert (time.saved(EngineState()), time.clocks, time.watermarks.current) == (
        before,
        clocks,
        marks,
    )


def test_a_dropped_relation_is_forgotten_with_its_parts() -> None:
    parts = Parts(SCRIPT)
    parts.time.clocks = Clocks({"slow": 1}, {"recent#2": 2, "recentish#2": 3}, {"recent": 4})
    with parts.time.forgetting(["recent"]):
        pass
    assert parts.time.clocks == Clocks({"slow": 1}, {"recentish#2": 3}, {})


def test_where_event_time_stands() -> None:
    parts = Parts(SCRIPT)
    parts.time.begin({"t": {"0": 65 * S}, "u": {"0": 10 * S}}, NOW)
    commit(parts.time, 1)
    rows = {each.relation: each for each in parts.time.rows()}
    assert rows["t"] == WatermarkRow("t", True, "ts", 60 * S, False)
    assert rows["both"] == WatermarkRow("both", False, None, 10 * S, False)
    assert "names" not in rows
    assert parts.time.useless() == {"closing#1!partial": (path_of(parts), 2 * MINUTE)}


def test_a_silent_source_is_waited_for_as_long_as_it_says() -> None:
    parts = Parts(SCRIPT)
    parts.time.begin({"t": {"0": 65 * S}, "u": {"0": 10 * S}}, NOW)
    commit(parts.time, 1)
    assert parts.time.begin({"t": {"0": 95 * S}}, NOW + 999).after["both"] == 10 * S
    assert parts.time.begin({}, NOW + 1000).after["both"] == 90 * S


def test_the_tightest_bound_of_a_group_counts() -> None:
    found = alignment(
        {
            "a": InletOptions(alignment_group="g", max_drift_us=5),
            "b": InletOptions(),
            "c": InletOptions(alignment_group="h", max_drift_us=7),
            "d": InletOptions(alignment_group="g", max_drift_us=3),
        }
    )
    assert found == [
        WatermarkAlignmentGroup("g", ("a", "d"), 3),
        WatermarkAlignmentGroup("h", ("c",), 7),
    ]


TIMES = st.integers(0, 300).map(lambda seconds: seconds * S)
STEPS = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from("tu"), st.dictionaries(st.sampled_from("pq"), TIMES)),
        st.booleans(),
        st.sampled_from([{}, {"closing": 0}, {"both": 0}]),
    ),
    max_size=8,
)


@settings(max_examples=40)
@given(STEPS)
def test_reopened_time_goes_on_as_if_nothing_had_been(
    steps: list[tuple[dict[str, dict[str, int]], bool, dict[str, int]]],
) -> None:
    parts = Parts(SCRIPT)
    parts.time.clocks = Clocks({"slow": 5}, {"recent#2": 6}, {"closing": 7})
    for epoch, (largest, succeeds, behind) in enumerate(steps, 1):
        parts.time.begin(largest, NOW)
        before = parts.time.saved(EngineState())
        if succeeds:
            commit(parts.time, epoch, **behind)
        else:
            with pytest.raises(DiskFull), parts.time.kept(Clocks({"slow": 1}), epoch, behind):
                raise DiskFull
            assert parts.time.saved(EngineState()) == before
        again = parts.reopened()
        assert again.time.saved(EngineState()) == parts.time.saved(EngineState())
        assert again.time.clocks == parts.time.clocks
        assert again.time.watermarks.current == parts.time.watermarks.current
        for ahead in ({}, {"t": {"p": 400 * S}}, {"u": {"p": 400 * S}}):
            expected = parts.time.begin(ahead, NOW)
            assert parts.reopened().time.begin(ahead, NOW) == expected
            parts.time.watermarks.back()
