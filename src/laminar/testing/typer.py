"""Types without Spark: what a test says, and INT for everything else."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Any

from laminar.delta.program import Shape
from laminar.model.char_columns import Chars
from laminar.plan.context import Casts
from laminar.plan.lower import lower
from laminar.plan.nodes import Node
from laminar.plan.parse import parse_query
from laminar.plan.reasons import NoRule


class FixedTyper:
    """Stands in for Spark's analyzer where only the text of statements matters.

    It knows declared relations by their columns, and refuses nothing: what is wrong with a query,
    only Spark tells.

    Args:
        by_column: types by the unique names of plan columns, or by the names that a query gives.
        times: strings that stand for times, wherever they are.
    """

    def __init__(
        self, by_column: Mapping[str, str] | None = None, times: Container[str] = ()
    ) -> None:
        self.by_column = dict(by_column or {})
        self.declared: list[Shape] = []
        self._times = times
        self.time_zone = "UTC"
        self.recursion_levels: int | None = 100
        self.unplanned = ""
        self.spark_joins_asof = False

    def unfit(self, _kind: str, *, pushed: bool) -> str:  # noqa: ARG002
        """Take columns of all types."""
        return ""

    def types(self, node: Node) -> Mapping[str, str]:
        """Return column -> type of a plan."""
        return {name: self.by_column.get(name, "int") for name in node.columns}

    def of_sql(self, sql: str) -> Mapping[str, str]:
        """Return column -> type of a statement: every alias in it is a column."""
        names = re.findall(r"\bAS (\w+)", sql)
        return {name: self.by_column.get(name, "bigint") for name in names}

    def compared(self, _left: str, _right: str, _operator: str) -> tuple[Casts, Casts] | None:
        """Compare all types as they are."""
        return (), ()

    def of_query(self, sql: str) -> list[tuple[str, str]]:
        """Return (column, type) of a user's query."""
        return [(name, self.by_column.get(name, "int")) for name in self._names(sql)]

    def _names(self, sql: str) -> tuple[str, ...]:
        relations = {shape.name: shape.columns for shape in self.declared}
        try:
            return lower(parse_query(sql), relations, self).names
        except NoRule:  # then nothing but the query itself knows how its columns are called
            written: Any = parse_query(sql)
            return tuple(written.named_selects)

    def chars_of(self, _sql: str) -> Chars:
        """Know no CHAR columns."""
        return ()

    def pads_chars(self) -> bool:
        """Say that Spark treats CHAR(n) as it does by itself."""
        return True

    def reads_as_time(self, _sql: str, text: str) -> bool:
        """Say whether a string stands for a time."""
        return text in self._times

    def body_of(self, _function: str) -> str:
        """Know no functions that are written in SQL."""
        return ""

    def functions(self) -> tuple[str, ...]:
        """Return the names of the functions that it may suggest."""
        return ("sum", "count")

    def built_in(self) -> frozenset[str]:
        """Return the names of the functions that nobody has to bring, in lower case."""
        return frozenset({"sum", "count"})

    def let_call(self, sql: Mapping[str, str], python: Mapping[str, str]) -> None:
        """Nothing is refused, so nothing has to be known."""

    def declare(self, shape: Shape, *, numbered: bool = False) -> None:  # noqa: ARG002 - all alike
        """Remember a relation."""
        self.declared.append(shape)
