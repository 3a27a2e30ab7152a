"""The values that columns of an outer query take: what a nested query is evaluated for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from laminar.plan.nodes import Aggregate
from laminar.plan.scope import Scope, reads, unique


@dataclass(frozen=True, slots=True)
class Values:
    """The distinct values of some columns of a plan, under names of their own."""

    node: Aggregate
    names: Mapping[str, str]  # column of the plan -> its name here

    def rename(self, expression: exp.Expr) -> exp.Expr:
        """Let a resolved expression read the values instead of the plan's columns."""

        def one(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Column) and part.name in self.names and not part.table:
                return unique(self.names[part.name])
            return part

        return expression.copy().transform(one)


@dataclass(slots=True)
class Domain:
    """The outer values a nested query is evaluated for."""

    outer: Scope
    values: Values
    used: set[str] = field(default_factory=set)  # outer columns that were asked for

    @property
    def columns(self) -> tuple[str, ...]:
        """The domain's own columns."""
        return self.values.node.columns

    def lookup(self, column: exp.Column) -> exp.Expr | None:
        """Resolve a column of the outer query to the domain's."""
        found = self.outer.lookup(column)
        if found is None or not reads(found[0]) <= frozenset(self.values.names):
            return None
        self.used |= reads(found[0])
        return self.values.rename(found[0])
