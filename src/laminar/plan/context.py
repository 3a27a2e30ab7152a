"""What every part of the lowering shares: fresh names, known relations, types, nested queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from sqlglot import exp

from laminar.model.char_columns import Chars
from laminar.plan.nodes import Again, Node, Project, Scan
from laminar.plan.outer_values import Domain
from laminar.plan.scope import Scope

Casts: TypeAlias = tuple[str, ...]
"""The types that a value is cast to, one after the other; none if it stays as it is."""


class Typer(Protocol):
    """Tells the Spark type of every column of a plan."""

    @property
    def time_zone(self) -> str:
        """The zone of the session."""
        ...

    @property
    def recursion_levels(self) -> int | None:
        """How many levels a recursion may have if it does not say so itself; None for any."""
        ...

    def types(self, node: Node) -> Mapping[str, str]:
        """Return column -> type, as Spark spells it."""
        ...

    def of_sql(self, sql: str) -> Mapping[str, str]:
        """Return column -> type of a statement over nothing but literals."""
        ...

    def compared(self, left: str, right: str, operator: str) -> tuple[Casts, Casts] | None:
        """Return what Spark casts values of two types to before it compares them.

        None if it does something else to them. The operator may be IN, of a nested query.
        """
        ...


@dataclass(frozen=True, slots=True)
class Lowered:
    """A plan and the names its columns show to the user, by position.

    A query that is planned for a domain has the domain's columns after those.
    """

    node: Node
    names: tuple[str, ...]
    chars: Chars = ()  # of those names, of a whole query


@dataclass(frozen=True, slots=True)
class CommonTable:
    """A WITH item: its query, the items it may itself refer to, and what it is evaluated for."""

    query: exp.Expr
    names: tuple[str, ...]
    visible: Mapping[str, CommonTable]
    domain: Domain | None = None
    loops: Loops | None = None
    """Set if it reads itself."""
    again: Again | None = None
    """Set within its own step: the rows that the step is given."""


@dataclass(frozen=True, slots=True)
class Loops:
    """What a WITH item that reads itself says of it."""

    name: str
    most: int | None  # levels, if it says how many


CommonTables = Mapping[str, CommonTable]


class Attach(Protocol):
    """Joins every nested query of an expression to a plan, and puts a column in its place."""

    def __call__(
        self,
        ctx: Context,
        node: Node,
        scope: Scope,
        ctes: CommonTables,
        expression: exp.Expr,
        /,
    ) -> tuple[Node, exp.Expr]:
        """Return the plan with what was joined, and the expression over its columns."""
        ...


@dataclass(slots=True)
class Context:
    """What one lowering knows of relations, and the columns it has named so far."""

    relations: Mapping[str, tuple[str, ...]]  # relation in lower case -> columns
    spelling: Mapping[str, str]  # relation in lower case -> its name
    typer: Typer
    times: Mapping[str, frozenset[str]] = field(default_factory=dict)  # columns of event time
    arrivals: frozenset[str] = frozenset()  # relations in lower case whose rows are numbered
    declared: Mapping[str, Chars] = field(default_factory=dict)  # relation -> its CHAR columns
    chars: dict[str, str] = field(default_factory=dict)  # column of the plan -> its CHAR(n)
    # Queries nest in expressions, and expressions in queries: these two close the circle.
    query: Callable[[exp.Expr, Domain | None, CommonTables], Lowered] = field(init=False)
    attach: Attach = field(init=False)
    _next: int = 0

    def fresh(self) -> str:
        """Return a column name that occurs nowhere else in this plan."""
        self._next += 1
        return f"c{self._next}"

    def named_after(self, expression: str) -> str:
        """Return such a name for an expression; that of a CHAR column is one, too."""
        name = self.fresh()
        if expression in self.chars:
            self.chars[name] = self.chars[expression]
        return name

    def scan(self, relation: str) -> Lowered:
        """Read a relation under fresh column names."""
        columns = self.relations[relation]
        items = tuple((column, self.fresh()) for column in columns)
        known = dict(self.declared.get(relation, ()))
        self.chars |= {name: known[column] for column, name in items if column in known}
        return Lowered(Scan(self.spelling[relation], items), columns)

    def extend(self, node: Node, expressions: list[str]) -> tuple[Node, tuple[str, ...]]:
        """Add computed columns to a plan; plain columns are used as they are."""
        added: list[tuple[str, str]] = []
        names: list[str] = []
        for expression in expressions:
            if expression in node.columns:
                names.append(expression)
                continue
            name = self.fresh()
            added.append((expression, name))
            names.append(name)
        if not added:
            return node, tuple(names)
        kept = tuple((column, column) for column in node.columns)
        return Project(node, (*kept, *added)), tuple(names)
