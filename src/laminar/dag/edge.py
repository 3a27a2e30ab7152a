"""An edge: who reads whom, and through which kind of channel."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from laminar.dag.partitioning import PartitioningStrategy
from laminar.model.ids import EdgeId, NodeId


class DagChannelType(StrEnum):
    """How rows cross an edge; follows from the shape of the DAG and is never given."""

    SPSC = "SPSC"
    """One producer, one consumer: the producer is fused into the consumer's statement."""

    SPMC = "SPMC"
    """One producer, several consumers: computed once, read by all."""

    MPSC = "MPSC"
    """Several producers, one consumer: the consumer waits for all, then merges."""


def derive_channel_type(source_fan_out: int, target_fan_in: int) -> DagChannelType:
    """MPSC if the target merges, else SPMC if the source is shared, else SPSC."""
    if target_fan_in > 1:
        # Fan-in wins even below a shared source: the consumer has to align its inputs.
        return DagChannelType.MPSC
    return DagChannelType.SPMC if source_fan_out > 1 else DagChannelType.SPSC


@dataclass(frozen=True, slots=True)
class DagEdge:
    """A directed connection from an output port to an input port.

    Without a partitioning strategy rows stay in the partitions they are in.
    """

    id: EdgeId
    source: NodeId
    target: NodeId
    channel_type: DagChannelType
    partitioning: PartitioningStrategy | None = None
    source_port: int = 0
    target_port: int = 0
