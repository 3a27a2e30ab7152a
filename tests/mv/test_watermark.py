from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.dag import DagBuilder
from laminar.errors import MvCycleDetected, ViewNotFound
from laminar.mv import CascadingWatermarkTracker, MaterializedView, MvRegistry


def mv(name: str, *sources: str) -> MaterializedView:
    return MaterializedView(name, "", sources)


def registry(*tables: str, **views: Sequence[str]) -> MvRegistry:
    built = MvRegistry()
    for table in tables:
        built.register_base_table(table)
    for name, sources in views.items():
        built.register(mv(name, *sources))
    return built


def tracker(*tables: str, **views: Sequence[str]) -> CascadingWatermarkTracker:
    return CascadingWatermarkTracker(registry(*tables, **views))


def combined() -> CascadingWatermarkTracker:
    return tracker("a", "b", combined=["a", "b"], below=["combined"])


class TestUpdate:
    def test_a_cascade_moves_from_the_source_to_the_last_view(self) -> None:
        marks = tracker("trades", ohlc_1s=["trades"], ohlc_1m=["ohlc_1s"], ohlc_1h=["ohlc_1m"])
        assert marks.update_watermark("trades", 60_000) == [
            ("trades", 60_000),
            ("ohlc_1s", 60_000),
            ("ohlc_1m", 60_000),
            ("ohlc_1h", 60_000),
        ]

    def test_several_inputs_give_their_minimum(self) -> None:
        marks = combined()
        assert marks.update_watermark("a", 100) == [("a", 100)]
        assert marks.get_watermark("combined") is None
        assert marks.update_watermark("b", 80) == [("b", 80), ("combined", 80), ("below", 80)]
        assert marks.update_watermark("b", 120) == [("b", 120), ("combined", 100), ("below", 100)]

    def test_a_fan_out_moves_every_reader(self) -> None:
        marks = tracker("t", x=["t"], y=["t"], z=["t"])
        moved = marks.update_watermark("t", 5)
        assert moved == [("t", 5), ("x", 5), ("y", 5), ("z", 5)]

    def test_a_diamond_moves_each_view_once(self) -> None:
        marks = tracker("a", b=["a"], c=["a"], d=["b", "c"])
        assert marks.update_watermark("a", 7) == [("a", 7), ("b", 7), ("c", 7), ("d", 7)]

    def test_a_view_whose_minimum_stays_is_not_reported(self) -> None:
        marks = combined()
        marks.update_watermark("a", 100)
        marks.update_watermark("b", 80)
        assert marks.update_watermark("a", 200) == [("a", 200)]

    @pytest.mark.parametrize("later", [99, 100, -(2**63)])
    def test_a_watermark_never_goes_back(self, later: int) -> None:
        marks = tracker("t", v=["t"])
        marks.update_watermark("t", 100)
        assert marks.update_watermark("t", later) == []
        assert marks.watermarks() == {"t": 100, "v": 100}

    def test_times_before_1970_are_watermarks_too(self) -> None:
        marks = tracker("t", v=["t"])
        assert marks.update_watermark("t", -5) == [("t", -5), ("v", -5)]

    def test_a_view_can_be_told_its_own_and_is_not_pulled_back_by_its_inputs(self) -> None:
        marks = combined()
        assert marks.update_watermark("combined", 50) == [("combined", 50), ("below", 50)]
        marks.update_watermark("a", 10)
        assert marks.update_watermark("b", 10) == [("b", 10)]
        assert marks.get_watermark("combined") == 50

    def test_unset_means_none_and_is_left_out_of_the_snapshot(self) -> None:
        marks = combined()
        assert marks.get_watermark("a") is None
        marks.update_watermark("b", 1)
        assert marks.watermarks() == {"b": 1}

    @pytest.mark.parametrize(
        "ask",
        [
            lambda marks, name: marks.update_watermark(name, 1),
            CascadingWatermarkTracker.get_watermark,
            CascadingWatermarkTracker.mark_idle,
            CascadingWatermarkTracker.mark_active,
            CascadingWatermarkTracker.is_idle,
        ],
    )
    def test_an_unknown_name_is_an_error_with_the_nearest(
        self, ask: Callable[[CascadingWatermarkTracker, str], object]
    ) -> None:
        with pytest.raises(ViewNotFound) as caught:
            ask(combined(), "combine")
        assert caught.value.suggestion == "combined"

    def test_a_dag_serves_as_graph_too(self) -> None:
        dag = DagBuilder().source("s").operator("f").sink("out")
        marks = CascadingWatermarkTracker(dag.connect("s", "f").connect("f", "out").build())
        assert marks.update_watermark("s", 3) == [("s", 3), ("f", 3), ("out", 3)]


class TestIdle:
    def test_an_idle_input_no_longer_holds_the_minimum(self) -> None:
        marks = combined()
        marks.update_watermark("a", 100)
        marks.update_watermark("b", 10)
        assert marks.mark_idle("b") == [("combined", 100), ("below", 100)]
        assert marks.update_watermark("a", 150)[-1] == ("below", 150)

    def test_an_input_that_never_spoke_can_be_idle(self) -> None:
        marks = combined()
        marks.update_watermark("a", 100)
        assert marks.mark_idle("b") == [("combined", 100), ("below", 100)]

    def test_back_from_idleness_a_slow_input_holds_but_does_not_pull(self) -> None:
        marks = combined()
        marks.update_watermark("a", 100)
        marks.update_watermark("b", 10)
        marks.mark_idle("b")
        assert marks.mark_active("b") == []
        assert marks.get_watermark("combined") == 100
        assert marks.update_watermark("a", 200) == [("a", 200)]
        assert marks.update_watermark("b", 120)[1:] == [("combined", 120), ("below", 120)]

    def test_a_view_over_idle_inputs_is_idle_and_keeps_its_value(self) -> None:
        marks = combined()
        marks.update_watermark("a", 100)
        marks.update_watermark("b", 10)
        marks.mark_idle("a")
        assert not marks.is_idle("combined")
        assert marks.mark_idle("b") == []
        assert marks.is_idle("combined")
        assert marks.is_idle("below")
        assert marks.get_watermark("combined") == 10

    def test_an_idle_view_is_left_out_further_down(self) -> None:
        marks = tracker("a", "b", f=["a"], g=["b"], j=["f", "g"])
        marks.update_watermark("b", 100)
        assert marks.mark_idle("a") == [("j", 100)]
        assert marks.is_idle("f")

    def test_what_an_idle_input_says_counts_once_it_is_active(self) -> None:
        marks = tracker("t", v=["t"])
        marks.mark_idle("t")
        assert marks.update_watermark("t", 5) == [("t", 5)]
        assert marks.mark_active("t") == [("v", 5)]

    def test_a_view_marked_idle_still_follows_its_inputs(self) -> None:
        marks = tracker("a", "b", f=["a"], j=["f", "b"])
        marks.mark_idle("f")
        marks.update_watermark("b", 9)
        assert marks.update_watermark("a", 5) == [("a", 5), ("f", 5)]
        assert marks.get_watermark("j") == 9

    def test_marking_twice_is_marking_once(self) -> None:
        marks = combined()
        marks.mark_idle("a")
        assert marks.mark_idle("a") == []
        marks.mark_active("a")
        assert not marks.is_idle("a")


class TestRestore:
    def test_a_snapshot_comes_back(self) -> None:
        marks = combined()
        marks.update_watermark("a", 100)
        marks.update_watermark("b", 80)
        snapshot = marks.watermarks()
        marks.update_watermark("b", 300)
        marks.mark_idle("a")
        marks.restore(snapshot)
        assert marks.watermarks() == snapshot
        assert not marks.is_idle("a")
        assert marks.update_watermark("b", 90)[1:] == [("combined", 90), ("below", 90)]

    def test_a_snapshot_is_a_copy(self) -> None:
        marks = combined()
        marks.watermarks()["a"] = 5
        assert marks.get_watermark("a") is None

    def test_names_that_have_gone_are_passed_over(self) -> None:
        marks = combined()
        marks.restore({"gone": 4, "a": 3})
        assert marks.watermarks() == {"a": 3}

    def test_views_newer_than_the_snapshot_follow_their_inputs(self) -> None:
        marks = combined()
        marks.restore({"a": 3, "b": 2})
        assert marks.watermarks() == {"a": 3, "b": 2, "combined": 2, "below": 2}


class TestGraphChanges:
    def test_a_new_view_starts_where_its_inputs_are(self) -> None:
        views = registry("t", v=["t"])
        marks = CascadingWatermarkTracker(views)
        marks.update_watermark("t", 10)
        views.register(mv("w", "v"))
        assert marks.get_watermark("w") == 10
        assert marks.update_watermark("t", 11) == [("t", 11), ("v", 11), ("w", 11)]

    def test_a_dropped_view_is_forgotten(self) -> None:
        views = registry("t", v=["t"])
        marks = CascadingWatermarkTracker(views)
        marks.update_watermark("t", 10)
        views.drop("v")
        assert marks.update_watermark("t", 11) == [("t", 11)]
        assert "v" not in marks
        with pytest.raises(ViewNotFound):
            marks.get_watermark("v")

    def test_a_replaced_view_keeps_its_value_and_follows_its_new_inputs(self) -> None:
        views = registry("a", "b", v=["a"])
        marks = CascadingWatermarkTracker(views)
        marks.update_watermark("a", 10)
        views.replace(mv("v", "b"))
        assert marks.get_watermark("v") == 10
        assert marks.update_watermark("b", 5) == [("b", 5)]
        assert marks.update_watermark("b", 20) == [("b", 20), ("v", 20)]
        assert marks.update_watermark("a", 30) == [("a", 30)]

    def test_idle_marks_survive_a_change(self) -> None:
        views = registry("a", "b", v=["a", "b"])
        marks = CascadingWatermarkTracker(views)
        marks.mark_idle("b")
        views.register(mv("w", "b"))
        assert marks.is_idle("w")
        assert marks.update_watermark("a", 1) == [("a", 1), ("v", 1)]

    def test_idle_marks_do_not_outlive_their_name(self) -> None:
        views = registry("t", v=["t"])
        marks = CascadingWatermarkTracker(views)
        marks.mark_idle("v")
        views.drop("v")
        assert "v" not in marks
        views.register(mv("v", "t"))
        assert not marks.is_idle("v")


class Naive:
    """The law, recomputed from scratch after every step."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.marked: set[str] = set()
        self.idle: set[str] = set()

    def settle(self, reads: Mapping[str, Sequence[str]]) -> None:
        self.values = {name: self.values[name] for name in reads if name in self.values}
        self.marked &= reads.keys()
        self.idle = set()
        for name, inputs in reads.items():
            active = [each for each in inputs if each not in self.idle]
            if name in self.marked or (inputs and not active):
                self.idle.add(name)
            if active and all(each in self.values for each in active):
                self.raise_to(name, min(self.values[each] for each in active))

    def raise_to(self, name: str, watermark: int) -> None:
        self.values[name] = max(self.values.get(name, watermark), watermark)


NAMES = ["t0", "t1", "t2", *(f"v{number}" for number in range(6))]
VIEWS = NAMES[3:]
SOURCES = st.lists(st.sampled_from(NAMES), max_size=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("update"), st.sampled_from(NAMES), st.integers(-20, 20)),
        st.tuples(st.just("idle"), st.sampled_from(NAMES), st.none()),
        st.tuples(st.just("active"), st.sampled_from(NAMES), st.none()),
        st.tuples(st.just("define"), st.sampled_from(VIEWS), SOURCES),
        st.tuples(st.just("drop"), st.sampled_from(VIEWS), st.none()),
    ),
    max_size=40,
)


def starting_registry(reads: Sequence[Sequence[int]]) -> MvRegistry:
    built = registry(*NAMES[:3])
    for number, view in enumerate(VIEWS):
        built.register(mv(view, *(NAMES[each % (number + 3)] for each in reads[number])))
    return built


def define(views: MvRegistry, name: str, sources: Sequence[str]) -> None:
    known = [each for each in sources if each in views or views.is_base_table(each)]
    # The property speaks of the graphs that exist.
    with suppress(MvCycleDetected):
        (views.replace if name in views else views.register)(mv(name, *known))


READS = st.lists(st.lists(st.integers(0, 99), max_size=3), min_size=6, max_size=6)


@given(READS, STEPS)
@settings(max_examples=300)
def test_tracker_agrees_with_recomputation(
    reads: list[list[int]], steps: list[tuple[str, str, object]]
) -> None:
    views = starting_registry(reads)
    marks, naive = CascadingWatermarkTracker(views), Naive()
    for verb, name, value in steps:
        before = dict(naive.values)
        # Nothing may be asked of the tracker here: each verb must notice a new graph by itself.
        here = views.dependency_map()
        moved: list[tuple[str, int]] | None = None
        if verb == "define":
            assert isinstance(value, list)
            define(views, name, value)
        elif verb == "drop" and name in views:
            views.drop(name, cascade=True)
        elif verb == "update" and name in here:
            assert isinstance(value, int)
            moved = marks.update_watermark(name, value)
            naive.raise_to(name, value)
        elif verb == "idle" and name in here:
            moved = marks.mark_idle(name)
            naive.marked.add(name)
        elif verb == "active" and name in here:
            moved = marks.mark_active(name)
            naive.marked.discard(name)
        naive.settle(views.dependency_map())
        if moved is not None:
            after = marks.watermarks()
            assert after == naive.values
            assert {each for each in here if marks.is_idle(each)} == naive.idle
            assert moved == [(each, at) for each, at in after.items() if before.get(each) != at]
