from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.dag.watermark import WatermarkAlignmentGroup
from laminar.errors import NoWatermark
from laminar.model.event_time import END_OF_TIME
from laminar.mv import MaterializedView, MvRegistry
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.event_time.watermarks import SourceDrift, Watermarks
from laminar.runtime.ingest.arriving_rows import (
    BITS,
    as_late,
    largest,
    numbered,
    split_at,
    without_part,
)

START = datetime(2026, 1, 1, tzinfo=UTC)


def watching(idle_timeout_ms: int | None = None) -> Watermarks:
    registry = MvRegistry()
    for name in ("s", "u", "names"):
        registry.register_base_table(name)
    registry.register(MaterializedView("v", "", ("s", "names")))
    registry.register(MaterializedView("w", "", ("v", "u")))
    marks = Watermarks(registry, idle_timeout_ms)
    for name, time in (("s", "ts"), ("u", "ts"), ("names", None)):
        delay = 5 if time else 0
        marks.add(TableDefinition(name, (), event_time=time, delay_us=delay))
    return marks


def test_a_view_follows_the_slowest_input_that_has_a_watermark() -> None:
    marks = watching()
    epoch_time = marks.move({"s": {"0": 100}}, 0)
    assert epoch_time.after == {"s": 95, "v": 95}
    with marks.kept(1, {}):
        pass
    assert marks.move({"u": {"0": 60}}, 0).after["w"] == 55


def test_the_slowest_part_holds_a_source_back() -> None:
    marks = watching()
    marks.move({"s": {"p": 100, "q": 50}}, 0)
    with marks.kept(1, {}):
        pass
    assert marks.current["s"] == 45
    marks.move({"s": {"p": 200}}, 0)
    with marks.kept(1, {}):
        pass
    assert marks.current["s"] == 45
    # After a restart the silent part is not forgotten.
    again = watching()
    again.restore(marks.current, {}, marks.parts, 0)
    assert again.move({"s": {"p": 300}}, 0).after["s"] == 45
    assert again.move({"s": {"q": 290}}, 0).after["s"] == 285


def test_a_silent_part_is_left_out_after_a_while() -> None:
    marks = watching(idle_timeout_ms=1000)
    marks.move({"s": {"p": 100, "q": 50}}, 0)
    with marks.kept(1, {}):
        pass
    marks.move({"s": {"p": 200}}, 900)
    with marks.kept(1, {}):
        pass
    assert not marks.is_pending(950)
    assert marks.is_pending(1001)
    assert marks.move({}, 1001).after["s"] == 195


def test_a_failed_epoch_moves_nothing() -> None:
    marks = watching()
    marks.move({"s": {"0": 100}}, 0)
    with marks.kept(1, {}):
        pass
    marks.advance("s", 500)
    marks.advance("s", 400)  # what was said stays said
    marks.move({"s": {"0": 300}}, 0)
    with pytest.raises(RuntimeError), marks.kept(1, {}):
        raise RuntimeError
    assert marks.current["s"] == 95
    assert marks.is_pending(0)
    assert marks.move({"s": {"0": 101}}, 0).after["s"] == 500
    with pytest.raises(NoWatermark):
        marks.advance("names", 1)
    with pytest.raises(NoWatermark):
        marks.advance("v", 1)


def test_an_epoch_that_begins_behind_another_begins_where_that_one_ends() -> None:
    marks = watching()
    marks.advance("s", 50)
    first = marks.move({"s": {"0": 100}}, 0)
    assert marks.unheard == {}  # it is the first epoch's, and no other acts on it
    marks.advance("s", 400)
    assert marks.unheard == {"s": 400}
    second = marks.move({"s": {"0": 200}, "u": {"0": 60}}, 0)
    assert (first.before, first.after) == ({}, {"s": 95, "v": 95})
    assert (second.before["s"], second.after["s"]) == (95, 400)
    with marks.kept(1, {}, first):
        assert marks.settle(1, {}) == first.after  # what its manifest says
    assert (marks.current, marks.parts, marks.said) == (first.after, {"s": {"0": 95}}, {"s": 400})
    third = marks.move({}, 0)
    assert third.before == second.after
    with marks.kept(2, {}, second):
        pass
    assert (marks.current, marks.said, marks.cuts) == (second.after, {}, {2: second.after})
    marks.back()  # the third was called off
    assert marks.move({}, 0).before == second.after


def test_a_commit_that_fails_calls_off_what_has_begun_behind_it() -> None:
    marks = watching()
    first = marks.move({"s": {"0": 100}}, 0)
    marks.move({"s": {"0": 200}}, 0)
    with pytest.raises(RuntimeError), marks.kept(1, {}, first):
        raise RuntimeError
    assert marks.current == {}
    again = marks.move({"s": {"0": 100}}, 0)
    assert (again.before, again.after["s"]) == ({}, 95)


def test_after_a_failed_epoch_nobody_has_been_silent_for_ages() -> None:
    marks = watching(idle_timeout_ms=1000)
    now = 1_767_225_600_000
    marks.move({"s": {"p": 100, "q": 50}}, now)
    with marks.kept(1, {}):
        pass
    marks.move({"s": {"p": 200}}, now + 500)
    with pytest.raises(RuntimeError), marks.kept(2, {}):
        raise RuntimeError
    assert not marks.is_pending(now + 600)
    assert marks.move({"s": {"p": 200}}, now + 600).after["s"] == 45
    marks.back()
    assert marks.move({"s": {"p": 200}}, now + 700).after["s"] == 45
    assert marks.move({}, now + 1650).after["s"] == 195


def test_a_part_that_falls_back_says_nothing_new() -> None:
    marks = watching()
    for newest in (100, 50):
        marks.move({"s": {"p": newest}}, 0)
        with marks.kept(1, {}):
            pass
    assert marks.parts == {"s": {"p": 95}}


def test_what_was_said_before_a_replay_is_heard_again() -> None:
    marks = watching()
    marks.hear({"s": 70, "names": 5, "gone": 9})  # only who still has event time
    assert marks.said == {"s": 70}
    marks.end("u")
    assert marks.move({}, 0).after == {"s": 70, "v": 70, "u": END_OF_TIME, "w": 70}


@pytest.mark.parametrize(
    ("read", "ahead"),
    [
        ({}, set()),
        ({"s": 120}, set()),  # its watermark would be 115, and u stands at 95
        ({"s": 126}, {"s"}),
        ({"s": 126, "u": 110}, set()),
        ({"s": 126, "names": 0}, {"s"}),
    ],
)
def test_a_source_that_is_too_far_ahead_of_its_group(read: dict[str, int], ahead: set[str]) -> None:
    marks = watching()
    marks.configure(None, {}, [WatermarkAlignmentGroup("g", ("s", "u"), 25)])
    marks.move({"s": {"0": 100}, "u": {"0": 100}}, 0)
    found = marks.drift()
    assert {name for name in ("s", "u", "names") if found.is_ahead(name, read)} == ahead


def test_without_groups_nobody_is_ahead() -> None:
    assert watching().drift() == SourceDrift()


def committed(marks: Watermarks, epoch: int, **behind: int) -> dict[str, int]:
    """Commit what was moved, while some views stay at their epochs; return where all stand."""
    with marks.kept(epoch, behind):
        pass
    return dict(marks.current)


def test_a_view_that_stays_behind_stays_at_its_watermark() -> None:
    marks = watching()
    marks.move({"s": {"0": 100}, "u": {"0": 60}}, 0)
    assert committed(marks, 1) == {"s": 95, "u": 55, "v": 95, "w": 55}
    marks.move({"s": {"0": 200}, "u": {"0": 90}}, 0)
    assert committed(marks, 2, w=1) == {"s": 195, "u": 85, "v": 195, "w": 55}
    marks.move({"u": {"0": 300}}, 0)
    assert committed(marks, 3, w=1) == {"s": 195, "u": 295, "v": 195, "w": 55}
    assert set(marks.cuts) == {1, 3}
    step = marks.between(marks.move({}, 0), 1, 4)
    assert (step.before["w"], step.after["w"]) == (55, 195)
    assert (step.before["s"], step.after["s"]) == (95, 195)
    assert committed(marks, 4)["w"] == 195
    assert set(marks.cuts) == {4}


def test_a_view_that_was_left_behind_without_a_watermark_has_none() -> None:
    # Windows that it holds have not been shown: nothing of it may be taken for final.
    marks = watching()
    marks.move({"s": {"0": 100}}, 0)
    assert committed(marks, 1) == {"s": 95, "v": 95}  # u has not spoken, so w does not move
    marks.move({"u": {"0": 60}}, 0)
    assert committed(marks, 2, w=1) == {"s": 95, "u": 55, "v": 95}
    assert marks.between(marks.move({}, 0), 1, 3).before.get("w") is None
    assert committed(marks, 3)["w"] == 55


def test_a_view_that_begins_at_an_older_epoch_begins_at_its_watermark() -> None:
    registry = MvRegistry()
    for name in ("s", "u", "names"):
        registry.register_base_table(name)
    registry.register(MaterializedView("v", "", ("s", "names")))
    marks = Watermarks(registry)
    for name, time in (("s", "ts"), ("u", "ts"), ("names", None)):
        marks.add(TableDefinition(name, (), event_time=time))
    marks.move({"s": {"0": 100}}, 0)
    committed(marks, 1)
    marks.move({"s": {"0": 200}, "u": {"0": 60}}, 0)
    committed(marks, 2, v=1)
    registry.register(MaterializedView("x", "", ("v", "names")))
    registry.register(MaterializedView("y", "", ("v", "u")))
    assert marks.marks_at(1) == {"s": 100, "v": 100, "x": 100}  # u had not spoken then
    assert marks.marks_at(2) == {"s": 200, "u": 60, "v": 200, "x": 200, "y": 60}
    assert committed(marks, 2, v=1, x=1, y=1) == {"s": 200, "u": 60, "v": 100, "x": 100}


MOVES = st.lists(
    st.tuples(
        st.dictionaries(
            st.sampled_from("su"), st.dictionaries(st.sampled_from("pq"), st.integers(0, 99))
        ),
        st.dictionaries(st.sampled_from("su"), st.integers(0, 99)),
        st.sampled_from(["commits", "fails", "is taken back"]),
        st.sampled_from([{}, {"w": 0}, {"v": 0, "w": 0}]),
        st.integers(0, 800),
    ),
    max_size=10,
)


@given(MOVES, st.sampled_from([None, 1000]))
def test_watermarks_never_go_back(
    steps: list[tuple[dict[str, dict[str, int]], dict[str, int], str, dict[str, int], int]],
    idle_timeout_ms: int | None,
) -> None:
    marks, now, epoch = watching(idle_timeout_ms), 1_000_000, 1
    stays: dict[str, int] = {}
    for read, said, outcome, behind, passed in steps:
        now += passed
        before = dict(marks.current)
        for name, mark in said.items():
            marks.advance(name, mark)
        kept = (dict(marks.said), dict(marks.parts), dict(marks.cuts))
        epoch_time = marks.move(read, now)
        assert epoch_time.before == before
        assert all(epoch_time.after[name] >= mark for name, mark in before.items())
        # A view is never further than what it waits for.
        for view, inputs in (("v", ("s",)), ("w", ("v", "u"))):
            awake = [each for each in inputs if not marks.is_idle(each)]
            if view in epoch_time.after and awake and idle_timeout_ms is None:
                assert epoch_time.after[view] <= min(epoch_time.after[each] for each in awake)
        if outcome == "commits":
            # A view stays where it is, or comes along for good.
            stays = {view: stays.get(view, epoch - 1) for view in behind}
            after = committed(marks, epoch, **stays)
            assert all(after[name] >= mark for name, mark in before.items())
            assert all(after.get(view) == before.get(view) for view in stays)
            assert marks.said == {}
            epoch += 1
            continue
        if outcome == "fails":
            with pytest.raises(RuntimeError), marks.kept(epoch, stays):
                raise RuntimeError
        else:
            marks.back()
        assert marks.current == before
        assert (marks.said, marks.parts, marks.cuts) == kept


def times(*seconds: float | None) -> pa.Array:
    moments = [None if s is None else START + timedelta(seconds=s) for s in seconds]
    return pa.array(moments, pa.timestamp("us", tz="UTC"))


def test_parts_are_named_in_a_column_of_their_own() -> None:
    rows = pa.table({"ts": times(1, 3, 2, None), "__partition": ["a", "a", "b", "c"]})
    base = int(START.timestamp() * 1_000_000)
    assert largest(rows, "ts") == {"a": base + 3_000_000, "b": base + 2_000_000}
    assert without_part(rows).column_names == ["ts"]
    assert largest(without_part(rows), "ts") == {"0": base + 3_000_000}
    assert largest(pa.table({"ts": times(None)}), "ts") == {}


def test_rows_far_ahead_stay_out() -> None:
    rows = pa.table({"ts": times(1, 50, None), "x": [1, 2, 3]})
    limit = int(START.timestamp() * 1_000_000) + 10_000_000
    kept, ahead = split_at(rows, "ts", limit)
    assert kept.column("x").to_pylist() == [1, 3]
    assert ahead is not None
    batch = as_late("s", "ts", ahead, 7, 10)
    assert (batch.count, batch.rows.column("reason").to_pylist()) == (1, ["future"])
    assert '"x": 2' in batch.rows.column("row").to_pylist()[0]
    assert split_at(kept, "ts", limit) == (kept, None)


def test_rows_are_numbered_as_they_come() -> None:
    pushed = pa.table({"x": [1, 2, 3], "__arrival": [None, 7, None], "__weight": [1, -1, -1]})
    found = numbered(pushed.set_column(1, "__arrival", pa.array([None, 7, None], pa.int64())), 2)
    # What is taken back keeps the number it was given, even none.
    assert found.column("__arrival").to_pylist() == [2 << BITS, 7, None]
    read = numbered(pa.table({"x": [5, 6]}), 3)
    assert read.column("__arrival").to_pylist() == [3 << BITS, (3 << BITS) + 1]
