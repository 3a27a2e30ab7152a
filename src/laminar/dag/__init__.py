"""The topology: what is connected to what, in which order it runs, and where output goes."""

from laminar.dag.barrier import BarrierAligner, BarrierType, CheckpointBarrier
from laminar.dag.builder import DagBuilder, FanOutBuilder
from laminar.dag.edge import DagChannelType, DagEdge, derive_channel_type
from laminar.dag.multicast import MulticastBuffer
from laminar.dag.node import DagNode, DagNodeType
from laminar.dag.operator import Operator, StatefulOperator, operator_kind
from laminar.dag.partitioning import Custom, HashBy, PartitioningStrategy, RoundRobin, Single
from laminar.dag.topology import (
    MAX_PORTS,
    RoutingEntry,
    RoutingTable,
    SharedStageMetadata,
    StreamingDag,
)

__all__ = [
    "MAX_PORTS",
    "BarrierAligner",
    "BarrierType",
    "CheckpointBarrier",
    "Custom",
    "DagBuilder",
    "DagChannelType",
    "DagEdge",
    "DagNode",
    "DagNodeType",
    "FanOutBuilder",
    "HashBy",
    "MulticastBuffer",
    "Operator",
    "PartitioningStrategy",
    "RoundRobin",
    "RoutingEntry",
    "RoutingTable",
    "SharedStageMetadata",
    "Single",
    "StatefulOperator",
    "StreamingDag",
    "derive_channel_type",
    "operator_kind",
]
