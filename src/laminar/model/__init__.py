"""The words everything else is said in; imports nothing but errors."""

from laminar.model.ids import EdgeId, EpochId, NodeId, StatePartitionId
from laminar.model.schema import Field, Schema

__all__ = ["EdgeId", "EpochId", "Field", "NodeId", "Schema", "StatePartitionId"]
