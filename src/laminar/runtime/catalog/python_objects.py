"""What a DAG that was built in Python leaves in the engine: objects that SQL has no words for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from laminar.connectors.sink import AT_LEAST_ONCE
from laminar.dag import PartitioningStrategy
from laminar.delta.program import Applied
from laminar.runtime.catalog.definitions import OperatorDefinition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OBJECT = "object"
"""Stands for a connector that is a Python object; it has to be given again after a restart."""


Spread = tuple[tuple[str, PartitioningStrategy], ...]
"""Inputs of a node whose rows an edge places, and how."""


@dataclass(frozen=True, slots=True)
class CodeSink:
    """A function, or a connector, that Python code hands in as a sink."""

    write: Callable[[int, DataFrame], object]
    promise: str = AT_LEAST_ONCE


def applied(definition: OperatorDefinition, operator: Any, spread: Spread = ()) -> Applied:
    """Return the relation that an operator maintains."""
    return Applied(definition.shape, operator, definition.reads, spread)
