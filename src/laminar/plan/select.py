"""A SELECT statement, clause by clause, in the order in which they take effect."""

from __future__ import annotations

from itertools import combinations

from sqlglot import exp

from laminar.plan.aggregation import Units, aggregate_units, grouping_call, has_aggregates
from laminar.plan.context import CommonTables, Context, Lowered
from laminar.plan.joins import inner_join, keyed_join, where
from laminar.plan.nodes import (
    Aggregate,
    Constant,
    Generate,
    Node,
    Project,
    TopK,
)
from laminar.plan.reasons import NoRule, Reason
from laminar.plan.scope import Binding, Scope, conjuncts, text, unique
from laminar.plan.subqueries import apply_condition, has_subquery, lift_scalars, replace_scalars
from laminar.plan.windows import add_windows

_KNOWN_CLAUSES = frozenset(
    (
        "expressions",
        "from_",
        "joins",
        "laterals",
        "where",
        "group",
        "having",
        "order",
        "limit",
        "offset",
        "distinct",
        "with_",
        "qualify",
        "windows",
        "hint",
        "kind",
    )
)


def select(ctx: Context, query: exp.Select, outer: Scope | None, ctes: CommonTables) -> Lowered:
    """Lower one SELECT."""
    unknown = {key for key, value in query.args.items() if value} - _KNOWN_CLAUSES
    if unknown:
        raise NoRule(Reason.UNKNOWN_CLAUSE, ", ".join(sorted(unknown)))
    if query.args.get("windows"):
        raise NoRule(Reason.NAMED_WINDOW, "repeat the window in each OVER clause")
    return _Select(ctx, query, outer, ctes).lower()


class _Select:
    """The clauses of one SELECT on their way to a plan."""

    def __init__(
        self, ctx: Context, query: exp.Select, outer: Scope | None, ctes: CommonTables
    ) -> None:
        self.ctx = ctx
        self.query = query
        self.ctes = ctes
        self.scope = Scope(parent=outer)

    def lower(self) -> Lowered:
        node = from_clause(self.ctx, self.query, self.scope, self.ctes)
        node = self._where(node)
        names, items = self._select_list()
        having = self._clause("having")
        group = self.query.args.get("group")
        is_grouped = bool(group) or has_aggregates([*items, *having])
        single: list[Node] = []
        if is_grouped:
            items, having = ([self._lifted(each, single) for each in p] for p in (items, having))
        else:
            node, items = self._scalars(node, items)
        order = self.query.args.get("order")
        ordered = list(order.expressions) if order and self.query.args.get("limit") else []
        sorting = [self._order_item(each, names, items) for each in ordered]
        qualify = self._clause("qualify")
        if is_grouped:
            node, items, sorting, having, qualify = self._aggregate(
                node, group, names, items, sorting, having, qualify
            )
        else:
            items, having, qualify = (
                [self.scope.resolve(each) for each in part] for part in (items, having, qualify)
            )
            sorting = [self._resolve_order(each) for each in sorting]
        for each in single:
            node = inner_join(node, each, [])
        node = where(node, having)
        node, (items, qualify, sorting) = add_windows(self.ctx, node, [items, qualify, sorting])
        node = where(node, qualify)
        node, items = self._generators(node, items)
        return self._output(node, names, items, sorting)

    def _clause(self, name: str) -> list[exp.Expr]:
        clause = self.query.args.get(name)
        return conjuncts(clause.this) if clause else []

    def _where(self, node: Node) -> Node:
        plain: list[exp.Expr] = []
        nested: list[exp.Expr] = []
        for each in self._clause("where"):
            (nested if has_subquery(each) else plain).append(each)
        node = where(node, [self.scope.resolve(each) for each in plain])
        for each in nested:
            node = apply_condition(self.ctx, node, self.scope, self.ctes, each)
        return node

    def _select_list(self) -> tuple[list[str], list[exp.Expr]]:
        """Expand stars; later items may refer to the aliases of earlier ones."""
        names: list[str] = []
        items: list[exp.Expr] = []
        aliases: dict[str, exp.Expr] = {}
        for item in self.query.expressions:
            starred = item if isinstance(item, exp.Star) else None
            table = None
            if isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
                starred, table = item.this, item.table.lower()
            if starred is not None:
                for name, column in self._star(starred, table):
                    names.append(name)
                    items.append(unique(column))
                continue
            expression = self._with_aliases(item.unalias(), aliases)
            names.append(item.alias_or_name or text(item))
            items.append(expression)
            if item.alias:
                aliases[item.alias.lower()] = expression
        return names, items

    def _star(self, star: exp.Star, table: str | None) -> list[tuple[str, str]]:
        if star.args.get("replace") or star.args.get("rename"):
            raise NoRule(Reason.STAR_MODIFIER, text(star))
        left_out = {each.name.lower() for each in star.args.get("except_") or []}
        return [pair for pair in self.scope.star(table) if pair[0].lower() not in left_out]

    def _with_aliases(self, expression: exp.Expr, aliases: dict[str, exp.Expr]) -> exp.Expr:
        def one(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column) or node.table:
                return node
            alias = aliases.get(node.name.lower())
            if alias is None or self.scope.lookup(node) is not None:
                return node
            return exp.Paren(this=alias.copy())

        return expression.copy().transform(one) if aliases else expression

    def _scalars(self, node: Node, items: list[exp.Expr]) -> tuple[Node, list[exp.Expr]]:
        done: list[exp.Expr] = []
        for item in items:
            if has_subquery(item):
                node, item = replace_scalars(self.ctx, node, self.scope, self.ctes, item)
            done.append(item)
        return node, done

    def _lifted(self, expression: exp.Expr, single: list[Node]) -> exp.Expr:
        """Put columns in place of scalar subqueries; collect their plans."""
        return lift_scalars(self.ctx, self.ctes, expression, single)

    def _order_item(self, item: exp.Expr, names: list[str], items: list[exp.Expr]) -> exp.Expr:
        """ORDER BY may name an output column or its position."""
        copy = item.copy()
        key = copy.this
        if isinstance(key, exp.Literal) and not key.is_string:
            copy.set("this", items[int(key.this) - 1].copy())
        else:
            copy.set("this", _with_outputs(key, names, items))
        return copy

    def _resolve_order(self, item: exp.Expr) -> exp.Expr:
        copy = item.copy()
        copy.set("this", self.scope.resolve(copy.this))
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
    ) -> tuple[
        Node,
        list[exp.Expr],
        list[exp.Expr],
        list[exp.Expr],
        list[exp.Expr],
    ]:
        lowered = [name.lower() for name in names]
        aliases = dict(zip(lowered, items, strict=True))
        having = [self._with_aliases(each, aliases) for each in having]
        units = aggregate_units(
            self.ctx, self.scope, [*items, *having, *qualify, *(each.this for each in sorting)]
        )
        keys, sets = self._group_keys(group, names, items)
        which = ""
        if sets is None:
            node = units.aggregate(self.ctx, node, keys)
        else:
            node, which = units.grouping_sets(self.ctx, node, keys, sets)

        def finish(expression: exp.Expr) -> exp.Expr:
            if has_subquery(expression):
                raise NoRule(Reason.SUBQUERY_POSITION, text(expression))
            return units.rewrite(self._grouping(expression, units, which))

        for each in sorting:
            each.set("this", finish(each.this))
        return (
            node,
            [finish(each) for each in items],
            sorting,
            [finish(each) for each in having],
            [finish(each) for each in qualify],
        )

    def _grouping(self, expression: exp.Expr, units: Units, which: str) -> exp.Expr:
        def one(node: exp.Expr) -> exp.Expr:
            replaced = grouping_call(node, units, self.scope, which) if which else None
            return node if replaced is None else replaced

        return self.scope.resolve(expression.copy().transform(one))

    def _group_keys(
        self, group: exp.Group | None, names: list[str], items: list[exp.Expr]
    ) -> tuple[list[str], list[list[str]] | None]:
        if group is None:
            return [], None
        if group.args.get("all"):
            return [text(self.scope.resolve(i)) for i in items if not has_aggregates([i])], None
        listed = list(group.expressions)
        for kind in ("rollup", "cube", "grouping_sets"):
            for trailing in group.args.get(kind) or []:
                if trailing.expressions:  # GROUP BY a, b GROUPING SETS (...): the sets say it all
                    keys = [self._key(each, names, items) for each in listed]
                    return keys, self._sets(trailing, names, items)
                listed = [type(trailing)(expressions=listed)]  # GROUP BY a, b WITH ROLLUP
        return self._combined(listed, names, items)

    def _combined(
        self, listed: list[exp.Expr], names: list[str], items: list[exp.Expr]
    ) -> tuple[list[str], list[list[str]] | None]:
        """Every plain key is in every set; several lists of sets are multiplied."""
        plain: list[str] = []
        factors: list[list[list[str]]] = []
        for each in listed:
            if isinstance(each, exp.Rollup | exp.Cube | exp.GroupingSets):
                factors.append(self._sets(each, names, items))
            else:
                plain.append(self._key(each, names, items))
        if not factors:
            return plain, None
        sets = [plain]
        for factor in factors:
            sets = [[*left, *right] for left in sets for right in factor]
        keys: dict[str, None] = dict.fromkeys(plain)
        for factor in factors:
            longest = max(factor, key=len)
            keys.update(dict.fromkeys(longest))
            keys.update(dict.fromkeys(key for part in factor for key in part))
        return list(keys), sets

    def _sets(self, node: exp.Expr, names: list[str], items: list[exp.Expr]) -> list[list[str]]:
        def members(part: exp.Expr) -> list[str]:
            inner = part.expressions if isinstance(part, exp.Tuple) else [part]
            inner = [each.this if isinstance(each, exp.Paren) else each for each in inner]
            return [self._key(each, names, items) for each in inner]

        if isinstance(node, exp.GroupingSets):
            sets: list[list[str]] = []
            for part in node.expressions:
                if isinstance(part, exp.Rollup | exp.Cube):
                    sets += self._sets(part, names, items)
                else:
                    sets.append(members(part))
            return sets
        parts = [members(part) for part in node.expressions]
        if isinstance(node, exp.Rollup):
            chosen = [parts[:length] for length in range(len(parts), -1, -1)]
        else:
            chosen = [
                list(some)
                for length in range(len(parts), -1, -1)
                for some in combinations(parts, length)
            ]
        return [[key for part in some for key in part] for some in chosen]

    def _key(self, key: exp.Expr, names: list[str], items: list[exp.Expr]) -> str:
        """Resolve a grouping key: a position, a column, or the alias of an output column."""
        if isinstance(key, exp.Literal) and not key.is_string:
            return text(self.scope.resolve(items[int(key.this) - 1]))
        if isinstance(key, exp.Column) and not key.table and self.scope.lookup(key) is None:
            lowered = [name.lower() for name in names]
            if key.name.lower() in lowered:
                return text(self.scope.resolve(items[lowered.index(key.name.lower())]))
        return text(self.scope.resolve(key))

    def _generators(self, node: Node, items: list[exp.Expr]) -> tuple[Node, list[exp.Expr]]:
        """EXPLODE in the select list stands for a lateral view."""
        done: list[exp.Expr] = []
        for item in items:
            found = item.find(exp.Explode, exp.Posexplode, exp.Inline, exp.Stack)
            if found is None:
                done.append(item)
                continue
            if found is not item or not isinstance(found, exp.Explode):
                raise NoRule(Reason.GENERATOR_POSITION, text(item))
            if isinstance(found, exp.Posexplode):
                raise NoRule(Reason.GENERATOR_POSITION, text(item))
            name = self.ctx.fresh()
            node = Generate(node, text(found), (name,), isinstance(found, exp.ExplodeOuter))
            done.append(exp.column(name))
        return node, done

    def _output(
        self,
        node: Node,
        names: list[str],
        items: list[exp.Expr],
        sorting: list[exp.Expr],
    ) -> Lowered:
        columns = [(text(item), self.ctx.fresh()) for item in items]
        if self.query.args.get("distinct"):
            if self.query.args["distinct"].args.get("on"):
                raise NoRule(Reason.UNKNOWN_CLAUSE, "DISTINCT ON")
            plain = Project(node, tuple(columns))
            distinct = Aggregate(plain, plain.columns, ())
            return Lowered(self._limit(distinct, [], sorting, columns), tuple(names))
        hidden = [(text(each.this), self.ctx.fresh()) for each in sorting]
        plan = Project(node, (*columns, *hidden))
        limited = self._limit(plan, hidden, sorting, columns)
        if limited is not plan:
            limited = Project(limited, tuple((name, name) for _, name in columns))
        return Lowered(limited, tuple(names))

    def _limit(
        self,
        node: Node,
        hidden: list[tuple[str, str]],
        sorting: list[exp.Expr],
        columns: list[tuple[str, str]],
    ) -> Node:
        limit, offset = self.query.args.get("limit"), self.query.args.get("offset")
        if limit is None and offset is None:
            return node
        numbers: list[int] = []
        for clause in (limit, offset):
            number = clause.expression if clause is not None else exp.Literal.number(0)
            if not isinstance(number, exp.Literal) or number.is_string:
                raise NoRule(Reason.LIMIT_EXPRESSION, "LIMIT and OFFSET take numbers")
            numbers.append(int(number.this))
        if limit is None:
            raise NoRule(Reason.LIMIT_EXPRESSION, "OFFSET without LIMIT")
        order: list[str] = []
        known = dict(columns)
        for place, each in enumerate(sorting):
            name = hidden[place][1] if hidden else known.get(text(each.this))
            if name is None:
                raise NoRule(Reason.LIMIT_EXPRESSION, text(each))
            copy = each.copy()
            copy.set("this", exp.column(name))
            order.append(text(copy))
        return TopK(node, tuple(order), numbers[0], numbers[1])


def _with_outputs(key: exp.Expr, names: list[str], items: list[exp.Expr]) -> exp.Expr:
    """Put output columns in place of their names, except inside an aggregate call."""
    outputs = dict(zip(reversed([name.lower() for name in names]), reversed(items), strict=True))

    def one(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.table or node.find_ancestor(exp.AggFunc):
            return node
        found = outputs.get(node.name.lower())
        return node if found is None else exp.Paren(this=found.copy())

    if isinstance(key, exp.Column):
        return one(key).unnest()
    return key.copy().transform(one)


def from_clause(ctx: Context, query: exp.Select, scope: Scope, ctes: CommonTables) -> Node:
    """Lower FROM, the joins and the lateral views; bind their names in the scope."""
    clause = query.args.get("from_")
    if clause is None:
        name = ctx.fresh()
        node: Node = Constant(f"SELECT 1 AS {name}", (name,))
    else:
        node = _item(ctx, clause.this, scope, ctes)
    # Joins written inside the FROM item itself (FROM a JOIN b parses to both places).
    joins = list(query.args.get("joins") or [])
    for join in joins:
        node = _join(ctx, node, join, scope, ctes)
    for lateral in query.args.get("laterals") or []:
        node = _lateral_view(ctx, node, lateral, scope)
    return node


def _item(ctx: Context, item: exp.Expr, scope: Scope, ctes: CommonTables) -> Node:
    lowered = _relation(ctx, item, ctes)
    alias = item.args.get("alias")
    names = lowered.names
    if alias is not None and alias.args.get("columns"):
        names = tuple(column.name for column in alias.args["columns"])
    shown = item.alias_or_name or ctx.fresh()
    scope.bindings.append(Binding.of(shown, names, lowered.node.columns))
    if item.args.get("joins"):
        node = lowered.node
        for join in item.args["joins"]:
            node = _join(ctx, node, join, scope, ctes)
        return node
    return lowered.node


def _relation(ctx: Context, item: exp.Expr, ctes: CommonTables) -> Lowered:
    if item.args.get("sample"):
        raise NoRule(Reason.TABLE_SAMPLE, text(item))
    if item.args.get("pivots"):
        raise NoRule(Reason.PIVOT, text(item))
    if isinstance(item, exp.Table):
        if not isinstance(item.this, exp.Identifier):
            raise NoRule(Reason.TABLE_FUNCTION, text(item))
        name = ".".join(part.name for part in item.parts).lower()
        if name in ctes:
            table = ctes[name]
            found = ctx.query(table.query, None, table.visible)
            return Lowered(found.node, table.names or found.names)
        if name not in ctx.relations:
            raise NoRule(Reason.UNRESOLVED_NAME, name)
        return ctx.scan(name)
    if isinstance(item, exp.Subquery | exp.Query):
        return ctx.query(item, None, ctes)
    if isinstance(item, exp.Values):
        return values(ctx, item)
    raise NoRule(Reason.TABLE_FUNCTION, text(item))


def values(ctx: Context, item: exp.Values) -> Lowered:
    """Lower inline rows."""
    alias = item.args.get("alias")
    first = item.expressions[0]
    width = len(first.expressions) if isinstance(first, exp.Tuple) else 1
    names = tuple(f"col{place + 1}" for place in range(width))
    if alias is not None and alias.args.get("columns"):
        names = tuple(column.name for column in alias.args["columns"])
    columns = tuple(ctx.fresh() for _ in range(width))
    rows = ", ".join(text(row) for row in item.expressions)
    return Lowered(
        Constant(f"SELECT * FROM VALUES {rows} AS v({', '.join(columns)})", columns), names
    )


def _join(ctx: Context, node: Node, join: exp.Join, scope: Scope, ctes: CommonTables) -> Node:
    if join.args.get("method"):
        raise NoRule(Reason.NATURAL_JOIN, text(join))
    if isinstance(join.this, exp.Lateral):
        raise NoRule(Reason.LATERAL_SUBQUERY, text(join))
    kind = " ".join(part for part in (join.side, join.kind) if part and part != "OUTER")
    seen = len(scope.bindings)
    right = _item(ctx, join.this, scope, ctes)
    conditions = [scope.resolve(each) for each in conjuncts(join.args.get("on"))]
    using = [column.name.lower() for column in join.args.get("using") or []]
    pairs: list[tuple[str, str, str]] = []
    for name in using:
        left_side = Scope(bindings=scope.bindings[:seen], merged=scope.merged)
        ours = left_side.local(None, name)
        theirs = scope.bindings[seen].columns.get(name)
        if ours is None or theirs is None:
            raise NoRule(Reason.UNRESOLVED_NAME, name)
        pairs.append((name, ours, theirs))
        conditions.append(exp.EQ(this=exp.column(ours), expression=exp.column(theirs)))
    if kind in ("", "INNER", "CROSS"):
        node = inner_join(node, right, conditions)
    elif kind in ("LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI", "SEMI", "ANTI"):
        kind = f"LEFT {kind}" if kind in ("SEMI", "ANTI") else kind
        node = keyed_join(ctx, node, right, conditions, kind)
        if kind.startswith("LEFT "):
            del scope.bindings[seen:]
            return node
    else:
        raise NoRule(Reason.UNKNOWN_CLAUSE, f"{kind} JOIN")
    return _merge_using(ctx, node, scope, pairs, kind)


def _merge_using(
    ctx: Context, node: Node, scope: Scope, pairs: list[tuple[str, str, str]], kind: str
) -> Node:
    """USING shows one column for two: the kept side's, or whichever is there in a full join."""
    for name, ours, theirs in pairs:
        if kind == "FULL":
            node, (both,) = ctx.extend(node, [f"COALESCE({ours}, {theirs})"])
            scope.merged[name] = both
        else:
            scope.merged[name] = theirs if kind == "RIGHT" else ours
    return node


def _lateral_view(ctx: Context, node: Node, lateral: exp.Lateral, scope: Scope) -> Node:
    if not lateral.args.get("view"):
        raise NoRule(Reason.LATERAL_SUBQUERY, text(lateral))
    generator = scope.resolve(lateral.this)
    alias = lateral.args["alias"]
    names = tuple(column.name for column in alias.args.get("columns") or [])
    if not names:
        names = {exp.Explode: ("col",), exp.Posexplode: ("pos", "col")}.get(type(lateral.this), ())
    if not names:
        raise NoRule(Reason.GENERATOR_POSITION, text(lateral))
    columns = tuple(ctx.fresh() for _ in names)
    scope.bindings.append(Binding.of(alias.name or ctx.fresh(), names, columns))
    return Generate(node, text(generator), columns, bool(lateral.args.get("outer")))
