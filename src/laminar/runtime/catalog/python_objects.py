"""What a DAG that was built in Python leaves in the engine: objects that SQL has no words for."""

from __future__ import annotations

from typing import Any

from laminar.dag import PartitioningStrategy
from laminar.delta.program import Applied
from laminar.runtime.catalog.definitions import OperatorDefinition

OBJECT = "object"
"""Stands for a connector that is a Python object; it has to be given again after a restart."""


Spread = tuple[tuple[str, PartitioningStrategy], ...]
"""Inputs of a node whose rows an edge places, and how."""


def applied(definition: OperatorDefinition, operator: Any, spread: Spread = ()) -> Applied:
    """Return the relation that an operator maintains."""
    return Applied(definition.shape, operator, definition.reads, spread)
