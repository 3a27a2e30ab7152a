"""Decides when a checkpoint begins and when all nodes are part of it; others do the writing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from laminar.checkpoint.config import DagCheckpointConfig
from laminar.checkpoint.metadata import DagCheckpointMetadata
from laminar.dag.barrier import CheckpointBarrier
from laminar.dag.topology import StreamingDag
from laminar.errors.dag import CheckpointTimeout, TooManyCheckpoints
from laminar.model.ids import NodeId


@dataclass(slots=True)
class CheckpointProgress:
    """A checkpoint from its trigger until it is finalized or given up."""

    checkpoint_id: int
    pending_nodes: set[NodeId]
    """Nodes that the barrier has not passed yet."""
    started_at: int
    """Milliseconds from 1970."""
    since: int = 0
    """The same by the clock that intervals are measured by."""
    trigger: str = "manual"
    completed_nodes: set[NodeId] = field(default_factory=set)
    node_snapshots: dict[NodeId, bytes] = field(default_factory=dict)
    source_offsets: dict[str, Any] = field(default_factory=dict)


def _wall_clock() -> int:
    return time.time_ns() // 1_000_000


def _ticks() -> int:
    return time.monotonic_ns() // 1_000_000


class DagCheckpointCoordinator:
    """Follows the checkpoints of one topology from their barriers to their end.

    A barrier enters with an epoch; each node reports once it has finished that epoch. When all
    have, the checkpoint can be finalized. Not for several threads at once: its owner holds a lock.

    Args:
        dag: whose nodes have to report.
        config: when and how.
        clock: milliseconds from 1970.
        ticks: milliseconds that never go back; intervals are measured by them. A clock that
            is given serves for both.
        first_id: the number of the first checkpoint.
    """

    def __init__(
        self,
        dag: StreamingDag,
        config: DagCheckpointConfig | None = None,
        *,
        clock: Callable[[], int] = _wall_clock,
        ticks: Callable[[], int] | None = None,
        first_id: int = 1,
    ) -> None:
        self.dag = dag
        self.config = config or DagCheckpointConfig()
        self._clock = clock
        self._ticks = ticks or (_ticks if clock is _wall_clock else clock)
        self._next_id = first_id
        self._active: dict[int, CheckpointProgress] = {}

    @property
    def active(self) -> Mapping[int, CheckpointProgress]:
        """The checkpoints under way, by number."""
        return MappingProxyType(self._active)

    @property
    def next_checkpoint_id(self) -> int:
        """The number that the next checkpoint gets."""
        return self._next_id

    def is_due(self, last_ms: int) -> bool:
        """Whether the interval since the last checkpoint began is over, and there is room.

        Args:
            last_ms: when it began, by `ticks`.
        """
        interval = self.config.interval
        if interval is None or len(self._active) >= self.config.max_concurrent:
            return False
        return self._ticks() - last_ms >= interval * 1000

    def trigger_checkpoint(self, trigger: str = "manual") -> int:
        """Begin a checkpoint; its barrier goes with the next epoch.

        Raises:
            TooManyCheckpoints: as many as allowed are under way.
        """
        if len(self._active) >= self.config.max_concurrent:
            raise TooManyCheckpoints(self.config.max_concurrent, list(self._active))
        checkpoint_id, self._next_id = self._next_id, self._next_id + 1
        nodes = set(self.dag.nodes)
        progress = CheckpointProgress(checkpoint_id, nodes, self._clock(), self._ticks(), trigger)
        self._active[checkpoint_id] = progress
        return checkpoint_id

    def barrier(self, checkpoint_id: int) -> CheckpointBarrier:
        """Return what an epoch has to carry for a checkpoint."""
        started = self._active[checkpoint_id].started_at
        return CheckpointBarrier(checkpoint_id, started, self.config.barrier_type)

    def on_node_snapshot_complete(
        self, checkpoint_id: int, node_id: NodeId, snapshot: bytes = b""
    ) -> bool:
        """Note that a node is part of a checkpoint; say whether all are now.

        A report for a checkpoint that was given up changes nothing.
        """
        progress = self._active.get(checkpoint_id)
        if progress is None:
            return False
        progress.completed_nodes.add(node_id)
        progress.pending_nodes.discard(node_id)
        progress.node_snapshots[node_id] = snapshot
        return not progress.pending_nodes

    def note_offsets(self, checkpoint_id: int, offsets: Mapping[str, Any]) -> None:
        """Note how far every source was read by the epoch that a checkpoint holds."""
        progress = self._active.get(checkpoint_id)
        if progress is not None:
            progress.source_offsets = dict(offsets)

    def finalize_checkpoint(self, checkpoint_id: int) -> DagCheckpointMetadata | None:
        """End a checkpoint that all nodes are part of; None if it is not one."""
        progress = self._active.get(checkpoint_id)
        if progress is None or progress.pending_nodes:
            return None
        del self._active[checkpoint_id]
        names = {node: each.name for node, each in self.dag.nodes.items()}
        return DagCheckpointMetadata(
            checkpoint_id,
            (self._ticks() - progress.since) / 1000,
            len(progress.completed_nodes),
            dict(progress.source_offsets),
            trigger=progress.trigger,
            node_snapshots={
                names[node]: state for node, state in progress.node_snapshots.items() if state
            },
        )

    def expire(self) -> list[CheckpointTimeout]:
        """Give up the checkpoints that some node has not reported to in time."""
        now, limit = self._ticks(), self.config.alignment_timeout * 1000
        late = [each for each in self._active.values() if now - each.since >= limit]
        found = []
        for each in late:
            if each.pending_nodes:
                del self._active[each.checkpoint_id]
                elapsed = (now - each.since) / 1000
                found.append(CheckpointTimeout(each.checkpoint_id, elapsed))
        return found
