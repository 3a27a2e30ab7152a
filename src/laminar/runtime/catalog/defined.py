"""What a database consists of now: definitions, settings, and the objects behind them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from laminar.connectors.source import Source
from laminar.errors import OperatorNotFound
from laminar.runtime.catalog.catalog import Catalog
from laminar.runtime.catalog.definitions import OperatorDefinition, TableDefinition
from laminar.runtime.catalog.python_objects import OBJECT
from laminar.runtime.catalog.settings import Settings, TimeSettings


@dataclass(slots=True)
class Defined:
    """Whoever changes it has the writer's turn.

    A change of definitions works on a copy of the catalog and replaces it as a whole, so whoever
    keeps this sees definitions of one kind: those before, or those after.
    """

    catalog: Catalog
    settings: Settings
    time_settings: TimeSettings
    sources: dict[str, Source] = field(default_factory=dict)
    """Table -> the connector that its rows come from."""
    operators: dict[str, Any] = field(default_factory=dict)
    """View -> the object of Python code that maintains it."""

    def tables(self) -> dict[str, TableDefinition]:
        """Return the tables and sources."""
        return {
            name: each
            for name, each in self.catalog.definitions.items()
            if isinstance(each, TableDefinition)
        }

    def require_attached(self) -> None:
        """Refuse to run while an object of Python code is missing."""
        for name, each in self.catalog.definitions.items():
            is_source = isinstance(each, TableDefinition) and each.connector == OBJECT
            detached = isinstance(each, OperatorDefinition) and name not in self.operators
            if detached or (is_source and name not in self.sources):
                raise OperatorNotFound(name)
