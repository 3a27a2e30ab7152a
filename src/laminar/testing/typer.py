"""Types without Spark: what a test says, and INT for everything else."""

from __future__ import annotations

import re
from collections.abc import Mapping

from laminar.delta.program import Shape
from laminar.plan.nodes import Node


class FixedTyper:
    """Stands in for Spark's analyzer where only the text of statements matters.

    Args:
        by_column: types of plan columns, by their unique names.
    """

    def __init__(self, by_column: Mapping[str, str] | None = None) -> None:
        self.by_column = dict(by_column or {})
        self.declared: list[Shape] = []

    def types(self, node: Node) -> Mapping[str, str]:
        """Return column -> type of a plan."""
        return {name: self.by_column.get(name, "int") for name in node.columns}

    def of_sql(self, sql: str) -> Mapping[str, str]:
        """Return column -> type of a statement: every alias in it is a column."""
        names = re.findall(r"\bAS (\w+)", sql)
        return {name: self.by_column.get(name, "bigint") for name in names}

    def declare(self, shape: Shape) -> None:
        """Remember a relation."""
        self.declared.append(shape)
