"""Small numbers that name things, typed so that they cannot be mixed up."""

from __future__ import annotations

from typing import NewType

NodeId = NewType("NodeId", int)
"""A node of one DAG; dense from 0, so it indexes arrays."""

EdgeId = NewType("EdgeId", int)
"""An edge of one DAG; dense from 0."""

StatePartitionId = NewType("StatePartitionId", int)
"""Where a node keeps its state."""

EpochId = NewType("EpochId", int)
"""One step of the whole DAG; the first committed epoch is 1, 0 is the empty database."""
