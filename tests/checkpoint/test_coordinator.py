"""A checkpoint begins with a barrier and ends when every node has reported, or in time."""

from __future__ import annotations

from datetime import datetime

import pytest

import laminar
from laminar import DagBuilder, DagCheckpointConfig, DagCheckpointCoordinator
from laminar.testing.clock import ManualClock


def diamond() -> laminar.StreamingDag:
    builder = DagBuilder().source("s", schema="n BIGINT")
    builder.fan_out("s", lambda b: b.branch("l", "SELECT n FROM s").branch("r", "SELECT n FROM s"))
    return (
        builder.operator("d", "SELECT * FROM l UNION ALL SELECT * FROM r")
        .connect("l", "d")
        .connect("r", "d")
        .build()
    )


def coordinator(
    config: DagCheckpointConfig | None = None,
) -> tuple[DagCheckpointCoordinator, ManualClock]:
    clock = ManualClock(datetime(2026, 1, 1))
    return DagCheckpointCoordinator(diamond(), config, clock=clock), clock


def test_the_defaults_are_those_of_the_specification() -> None:
    config = DagCheckpointConfig()
    assert (config.interval, config.alignment_timeout) == (30.0, 60.0)
    assert (config.barrier_type.value, config.incremental, config.max_concurrent) == (
        "aligned",
        True,
        2,
    )


def test_it_is_complete_when_all_nodes_are_part_of_it() -> None:
    made, clock = coordinator()
    first = made.trigger_checkpoint()
    barrier = made.barrier(first)
    assert (barrier.checkpoint_id, barrier.timestamp) == (1, clock())
    nodes = list(made.dag.nodes)
    clock.advance(1.5)
    for node in nodes[:-1]:
        assert not made.on_node_snapshot_complete(first, node)
    assert made.finalize_checkpoint(first) is None
    assert made.active[first].pending_nodes == {nodes[-1]}
    assert made.on_node_snapshot_complete(first, nodes[-1], b"state")
    done = made.finalize_checkpoint(first)
    assert done is not None
    assert (done.checkpoint_id, done.duration, done.nodes_snapshotted) == (1, 1.5, 4)
    assert done.node_snapshots == {made.dag.nodes[nodes[-1]].name: b"state"}
    assert made.finalize_checkpoint(first) is None
    assert made.trigger_checkpoint() == 2


def test_a_node_that_does_not_report_ends_it_and_nothing_else() -> None:
    made, clock = coordinator(DagCheckpointConfig(alignment_timeout=10))
    first = made.trigger_checkpoint()
    clock.advance(6)
    second = made.trigger_checkpoint()
    clock.advance(4)
    (error,) = made.expire()
    assert isinstance(error, laminar.CheckpointTimeout)
    assert (error.checkpoint_id, error.elapsed) == (first, 10.0)
    assert list(made.active) == [second]
    # Its late report is not taken for one of another checkpoint.
    assert not made.on_node_snapshot_complete(first, next(iter(made.dag.nodes)))
    assert made.active[second].completed_nodes == set()


def test_there_is_a_limit_and_an_interval() -> None:
    made, clock = coordinator(DagCheckpointConfig(interval=30, max_concurrent=2))
    began = clock()
    assert not made.is_due(began)
    clock.advance(30)
    assert made.is_due(began)
    made.trigger_checkpoint()
    made.trigger_checkpoint()
    assert not made.is_due(began)
    with pytest.raises(laminar.TooManyCheckpoints, match="1, 2"):
        made.trigger_checkpoint()
    clock.advance(60)
    assert len(made.expire()) == 2  # no node has reported in time
    assert made.trigger_checkpoint() == 3
    manual, _ = coordinator(DagCheckpointConfig(interval=None))
    assert not manual.is_due(0)


@pytest.mark.parametrize(
    "wrong", [{"interval": 0}, {"alignment_timeout": 0}, {"max_concurrent": 0}, {"retained": 0}]
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(laminar.InvalidSetting):
        DagCheckpointConfig(**wrong)  # type: ignore[arg-type]


def test_intervals_go_by_a_clock_that_is_never_set_back() -> None:
    wall, ticks = ManualClock(datetime(2026, 1, 2)), ManualClock(datetime(2026, 1, 1))
    made = DagCheckpointCoordinator(diamond(), clock=wall, ticks=ticks)
    last = ticks()
    wall.advance(-86_400)
    assert not made.is_due(last)
    ticks.advance(30)
    assert made.is_due(last)
    made.trigger_checkpoint()
    wall.advance(86_400)
    assert made.expire() == []
    ticks.advance(60)
    assert [each.elapsed for each in made.expire()] == [60.0]


def test_a_checkpoint_knows_how_far_sources_were_read() -> None:
    found, _ = coordinator()
    number = found.trigger_checkpoint()
    for node in found.dag.nodes:
        found.on_node_snapshot_complete(number, node)
    found.note_offsets(number, {"s": 3})
    found.note_offsets(99, {"s": 4})  # one that was given up
    assert found.active[number].source_offsets == {"s": 3}
    made = found.finalize_checkpoint(number)
    assert made is not None
    assert made.source_offsets == {"s": 3}
