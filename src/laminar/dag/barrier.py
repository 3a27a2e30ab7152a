"""Barriers: what lets a node with several inputs see one cut of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from laminar.model.ids import EdgeId, NodeId


class BarrierType(Enum):
    """How a checkpoint meets the epochs that are on their way."""

    ALIGNED = "aligned"
    """It waits until every node has finished the epoch that carries it."""
    UNALIGNED = "unaligned"
    """It overtakes them: what was on its way is stored with the checkpoint."""


@dataclass(frozen=True, slots=True)
class CheckpointBarrier:
    """Enters at the sources with an epoch and travels the edges with it."""

    checkpoint_id: int
    timestamp: int
    """When it was asked for, in milliseconds."""
    barrier_type: BarrierType = BarrierType.ALIGNED


class BarrierAligner:
    """Knows, for every node, over which of its edges a barrier has come already.

    An epoch is a barrier: its number ends what belongs to it. So the same rule that lets a node
    with several inputs step (all of them have delivered epoch e) lets it take a snapshot.

    Args:
        input_counts: node -> how many edges lead to it; a node that is not named has one.
    """

    def __init__(self, input_counts: Mapping[NodeId, int]) -> None:
        self._expected = dict(input_counts)
        self._arrived: dict[tuple[NodeId, int], set[EdgeId]] = {}
        self.alignments = 0
        """How often a node with several inputs had them all."""

    def receive_barrier(self, node: NodeId, edge: EdgeId, barrier: int) -> bool:
        """Note that a barrier came over an edge; say whether it has come over all of them."""
        expected = self._expected.get(node, 1)
        if expected == 1:
            return True
        arrived = self._arrived.setdefault((node, barrier), set())
        arrived.add(edge)
        if len(arrived) < expected:
            return False
        self.alignments += 1
        return True

    def complete_checkpoint(self, node: NodeId, barrier: int) -> None:
        """Forget a barrier that a node has dealt with, or that was called off."""
        self._arrived.pop((node, barrier), None)
