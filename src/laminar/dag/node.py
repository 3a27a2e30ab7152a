"""A node: one stage of the DAG, from a source to a sink."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from laminar.model.ids import EdgeId, NodeId, StatePartitionId
from laminar.model.schema import Schema

_FIRST_PARTITION = StatePartitionId(0)


class DagNodeType(StrEnum):
    """What a node does, and so what may be fused, shared or checkpointed."""

    SOURCE = "Source"
    STATELESS_OPERATOR = "StatelessOperator"
    STATEFUL_OPERATOR = "StatefulOperator"
    MATERIALIZED_VIEW = "MaterializedView"
    SINK = "Sink"


@dataclass(frozen=True, slots=True)
class DagNode:
    """A stage and the edges it hangs on, both directions in the order they were declared.

    A schema that is None is not known yet, and is not checked.
    """

    id: NodeId
    name: str
    node_type: DagNodeType
    # Left out of the hash: a connector or an operator of the user's need not have one.
    operator: Any = field(default=None, hash=False)
    inputs: tuple[EdgeId, ...] = ()
    outputs: tuple[EdgeId, ...] = ()
    output_schema: Schema | None = None
    input_schema: Schema | None = None
    state_partition: StatePartitionId = _FIRST_PARTITION
