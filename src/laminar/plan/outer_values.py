"""The values that columns of an outer query take: what a nested query is evaluated for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from laminar.model.same_row import decoded, encoded
from laminar.plan.nodes import Aggregate
from laminar.plan.scope import Scope, reads, unique


@dataclass(frozen=True, slots=True)
class Values:
    """The distinct values of some columns of a plan, under names of their own.

    An expression may tell values apart that Spark groups as one, so here they are told apart by
    their bytes: as codes, from which the values are had again.
    """

    node: Aggregate
    names: Mapping[str, str]  # column of the plan -> its name here
    kinds: Mapping[str, str] = field(default_factory=dict)  # column -> type, of those with codes

    def rename(self, expression: exp.Expr) -> exp.Expr:
        """Let a resolved expression read the values instead of the plan's columns."""

        def one(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Column) and part.name in self.names and not part.table:
                return self._value(part.name)
            return part

        return expression.copy().transform(one)

    def codes(self) -> list[tuple[exp.Expr, str]]:
        """Return (what to compare over the plan's columns, the column here), by which they join."""
        return [(self._code(column), name) for column, name in self.names.items()]

    def _value(self, column: str) -> exp.Expr:
        name, kind = self.names[column], self.kinds.get(column)
        return unique(name) if kind is None else over_column(decoded(name, kind))

    def _code(self, column: str) -> exp.Expr:
        kind = self.kinds.get(column)
        return unique(column) if kind is None else over_column(encoded(column, kind))


def over_column(written: str) -> exp.Expr:
    """Parse an expression over a column of a plan."""
    parsed: exp.Expr = exp.maybe_parse(written, dialect="spark")
    return parsed.transform(lambda p: unique(p.name) if isinstance(p, exp.Column) else p)


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
