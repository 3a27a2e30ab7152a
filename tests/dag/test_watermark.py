from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.dag import DagBuilder, StreamingDag
from laminar.dag.watermark import (
    DagWatermarkTracker,
    Partition,
    PartitionedWatermark,
    WatermarkAlignmentGroup,
)
from laminar.errors import DuplicateName, InvalidSetting, ViewNotFound
from laminar.mv import MaterializedView, MvRegistry


def fan_out() -> StreamingDag:
    """trades -> ohlc_1s -> {ohlc_1m, anomalies}."""
    return (
        DagBuilder()
        .source("trades")
        .operator("ohlc_1s")
        .connect("trades", "ohlc_1s")
        .fan_out("ohlc_1s", lambda b: b.branch("ohlc_1m").branch("anomalies"))
        .build()
    )


def join() -> StreamingDag:
    """Two sources, {left, right} -> joined."""
    builder = DagBuilder().source("left").source("right").operator("joined")
    return builder.connect("left", "joined").connect("right", "joined").build()


class TestPartitions:
    def test_the_slowest_partition_counts(self) -> None:
        source = PartitionedWatermark()
        source.add_partition(0)
        source.add_partition(1)
        assert source.update(0, 100, now_ms=0) is None
        assert source.combined is None
        assert source.update(1, 50, now_ms=0) == 50
        assert source.update(1, 70, now_ms=0) == 70
        assert source.update(0, 200, now_ms=0) is None
        assert source.combined == 70

    def test_an_unannounced_partition_is_added_by_speaking(self) -> None:
        source = PartitionedWatermark()
        assert source.update("a.json", 5, now_ms=0) == 5
        assert source.update("b.json", 3, now_ms=0) is None
        assert source.update("a.json", 9, now_ms=0) is None
        assert source.update("b.json", 7, now_ms=0) == 7

    def test_neither_a_partition_nor_the_whole_goes_back(self) -> None:
        source = PartitionedWatermark()
        source.update(0, 100, now_ms=0)
        assert source.update(0, 40, now_ms=0) is None
        source.add_partition(1)
        source.update(1, 10, now_ms=0)
        assert source.combined == 100
        assert source.update(1, 120, now_ms=0) is None
        assert source.update(0, 130, now_ms=0) == 120

    def test_adding_a_partition_again_changes_nothing(self) -> None:
        source = PartitionedWatermark()
        source.update(0, 5, now_ms=0)
        source.add_partition(0, now_ms=9)
        assert source.update(1, 4, now_ms=0) is None
        assert source.update(1, 8, now_ms=0) is None
        assert source.update(0, 7, now_ms=0) == 7

    def test_a_silent_partition_is_left_out_after_the_timeout(self) -> None:
        source = PartitionedWatermark(idle_timeout_ms=1000)
        source.update(0, 10, now_ms=0)
        source.update(1, 100, now_ms=500)
        assert source.expire(now_ms=999) is None
        assert source.expire(now_ms=1000) == 100
        assert source.expire(now_ms=1001) is None

    def test_time_passes_with_updates_too(self) -> None:
        source = PartitionedWatermark(idle_timeout_ms=1000)
        source.update(0, 10, now_ms=0)
        assert source.update(1, 100, now_ms=5000) == 100

    def test_a_partition_that_speaks_again_holds_again(self) -> None:
        source = PartitionedWatermark(idle_timeout_ms=1000)
        source.update(0, 10, now_ms=0)
        source.update(1, 100, now_ms=1000)
        assert source.update(0, 20, now_ms=1500) is None
        assert source.update(1, 200, now_ms=1600) is None
        assert source.update(0, 150, now_ms=1700) == 150

    def test_all_silent_keeps_the_value(self) -> None:
        source = PartitionedWatermark(idle_timeout_ms=10)
        source.update(0, 5, now_ms=0)
        assert not source.is_idle(now_ms=9)
        assert source.is_idle(now_ms=10)
        assert source.expire(now_ms=10) is None
        assert source.combined == 5

    @pytest.mark.parametrize(("added_at", "held_until"), [(0, 10), (None, 15)])
    def test_an_expected_partition_that_never_speaks_expires_too(
        self, added_at: int | None, held_until: int
    ) -> None:
        source = PartitionedWatermark(idle_timeout_ms=10)
        source.add_partition(0, added_at)
        assert source.update(1, 7, now_ms=5) is None
        assert source.update(1, 8, now_ms=held_until - 1) is None
        assert source.update(1, 9, now_ms=held_until) == 9

    def test_without_partitions_there_is_nothing_to_say(self) -> None:
        source = PartitionedWatermark(idle_timeout_ms=10)
        assert source.expire(now_ms=100) is None
        assert not source.is_idle(now_ms=100)

    @pytest.mark.parametrize("timeout", [0, -1])
    def test_a_timeout_is_positive(self, timeout: int) -> None:
        with pytest.raises(InvalidSetting):
            PartitionedWatermark(timeout)
        with pytest.raises(InvalidSetting):
            DagWatermarkTracker(join(), idle_timeout_ms=timeout)


STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(-9, 9), st.integers(0, 8)), min_size=1, max_size=20
)


@given(STEPS, st.sampled_from([None, 5]))
def test_the_combined_watermark_is_the_highest_minimum_of_the_live(
    steps: list[tuple[Partition, int, int]], timeout: int | None
) -> None:
    source = PartitionedWatermark(timeout)
    now, best = 0, None
    highest: dict[Partition, int] = {}
    heard: dict[Partition, int] = {}
    for partition, watermark, pause in steps:
        now += pause
        heard[partition] = now
        highest[partition] = max(highest.get(partition, watermark), watermark)
        live = [highest[each] for each in highest if timeout is None or now - heard[each] < timeout]
        raised = best is None or min(live) > best
        best = min(live) if best is None else max(best, min(live))
        assert source.update(partition, watermark, now) == (best if raised else None)
        assert source.combined == best


class TestAlignment:
    @pytest.mark.parametrize(
        ("watermarks", "ahead"),
        [
            ({"a": 0, "b": 10, "c": 5}, ()),
            ({"a": 0, "b": 11, "c": 5}, ("b",)),
            ({"a": 100, "b": 0, "c": 11}, ("a", "c")),
            ({"a": 100}, ()),
            ({"b": 100, "c": 0, "other": -500}, ("b",)),
            ({}, ()),
        ],
    )
    def test_members_beyond_the_drift_are_ahead(
        self, watermarks: dict[str, int], ahead: tuple[str, ...]
    ) -> None:
        assert WatermarkAlignmentGroup("g", ("a", "b", "c"), 10).ahead(watermarks) == ahead

    def test_a_drift_is_not_negative(self) -> None:
        with pytest.raises(InvalidSetting):
            WatermarkAlignmentGroup("g", ("a",), -1)

    def test_a_fast_source_pauses_until_the_slow_one_has_caught_up(self) -> None:
        marks = DagWatermarkTracker(join())
        marks.add_alignment_group(WatermarkAlignmentGroup("g", ("left", "right"), 10))
        marks.advance_source_watermark("left", 100)
        assert marks.paused_sources() == ()
        marks.advance_source_watermark("right", 50)
        assert marks.paused_sources() == ("left",)
        marks.advance_source_watermark("right", 90)
        assert marks.paused_sources() == ()

    def test_an_idle_source_pauses_nobody(self) -> None:
        marks = DagWatermarkTracker(join())
        marks.add_alignment_group(WatermarkAlignmentGroup("g", ("left", "right"), 10))
        marks.advance_source_watermark("left", 100)
        marks.advance_source_watermark("right", 50)
        marks.mark_idle("right")
        assert marks.paused_sources() == ()

    def test_a_source_in_two_groups_is_paused_once(self) -> None:
        marks = DagWatermarkTracker(join())
        for name in ("g", "h"):
            marks.add_alignment_group(WatermarkAlignmentGroup(name, ("right", "left"), 1))
        marks.advance_source_watermark("left", 100)
        marks.advance_source_watermark("right", 50)
        assert marks.paused_sources() == ("left",)

    def test_groups_have_names_of_their_own_and_known_members(self) -> None:
        marks = DagWatermarkTracker(join())
        group = WatermarkAlignmentGroup("g", ("left",), 1)
        marks.add_alignment_group(group)
        with pytest.raises(DuplicateName):
            marks.add_alignment_group(group)
        with pytest.raises(ViewNotFound):
            marks.add_alignment_group(WatermarkAlignmentGroup("h", ("lefty",), 1))


class TestDag:
    def test_a_source_reaches_every_branch(self) -> None:
        marks = DagWatermarkTracker(fan_out())
        assert marks.advance_source_watermark("trades", 60_000) == [
            ("trades", 60_000),
            ("ohlc_1s", 60_000),
            ("ohlc_1m", 60_000),
            ("anomalies", 60_000),
        ]
        assert marks.get_watermark("anomalies") == 60_000

    def test_a_fan_in_takes_the_minimum(self) -> None:
        marks = DagWatermarkTracker(join())
        marks.advance_source_watermark("left", 100)
        assert marks.get_watermark("joined") is None
        assert marks.advance_source_watermark("right", 80)[1:] == [("joined", 80)]
        assert marks.advance_source_watermark("right", 60) == []

    def test_partitions_combine_before_the_graph_does(self) -> None:
        marks = DagWatermarkTracker(join())
        marks.advance_source_watermark("right", 500)
        assert marks.advance_partition_watermark("left", 0, 100, now_ms=0)[1:] == [("joined", 100)]
        marks.add_partition("left", 1, now_ms=0)
        assert marks.advance_partition_watermark("left", 0, 300, now_ms=0) == []
        assert marks.advance_partition_watermark("left", 1, 200, now_ms=0) == [
            ("left", 200),
            ("joined", 200),
        ]

    def test_a_silent_partition_stops_holding(self) -> None:
        marks = DagWatermarkTracker(fan_out(), idle_timeout_ms=100)
        marks.advance_partition_watermark("trades", 0, 10, now_ms=0)
        marks.advance_partition_watermark("trades", 1, 50, now_ms=90)
        assert marks.expire_idle(now_ms=99) == []
        assert [name for name, _ in marks.expire_idle(now_ms=100)] == [
            "trades",
            "ohlc_1s",
            "ohlc_1m",
            "anomalies",
        ]

    def test_a_source_with_only_silent_partitions_is_idle_until_one_speaks(self) -> None:
        marks = DagWatermarkTracker(join(), idle_timeout_ms=100)
        marks.advance_source_watermark("right", 500)
        marks.advance_partition_watermark("left", 0, 10, now_ms=0)
        assert marks.expire_idle(now_ms=100) == [("joined", 500)]
        assert marks.is_idle("left")
        assert marks.expire_idle(now_ms=101) == []
        assert marks.advance_partition_watermark("left", 0, 5, now_ms=150) == []
        assert not marks.is_idle("left")
        assert marks.advance_source_watermark("right", 600) == [("right", 600)]

    def test_a_source_that_delivers_a_watermark_is_awake(self) -> None:
        marks = DagWatermarkTracker(join())
        marks.advance_source_watermark("right", 500)
        marks.mark_idle("left")
        marks.mark_idle("right")
        assert marks.advance_source_watermark("left", 700) == [("left", 700), ("joined", 700)]
        assert not marks.is_idle("left")
        assert marks.is_idle("right")
        assert marks.mark_active("right") == []

    def test_a_new_partition_wakes_its_source(self) -> None:
        marks = DagWatermarkTracker(join(), idle_timeout_ms=100)
        marks.advance_partition_watermark("left", 0, 10, now_ms=0)
        marks.expire_idle(now_ms=100)
        assert marks.is_idle("left")
        marks.add_partition("left", 1, now_ms=100)
        assert not marks.is_idle("left")

    def test_an_unknown_source_is_an_error(self) -> None:
        marks = DagWatermarkTracker(join())
        with pytest.raises(ViewNotFound):
            marks.advance_source_watermark("lefty", 1)
        with pytest.raises(ViewNotFound):
            marks.advance_partition_watermark("lefty", 0, 1, now_ms=0)

    def test_a_dropped_source_no_longer_expires(self) -> None:
        views = MvRegistry()
        views.register_base_table("t")
        views.register(MaterializedView("v", "", ["t"]))
        marks = DagWatermarkTracker(views, idle_timeout_ms=10)
        marks.advance_partition_watermark("t", 0, 1, now_ms=0)
        views.drop_base_table("t", cascade=True)
        assert marks.expire_idle(now_ms=100) == []

    def test_a_snapshot_comes_back_and_partitions_start_anew(self) -> None:
        marks = DagWatermarkTracker(fan_out())
        marks.advance_partition_watermark("trades", 0, 10, now_ms=0)
        snapshot = marks.watermarks()
        marks.advance_partition_watermark("trades", 0, 90, now_ms=0)
        marks.restore(snapshot)
        assert marks.watermarks() == snapshot
        assert marks.advance_partition_watermark("trades", 0, 20, now_ms=0)[0] == ("trades", 20)
