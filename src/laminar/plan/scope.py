"""Which names an expression may use, and the unique column each stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from sqlglot import exp

from laminar.plan.char_padding import padded
from laminar.plan.reasons import NoRule, Reason
from laminar.sql.dialect import AsWritten


@dataclass(slots=True)
class Binding:
    """One item of a FROM clause: its alias and its columns in order."""

    alias: str
    columns: dict[str, str]  # name in lower case -> unique column
    listed: tuple[tuple[str, str], ...]  # (name as written, unique column); names may repeat

    @classmethod
    def of(cls, alias: str, names: tuple[str, ...], columns: tuple[str, ...]) -> Binding:
        """Bind display names to unique columns, by position."""
        lowered = [name.lower() for name in names]
        return cls(
            alias.lower(),
            dict(zip(lowered, columns, strict=True)),
            tuple(zip(names, columns, strict=True)),
        )


class Outside(Protocol):
    """Columns of the queries around a SELECT that its own plan carries along."""

    def lookup(self, column: exp.Column) -> exp.Expr | None:
        """Resolve a column that the SELECT itself does not know."""
        ...


@dataclass(slots=True)
class Scope:
    """The bindings of one SELECT, inside those of the query around it.

    After GROUP BY a name stands for a key: `grouped` puts keys and calls in place of what they
    are written as.
    """

    parent: Scope | None = None
    bindings: list[Binding] = field(default_factory=list)
    merged: dict[str, str] = field(default_factory=dict)  # columns that USING made one
    hidden: set[str] = field(default_factory=set)  # the columns that it made them of
    outside: Outside | None = None
    grouped: Callable[[exp.Expr], exp.Expr] | None = None
    tied: list[exp.Expr] = field(default_factory=list)  # conditions that FROM still has to apply
    chars: Mapping[str, str] = field(default_factory=dict)  # column -> its type with CHAR(n)

    def after_grouping(self, rewrite: Callable[[exp.Expr], exp.Expr]) -> Scope:
        """Return the scope of what follows GROUP BY."""
        return replace(self, grouped=rewrite)

    def levels(self) -> Iterator[Scope]:
        """Yield this scope and those around it, innermost first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def local(self, table: str | None, name: str) -> str | None:
        """Look a name up in this scope alone."""
        if table is None and name in self.merged:
            return self.merged[name]
        for binding in self.bindings:
            if table in (None, binding.alias) and name in binding.columns:
                return binding.columns[name]
        return None

    def owns(self, column: exp.Column) -> bool:
        """Whether a plain name is one of this very scope; an alias hides those further out."""
        is_plan_column = bool(column.meta.get(_UNIQUE))
        return is_plan_column or self.local(None, column.name.lower()) is not None

    def has_table(self, name: str) -> bool:
        """Whether an item of the FROM clause is called so."""
        return any(binding.alias == name.lower() for binding in self.bindings)

    def lookup(self, column: exp.Column) -> tuple[exp.Expr, Scope] | None:
        """Resolve a column, or a field path that starts at one; say in which scope it lives."""
        found = self._lookup(column)
        if found is not None and self.grouped is not None and found[1] is self:
            return self.grouped(found[0]), self
        return found

    def _lookup(self, column: exp.Column) -> tuple[exp.Expr, Scope] | None:
        if column.meta.get(_UNIQUE):
            return column, self
        parts = [part.name.lower() for part in column.parts]
        for scope in self.levels():
            for table, used in ((parts[0], 2), (None, 1)):
                if len(parts) < used:
                    continue
                found = scope.local(table, parts[used - 1])
                if found is not None:
                    resolved: exp.Expr = unique(found)
                    for part in column.parts[used:]:
                        resolved = exp.Dot(this=resolved, expression=part.copy())
                    return resolved, scope
            carried = scope.outside.lookup(column) if scope.outside is not None else None
            if carried is not None:
                return carried, scope
        return None

    def resolve(self, expression: exp.Expr, *, through: bool = False) -> exp.Expr:
        """Return a copy in which every column is a unique one.

        Raises NoRule for a nested query, which needs rewriting first, and for a name from the
        query around this one, unless it may look `through` to that.
        """
        allowed = (self, self.parent) if through else (self,)

        def one(node: exp.Expr) -> exp.Expr:
            if is_query(node):
                raise NoRule(Reason.SUBQUERY_POSITION, node.sql("spark"))
            _refuse_names(node)
            if not isinstance(node, exp.Column):
                return node
            found = self._lookup(node)
            if found is None:
                raise NoRule(Reason.UNRESOLVED_NAME, node.sql("spark"))
            if not any(found[1] is scope for scope in allowed):
                raise NoRule(Reason.CORRELATION, node.sql("spark"))
            return found[0]

        resolved = padded(expand_stars(expression.copy(), self).transform(one), self.chars)
        return resolved if self.grouped is None else self.grouped(resolved)

    def is_local(self, expression: exp.Expr) -> bool:
        """Whether every column of the expression is bound in this very scope."""
        return all(self._level_of(column) is self for column in expression.find_all(exp.Column))

    def reaches_out(self, expression: exp.Expr) -> bool:
        """Whether the expression reads the queries around this one.

        Names that only a query nested in it knows do not count.
        """
        levels = (self._level_of(column) for column in expression.find_all(exp.Column))
        return any(level is not None and level is not self for level in levels)

    def _level_of(self, column: exp.Column) -> Scope | None:
        found = self.lookup(column)
        return found[1] if found else None

    def star(self, table: str | None = None) -> list[tuple[str, str]]:
        """Expand `*` or `t.*` to (display name, unique column), USING columns first."""
        items: list[tuple[str, str]] = []
        if table is None:
            names = {
                shown.lower(): shown
                for binding in reversed(self.bindings)
                for shown, _ in binding.listed
            }
            items += [(names[name], unique) for name, unique in self.merged.items()]
        for binding in self.bindings:
            if table in (None, binding.alias):
                items += [
                    (shown, unique)
                    for shown, unique in binding.listed
                    if table is not None or unique not in self.hidden
                ]
        if not items:
            raise NoRule(Reason.UNRESOLVED_NAME, f"{table or ''}.*")
        return items


_UNIQUE = "unique"


def unique(name: str) -> exp.Column:
    """Return a column of the plan itself; it is never looked up, whatever users call theirs."""
    column = exp.column(name)
    column.meta[_UNIQUE] = True
    return column


def expand_stars(expression: exp.Expr, scope: Scope) -> exp.Expr:
    """Write out `*` and `t.*` in a list of arguments, such as STRUCT(*)."""
    for star in list(expression.find_all(exp.Star)):
        dotted = star.parent if isinstance(star.parent, exp.Column) else None
        place = dotted or star
        owner = place.parent
        if owner is None or place.arg_key != "expressions":
            continue  # COUNT(*), or one that is refused later
        left_out = {each.name.lower() for each in star.args.get("except_") or []}
        items: list[exp.Expr] = []
        for name, column in scope.star(dotted.table.lower() if dotted else None):
            if name.lower() not in left_out:
                items.append(_argument(owner, name, column))
        given = owner.expressions
        at = next(number for number, each in enumerate(given) if each is place)
        owner.set("expressions", [*given[:at], *items, *given[at + 1 :]])
    return expression


def _argument(owner: exp.Expr, name: str, column: str) -> exp.Expr:
    """Return a column as an argument; a struct's fields are called like the columns."""
    if isinstance(owner, exp.Struct):
        return exp.PropertyEQ(this=exp.to_identifier(name, quoted=True), expression=unique(column))
    return unique(column)


def _refuse_names(node: exp.Expr) -> None:
    """Refuse what depends on all columns or on how they are called: a plan calls them otherwise."""
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        raise NoRule(Reason.STAR_ARGUMENT, text(node))
    is_star = isinstance(node, exp.Star)
    counts_rows = is_star and isinstance(node.parent, exp.Count) and not node.args.get("except_")
    if is_star and not counts_rows:
        raise NoRule(Reason.STAR_ARGUMENT, text(node.parent or node))
    if isinstance(node, exp.ArraysZip):
        raise NoRule(Reason.NAMED_BY_COLUMNS, text(node))


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """Split a condition at its top-level ANDs."""
    if condition is None:
        return []
    if isinstance(condition, exp.Paren):
        return conjuncts(condition.this)
    if isinstance(condition, exp.And):
        return conjuncts(condition.left) + conjuncts(condition.right)
    return [condition]


def is_position(key: exp.Expr, items: list[exp.Expr]) -> bool:
    """Whether a key of GROUP BY or ORDER BY is the number of an output column; 1.5 is a value."""
    return isinstance(key, exp.Literal) and key.is_int and 1 <= int(key.this) <= len(items)


def is_query(node: exp.Expr) -> bool:
    """Whether the node is a nested query; EXISTS over an array is a function like any other."""
    return isinstance(node, exp.Query) or (
        isinstance(node, exp.Exists) and isinstance(node.this, exp.Query)
    )


def text(expression: exp.Expr) -> str:
    """Render an expression as Spark SQL."""
    return expression.sql(dialect=AsWritten)


def reads(expression: exp.Expr) -> frozenset[str]:
    """Return the unique columns that a resolved expression reads."""
    return frozenset(column.name for column in expression.find_all(exp.Column))
