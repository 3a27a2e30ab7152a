"""Nested queries that read columns of the query around them.

Such a query is a function of the outer columns it reads. Its *domain* is the set of values those
columns take:

    D    = distinct π(outer)
    q(D) = the query evaluated for all of D at once: D joined to its FROM, D's columns added to
           its grouping keys, partitions and output
    outer and q(outer)  =  outer ⋈ q(D)        on D's columns, NULL equal to NULL

so any query that can be planned can be planned for a domain too.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from laminar.model.same_row import collation_of
from laminar.plan.context import CommonTables, Context, Lowered
from laminar.plan.equal_keys import Pair
from laminar.plan.nodes import Node
from laminar.plan.outer_values import Domain
from laminar.plan.scope import Scope, reads, text, unique
from laminar.plan.theta import values_of


@dataclass(frozen=True, slots=True)
class Nested:
    """A nested query's plan; a correlated one has the domain's columns after its own."""

    node: Node
    names: tuple[str, ...]
    domain: Domain | None

    @property
    def own(self) -> tuple[str, ...]:
        """The columns that the query itself selects."""
        return self.node.columns[: len(self.names)]

    @property
    def carried(self) -> tuple[str, ...]:
        """The domain's columns in the plan, by position."""
        return self.node.columns[len(self.names) :]

    def pairs(self) -> list[Pair]:
        """Compare the outer columns with the domain's."""
        return [Pair(text(each.this), text(each.expression), "<=>") for each in self.equalities()]

    def equalities(self) -> list[exp.NullSafeEQ]:
        """Return the same as conditions."""
        if self.domain is None:
            return []
        codes = (code for code, _ in self.domain.values.codes())
        pairs = zip(codes, self.carried, strict=True)
        return [exp.NullSafeEQ(this=code, expression=unique(name)) for code, name in pairs]


def nested(ctx: Context, query: exp.Expr, node: Node, outer: Scope, ctes: CommonTables) -> Nested:
    """Plan a nested query for all rows of the plan around it at once."""
    wanted = mentioned(ctx, query, node, outer)
    while wanted:
        # 0.0 and -0.0 are one value here, as they are in the domains that Spark makes of a query.
        domain = Domain(outer, values_of(ctx, node, wanted, by_code=_has_spellings))
        lowered: Lowered = ctx.query(query, domain, ctes)
        used = tuple(column for column in wanted if column in domain.used)
        if used == wanted:
            return Nested(lowered.node, lowered.names, domain)
        # A name that the query has itself is not the outer one: plan again without it.
        wanted = used
    lowered = ctx.query(query, None, ctes)
    return Nested(lowered.node, lowered.names, None)


def nests_twice(query: exp.Expr) -> bool:
    """Whether a query is nested in one that is nested in another."""
    outermost = query.find(exp.Select)
    around = (each.find_ancestor(exp.Select) for each in query.find_all(exp.Select))
    return any(each is not None and each is not outermost for each in around)


def _has_spellings(kind: str) -> bool:
    return collation_of(kind) is not None


def mentioned(ctx: Context, query: exp.Expr, node: Node, outer: Scope) -> tuple[str, ...]:
    """Return the outer columns that a query seems to read; a few may turn out to be its own."""
    found: set[str] = set()
    for column in query.find_all(exp.Column):
        resolved = None if _is_own(ctx, query, column) else outer.lookup(column)
        if resolved is not None:
            found |= reads(resolved[0])
    return tuple(column for column in node.columns if column in found)


def _is_own(ctx: Context, query: exp.Expr, column: exp.Column) -> bool:
    """Whether a relation that the query itself reads has the column: this saves planning twice."""
    inside = list(query.find_all(exp.Select))
    select = column.find_ancestor(exp.Select)
    while any(select is each for each in inside):
        assert select is not None
        for table in select.find_all(exp.Table):
            known = ctx.relations.get(table.name.lower(), ())
            is_named = column.table.lower() in ("", table.alias_or_name.lower())
            is_read_here = table.find_ancestor(exp.Select) is select
            if is_read_here and is_named and column.name.lower() in map(str.lower, known):
                return True
        select = select.find_ancestor(exp.Select)
    return False
