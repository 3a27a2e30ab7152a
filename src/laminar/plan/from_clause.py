"""The FROM clause: relations, joins, lateral views, and the names they bind."""

from __future__ import annotations

from sqlglot import exp

from laminar.plan.char_padding import padded
from laminar.plan.context import CommonTable, CommonTables, Context, Lowered
from laminar.plan.domain import nested
from laminar.plan.generators import generate, lateral_view
from laminar.plan.joins import inner_join, keyed_join, where
from laminar.plan.nodes import Constant, Node
from laminar.plan.on_clause import filtered, marked, taken_apart
from laminar.plan.outer_values import Domain
from laminar.plan.pivot import apply_pivot
from laminar.plan.reasons import NoRule, Reason
from laminar.plan.recursion import again, recursion
from laminar.plan.scope import Binding, Scope, conjuncts, text, unique


def from_clause(
    ctx: Context,
    query: exp.Select,
    scope: Scope,
    ctes: CommonTables,
    domain: Domain | None = None,
) -> Node:
    """Lower FROM, the joins and the lateral views; bind their names in the scope.

    The domain of a correlated query is joined first, so that conditions further on can read it.
    A derived table that reads outer columns is evaluated for the domain too, and tied to it:

        D and FROM (SELECT ... outer.x ...) q   =   D ⋈ q(D)
    """
    clause = query.args.get("from_")
    joins = list(query.args.get("joins") or [])
    keeps_right = any(join.side in ("RIGHT", "FULL") for join in joins)
    if clause is None:
        name = ctx.fresh()
        node: Node = Constant(f"SELECT 1 AS {name}", (name,))
    else:
        node = _item(ctx, clause.this, scope, ctes)
    if scope.tied and keeps_right:
        raise NoRule(Reason.CORRELATION, text(query))
    if domain is not None and not keeps_right:
        node = inner_join(domain.values.node, node, _ties(scope))
    # Joins written inside the FROM item itself (FROM a JOIN b parses to both places).
    for join in joins:
        node = _join(ctx, node, join, scope, ctes)
        if scope.tied:
            raise NoRule(Reason.CORRELATION, text(query))
    if domain is not None and keeps_right:
        node = inner_join(domain.values.node, node, [])
    for lateral in query.args.get("laterals") or []:
        node = lateral_view(ctx, node, lateral, scope)
    return node


def _item(ctx: Context, item: exp.Expr, scope: Scope, ctes: CommonTables) -> Node:
    if isinstance(item, exp.Subquery) and _holds_joins(item.this):
        return _in_brackets(ctx, item, scope, ctes)
    lowered = _relation(ctx, item, scope, ctes)
    alias = item.args.get("alias")
    if scope.tied and (item.args.get("pivots") or item.args.get("joins")):
        raise NoRule(Reason.CORRELATION, text(item))
    for pivot in item.args.get("pivots") or []:
        lowered = apply_pivot(ctx, lowered, pivot)
        alias = pivot.args.get("alias") or alias
    names = lowered.names
    if alias is not None and alias.args.get("columns"):
        names = tuple(column.name for column in alias.args["columns"])
    shown = (alias.name if alias is not None else item.alias_or_name) or ctx.fresh()
    scope.bindings.append(Binding.of(shown, names, lowered.node.columns[: len(names)]))
    node = lowered.node
    for join in item.args.get("joins") or []:
        node = _join(ctx, node, join, scope, ctes)
    return node


def _in_brackets(ctx: Context, item: exp.Subquery, scope: Scope, ctes: CommonTables) -> Node:
    """Lower `(a JOIN b ON ...)`: its conditions see its own names only, the query sees them too."""
    if any(item.args.get(part) for part in ("alias", "pivots", "sample")):
        raise NoRule(Reason.UNKNOWN_CLAUSE, text(item))
    own = Scope(chars=ctx.chars)
    node = _item(ctx, item.this, own, ctes)
    if own.merged:
        raise NoRule(Reason.UNKNOWN_CLAUSE, f"USING in brackets: {text(item)}")
    scope.bindings += own.bindings
    for join in item.args.get("joins") or []:
        node = _join(ctx, node, join, scope, ctes)
    return node


def _holds_joins(item: exp.Expr) -> bool:
    """Whether brackets hold what a FROM clause does, and not a query."""
    if isinstance(item, exp.Subquery):
        return bool(item.args.get("joins")) or _holds_joins(item.this)
    return isinstance(item, exp.Table)


def _ties(scope: Scope) -> list[exp.Expr]:
    """Take the conditions that tie derived tables to the domain."""
    tied, scope.tied = scope.tied, []
    return tied


def _derived(ctx: Context, query: exp.Expr, scope: Scope, ctes: CommonTables) -> Lowered:
    """Lower a derived table; one that reads columns of queries further out goes by the domain."""
    domain = scope.outside
    if isinstance(domain, Domain):
        asked = Domain(domain.outer, domain.values)
        if any(asked.lookup(column) is not None for column in query.find_all(exp.Column)):
            asked.used.clear()
            lowered = ctx.query(query, asked, ctes)
            if asked.used:
                domain.used |= asked.used
                carried = lowered.node.columns[len(lowered.names) :]
                pairs = zip(domain.columns, carried, strict=True)
                scope.tied += [
                    exp.NullSafeEQ(this=unique(ours), expression=unique(theirs))
                    for ours, theirs in pairs
                ]
                return lowered
    return ctx.query(query, None, ctes)


def _common(ctx: Context, table: CommonTable, scope: Scope) -> Lowered:
    """Lower a WITH item; one of the very query that has a domain may read outer columns."""
    domain = scope.outside
    if (
        isinstance(domain, Domain)
        and table.domain is not None
        and table.domain.values is domain.values
    ):
        return _derived(ctx, table.query, scope, table.visible)
    return ctx.query(table.query, None, table.visible)


def _relation(ctx: Context, item: exp.Expr, scope: Scope, ctes: CommonTables) -> Lowered:
    if item.args.get("sample"):
        raise NoRule(Reason.TABLE_SAMPLE, text(item))
    if isinstance(item, exp.Table):
        if isinstance(item.this, exp.Values):  # in brackets of their own
            return values(ctx, item.this)
        if not isinstance(item.this, exp.Identifier):
            return _table_function(ctx, item)
        name = ".".join(part.name for part in item.parts).lower()
        if name in ctes:
            table = ctes[name]
            if table.again is not None:
                return again(ctx, table.again, table.names)
            found = _common(ctx, table, scope) if table.loops is None else recursion(ctx, table)
            return Lowered(found.node, table.names or found.names)
        if name not in ctx.relations:
            raise NoRule(Reason.UNRESOLVED_NAME, name)
        return ctx.scan(name)
    if isinstance(item, exp.Subquery | exp.Query):
        return _derived(ctx, item, scope, ctes)
    if isinstance(item, exp.Values):
        return values(ctx, item)
    raise NoRule(Reason.TABLE_FUNCTION, text(item))


def _table_function(ctx: Context, item: exp.Table) -> Lowered:
    """Rows that a function makes of literals are as good as written ones."""
    if item.find(exp.Column) is not None or item.this.find(exp.Query) is not None:
        raise NoRule(Reason.TABLE_FUNCTION, text(item))
    names = tuple(ctx.typer.of_sql(f"SELECT * FROM {text(item.this)}"))
    columns = tuple(ctx.fresh() for _ in names)
    sql = f"SELECT * FROM {text(item.this)} AS f({', '.join(columns)})"
    return Lowered(Constant(sql, columns), names)


def values(ctx: Context, item: exp.Values) -> Lowered:
    """Lower VALUES; columns without a name are called col1, col2, ..., as Spark does."""
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
    kind = " ".join(part for part in (join.side, join.kind) if part and part != "OUTER")
    if isinstance(join.this, exp.Lateral):
        return _lateral(ctx, node, join, kind, scope, ctes)
    seen = len(scope.bindings)
    left_side = Scope(
        bindings=scope.bindings[:seen], merged=dict(scope.merged), hidden=set(scope.hidden)
    )
    right = _item(ctx, join.this, scope, ctes)
    conditions = _ties(scope)
    if conditions and kind in ("RIGHT", "FULL"):
        raise NoRule(Reason.CORRELATION, text(join))
    plain, with_queries = taken_apart(join.args.get("on"))
    conditions += [scope.resolve(each) for each in plain]
    pairs: list[tuple[str, str, str]] = []
    shared = _shared_names(join, left_side, scope.bindings[seen])
    if shared and len(scope.bindings) > seen + 1:
        raise NoRule(Reason.UNKNOWN_CLAUSE, f"USING before brackets: {text(join)}")
    for name in shared:
        ours = left_side.local(None, name)
        theirs = scope.bindings[seen].columns.get(name)
        if ours is None or theirs is None:
            raise NoRule(Reason.UNRESOLVED_NAME, name)
        pairs.append((name, ours, theirs))
        equal = exp.EQ(this=exp.column(ours), expression=exp.column(theirs))
        conditions.append(padded(equal, ctx.chars))
    if kind in ("", "INNER", "CROSS"):
        node = inner_join(node, right, conditions)
        node = filtered(ctx, node, scope, ctes, with_queries) if with_queries else node
    elif kind in ("LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI", "SEMI", "ANTI"):
        kind = f"LEFT {kind}" if kind in ("SEMI", "ANTI") else kind
        (node, right), asked = marked(ctx, (node, right), scope, ctes, with_queries)
        node = keyed_join(ctx, node, right, [*conditions, *asked], kind)
        if kind.startswith("LEFT "):
            del scope.bindings[seen:]
            return node
    else:
        raise NoRule(Reason.UNKNOWN_CLAUSE, f"{kind} JOIN")
    return _merge_using(ctx, node, scope, pairs, kind)


def _shared_names(join: exp.Join, left: Scope, right: Binding) -> list[str]:
    """Return the columns of USING; NATURAL means all that both sides have."""
    if join.method == "NATURAL":
        shown = [name.lower() for name, _ in left.star()]
        return [name for name in dict.fromkeys(shown) if name in right.columns]
    if join.method:
        raise NoRule(Reason.UNKNOWN_CLAUSE, f"{join.method} JOIN")
    return [column.name.lower() for column in join.args.get("using") or []]


def _merge_using(
    ctx: Context, node: Node, scope: Scope, pairs: list[tuple[str, str, str]], kind: str
) -> Node:
    """USING shows one column for two: the kept side's, or whichever is there in a full join.

    What the last USING made one comes first, then what those before it did.
    """
    found: dict[str, str] = {}
    for name, ours, theirs in pairs:
        scope.hidden |= {ours, theirs}
        found[name] = theirs if kind == "RIGHT" else ours
        if kind == "FULL":
            node, (found[name],) = ctx.extend(node, [f"COALESCE({ours}, {theirs})"])
    scope.merged = {**found, **{key: it for key, it in scope.merged.items() if key not in found}}
    return node


def _lateral(
    ctx: Context, node: Node, join: exp.Join, kind: str, scope: Scope, ctes: CommonTables
) -> Node:
    """Join to each row what a query, or a generator, makes of it."""
    lateral = join.this
    if kind not in ("", "INNER", "CROSS", "LEFT"):
        raise NoRule(Reason.LATERAL_SUBQUERY, text(join))
    alias = lateral.args.get("alias")
    shown = (alias.name if alias is not None else "") or ctx.fresh()
    given = tuple(column.name for column in (alias.args.get("columns") or [])) if alias else ()
    on = [each for each in conjuncts(join.args.get("on")) if each != exp.true()]
    if not isinstance(lateral.this, exp.Subquery):
        if kind == "LEFT" and on:
            raise NoRule(Reason.LATERAL_SUBQUERY, text(join))
        made = generate(ctx, node, scope.resolve(lateral.this), outer=kind == "LEFT")
        scope.bindings.append(Binding.of(shown, given or made.names, made.node.produced))
        return where(made.node, [scope.resolve(each) for each in on])
    found = nested(ctx, lateral.this, node, scope, ctes)
    conditions: list[exp.Expr] = [*found.equalities()]
    scope.bindings.append(Binding.of(shown, given or found.names, found.own))
    conditions += [scope.resolve(each) for each in on]
    if kind == "LEFT":
        return keyed_join(ctx, node, found.node, conditions, "LEFT")
    return inner_join(node, found.node, conditions)
