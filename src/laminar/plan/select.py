"""A SELECT statement, clause by clause, in the order in which they take effect."""

from __future__ import annotations

from sqlglot import exp

from laminar.plan.aggregate_calls import aggregated, has_aggregates, is_aggregated
from laminar.plan.aggregation import Units, aggregate_units, grouping_call
from laminar.plan.aging import age, reads_clock
from laminar.plan.context import CommonTables, Context, Lowered
from laminar.plan.from_clause import from_clause
from laminar.plan.generators import generate, is_generator, refuse_inside
from laminar.plan.group_keys import GroupKeys
from laminar.plan.joins import where
from laminar.plan.limits import bounds, limited
from laminar.plan.marks import attach
from laminar.plan.named_window import with_window_written
from laminar.plan.nodes import Aggregate, Node, Project
from laminar.plan.outer_values import Domain
from laminar.plan.reasons import NoRule, Reason
from laminar.plan.scope import Scope, conjuncts, is_position, text, unique
from laminar.plan.struct_stars import fields_of, struct_of
from laminar.plan.subqueries import apply_condition, has_subquery
from laminar.plan.window_functions import add_windows, named_windows
from laminar.sql.keywords import keywords

_KNOWN_CLAUSES = keywords(
    "expressions from_ joins laterals where group having qualify windows order limit offset"
    " distinct with_ hint kind sort cluster distribute"
)


def select(ctx: Context, query: exp.Select, domain: Domain | None, ctes: CommonTables) -> Lowered:
    """Lower one SELECT; a correlated one for all values of its domain."""
    unknown = {key for key, value in query.args.items() if value} - _KNOWN_CLAUSES
    sorts_parts = any(query.args.get(each) for each in ("sort", "cluster", "distribute"))
    if sorts_parts and (query.args.get("limit") or query.args.get("offset")):
        unknown.add("SORT BY with LIMIT")
    if unknown:
        raise NoRule(Reason.UNKNOWN_CLAUSE, ", ".join(sorted(unknown)))
    return _Select(ctx, named_windows(query), domain, ctes).lower()


class _Select:
    """The clauses of one SELECT on their way to a plan."""

    def __init__(
        self, ctx: Context, query: exp.Select, domain: Domain | None, ctes: CommonTables
    ) -> None:
        self.ctx = ctx
        self.query = query
        self.ctes = ctes
        self.domain = domain
        self.scope = Scope(outside=domain, chars=ctx.chars)

    def lower(self) -> Lowered:
        node = from_clause(self.ctx, self.query, self.scope, self.ctes, self.domain)
        self.query = with_window_written(self.query, self.scope)
        node = self._where(node)
        names, items = self._select_list(node)
        having = self._clause("having")
        aliases = dict(zip([name.lower() for name in names], items, strict=True))
        qualify = [_qualified(each, aliases) for each in self._clause("qualify")]
        group = self.query.args.get("group")
        outside = self.domain.columns if self.domain is not None else ()
        carried: list[exp.Expr] = [unique(each) for each in outside]
        order = self.query.args.get("order")
        taken = bounds(self.query)
        ordered = list(order.expressions) if order and taken else []
        sorting = [key for each in ordered for key in self._order_items(each, names, items)]
        if group or having or has_aggregates(items):  # HAVING alone is one group
            node, scope, having = self._aggregate(
                node, group, names, items, sorting, having, qualify
            )
        else:
            scope = self.scope
        node = self._filter(node, scope, having)
        node, items = self._attached(node, scope, items)
        node, qualify = self._attached(node, scope, qualify)
        items, qualify, carried = (
            [scope.resolve(each) for each in part] for part in (items, qualify, carried)
        )
        sorting = [self._resolve_order(scope, each) for each in sorting]
        partition = [text(each) for each in carried]
        node, (items, qualify, sorting) = add_windows(
            self.ctx, node, [items, qualify, sorting], partition
        )
        node = where(node, qualify)
        node, names, items = self._generators(node, names, items)
        return self._output(node, names, items, sorting, carried, taken)

    def _clause(self, name: str) -> list[exp.Expr]:
        clause = self.query.args.get(name)
        return conjuncts(clause.this.copy()) if clause else []

    def _where(self, node: Node) -> Node:
        conditions = self._clause("where")
        timed = [each for each in conditions if reads_clock(each) and not has_subquery(each)]
        rest = [each for each in conditions if each not in timed]
        node = self._filter(node, self.scope, rest)
        return age(self.ctx, node, self.scope, timed) if timed else node

    def _filter(self, node: Node, scope: Scope, conditions: list[exp.Expr]) -> Node:
        """Apply plain conditions first, then those with nested queries."""
        nested = [each for each in conditions if has_subquery(each)]
        node = where(node, [scope.resolve(each) for each in conditions if each not in nested])
        for each in nested:
            node = apply_condition(self.ctx, node, scope, self.ctes, each)
        return node

    def _select_list(self, node: Node) -> tuple[list[str], list[exp.Expr]]:
        """Expand stars; later items may refer to the aliases of earlier ones."""
        names: list[str] = []
        items: list[exp.Expr] = []
        aliases: dict[str, exp.Expr] = {}
        for item in self.query.expressions:
            starred = item if isinstance(item, exp.Star) else None
            table = None
            inside = struct_of(self.scope, item)
            if inside is not None:
                for name, field in fields_of(self.ctx, node, self.scope, inside):
                    names.append(name)
                    items.append(field)
                continue
            if isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
                starred, table = item.this, item.table.lower()
            if starred is not None:
                instead = {
                    each.alias.lower(): each.this for each in starred.args.get("replace") or []
                }
                for name, column in self._star(starred, table):
                    names.append(name)
                    items.append(instead.get(name.lower(), unique(column)).copy())
                continue
            if isinstance(item, exp.Aliases):  # of a generator, which names its columns itself
                names.append("")
                items.append(item)
                continue
            expression = self._with_aliases(item.unalias().copy(), aliases)
            is_unnamed = not item.alias and is_generator(expression)
            names.append("" if is_unnamed else item.alias_or_name or text(item))
            items.append(expression)
            if item.alias:
                aliases[item.alias.lower()] = expression
        return names, items

    def _star(self, star: exp.Star, table: str | None) -> list[tuple[str, str]]:
        if star.args.get("rename"):
            raise NoRule(Reason.STAR_MODIFIER, text(star))
        left_out = {each.name.lower() for each in star.args.get("except_") or []}
        return [pair for pair in self.scope.star(table) if pair[0].lower() not in left_out]

    def _with_aliases(self, expression: exp.Expr, aliases: dict[str, exp.Expr]) -> exp.Expr:
        def one(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column) or node.table:
                return node
            alias = aliases.get(node.name.lower())
            if alias is None or self.scope.owns(node):
                return node
            return exp.Paren(this=alias.copy())

        return expression.copy().transform(one) if aliases else expression

    def _attached(
        self, node: Node, scope: Scope, items: list[exp.Expr]
    ) -> tuple[Node, list[exp.Expr]]:
        """Put columns in place of nested queries."""
        done: list[exp.Expr] = []
        for item in items:
            if has_subquery(item):
                node, item = attach(self.ctx, node, scope, self.ctes, item)
            done.append(item)
        return node, done

    def _order_items(
        self, item: exp.Expr, names: list[str], items: list[exp.Expr]
    ) -> list[exp.Expr]:
        """ORDER BY may name an output column, its position, or ALL of them."""
        key = item.this
        if isinstance(key, exp.Var) and key.name.upper() == "ALL":
            keys = [each.copy() for each in items]
        elif is_position(key, items):
            keys = [items[int(key.this) - 1].copy()]
        else:
            keys = [_with_outputs(key, names, items)]
        found = [item.copy() for _ in keys]
        for copy, each in zip(found, keys, strict=True):
            copy.set("this", each)
        return found

    def _resolve_order(self, scope: Scope, item: exp.Expr) -> exp.Expr:
        copy = item.copy()
        copy.set("this", scope.resolve(copy.this))
        return copy

    def _aggregate(
        self,
        node: Node,
        group: exp.Group | None,
        names: list[str],
        items: list[exp.Expr],
        sorting: list[exp.Expr],
        having: list[exp.Expr],
        qualify: list[exp.Expr],
    ) -> tuple[Node, Scope, list[exp.Expr]]:
        """Group; return the scope of what follows, and HAVING with aliases written out."""
        lowered = [name.lower() for name in names]
        aliases = dict(zip(lowered, items, strict=True))
        having = [self._with_aliases(each, aliases) for each in having]
        node = self._inside_calls(node, [items, having, qualify])
        tag = self.ctx.fresh() if self.domain is not None and group is None else ""
        units = aggregate_units(
            self.ctx,
            self.scope,
            [*items, *having, *qualify, *(each.this for each in sorting)],
            only=tag or None,
        )
        grouping = GroupKeys(self.scope, names, items)
        keys, sets = grouping.of(group)
        units.forms = grouping.forms
        carried = list(self.domain.columns) if self.domain is not None else []
        which = ""
        if sets is not None:
            sets = [[*carried, *each] for each in sets]
            node, which = units.grouping_sets(self.ctx, node, [*carried, *keys], sets)
        elif self.domain is not None and tag:
            node = units.for_each(self.ctx, node, self.domain.values.node, tag)
        else:
            node = units.aggregate(self.ctx, node, [*carried, *keys])

        def finish(expression: exp.Expr) -> exp.Expr:
            return units.rewrite(self._grouping(expression, units, which))

        return node, self.scope.after_grouping(finish), having

    def _inside_calls(self, node: Node, groups: list[list[exp.Expr]]) -> Node:
        """Put columns in place of nested queries that are aggregated over."""
        for group in groups:
            for place, expression in enumerate(group):
                for unit in list(aggregated(expression)):
                    if not has_subquery(unit):
                        continue
                    node, replaced = attach(self.ctx, node, self.scope, self.ctes, unit)
                    if unit is expression:
                        group[place] = replaced
                    else:
                        unit.replace(replaced)
        return node

    def _grouping(self, expression: exp.Expr, units: Units, which: str) -> exp.Expr:
        def one(node: exp.Expr) -> exp.Expr:
            replaced = grouping_call(node, units, self.scope, which) if which else None
            return node if replaced is None else replaced

        return expression.copy().transform(one)

    def _generators(
        self, node: Node, names: list[str], items: list[exp.Expr]
    ) -> tuple[Node, list[str], list[exp.Expr]]:
        """EXPLODE in the select list stands for a lateral view."""
        shown: list[str] = []
        done: list[exp.Expr] = []
        for name, item in zip(names, items, strict=True):
            call = item.this if isinstance(item, exp.Aliases) else item
            if not is_generator(call):
                refuse_inside(item)
                shown.append(name)
                done.append(item)
                continue
            made = generate(self.ctx, node, call)
            node = made.node
            aliases = [each.name for each in item.expressions] if call is not item else []
            shown += aliases or ([name] if name else list(made.names))
            done += [unique(column) for column in made.node.produced]
        return node, shown, done

    def _named(self, item: exp.Expr) -> str:
        """Name an output column; what comes from a query further out is no CHAR to Spark."""
        written = text(item.unnest())
        is_outer = self.domain is not None and written in self.domain.columns
        return self.ctx.fresh() if is_outer else self.ctx.named_after(written)

    def _output(
        self,
        node: Node,
        names: list[str],
        items: list[exp.Expr],
        sorting: list[exp.Expr],
        carried: list[exp.Expr],
        taken: tuple[int | None, int] | None,
    ) -> Lowered:
        columns = [(text(item), self._named(item)) for item in items]
        columns += [(text(item), self.ctx.named_after(item.name)) for item in carried]
        domain = tuple(name for _, name in columns[len(items) :])
        distinct = self.query.args.get("distinct")
        if distinct and distinct.args.get("on"):
            raise NoRule(Reason.UNKNOWN_CLAUSE, "DISTINCT ON")
        hidden = [] if distinct else [(text(each.this), self.ctx.fresh()) for each in sorting]
        plan: Node = Project(node, (*columns, *hidden))
        if distinct:
            plan = Aggregate(plan, plan.columns, ())
        if taken is not None:
            known = dict(columns)
            sorted_by = [known.get(text(each.this)) for each in sorting]
            if hidden:
                sorted_by = [name for _, name in hidden]
            order = [_ordered(each, by) for each, by in zip(sorting, sorted_by, strict=True)]
            plan = limited(self.ctx, plan, order, taken, domain)
        if plan.columns != tuple(name for _, name in columns):
            plan = Project(plan, tuple((name, name) for _, name in columns))
        return Lowered(plan, tuple(names))


def _ordered(item: exp.Expr, column: str | None) -> str:
    if column is None:
        raise NoRule(Reason.LIMIT_EXPRESSION, text(item))
    copy = item.copy()
    copy.set("this", exp.column(column))
    return text(copy)


def _qualified(condition: exp.Expr, aliases: dict[str, exp.Expr]) -> exp.Expr:
    """Put output columns in place of their names: QUALIFY sees these before those of FROM."""

    def one(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.table:
            return node
        found = aliases.get(node.name.lower())
        if found is None:
            return node
        if found.find(exp.Window) is not None and node.find_ancestor(exp.Window) is not None:
            raise NoRule(Reason.UNKNOWN_CLAUSE, f"QUALIFY {text(condition)}")
        return exp.Paren(this=found.copy())

    return condition.transform(one)


def _with_outputs(key: exp.Expr, names: list[str], items: list[exp.Expr]) -> exp.Expr:
    """Put output columns in place of their names, except inside an aggregate call."""
    outputs = dict(zip(reversed([name.lower() for name in names]), reversed(items), strict=True))

    def one(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.table or is_aggregated(node):
            return node
        found = outputs.get(node.name.lower())
        return node if found is None else exp.Paren(this=found.copy())

    if isinstance(key, exp.Column):
        return one(key).unnest()
    return key.copy().transform(one)
