"""From a parsed query to a relational plan."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from laminar.model.char_columns import Chars
from laminar.model.same_row import collation_of
from laminar.plan.context import CommonTable, CommonTables, Context, Loops, Lowered, Typer
from laminar.plan.from_clause import values
from laminar.plan.marks import attach
from laminar.plan.nodes import AggCall, Aggregate, Node, Project, Reweigh, UnionAll
from laminar.plan.outer_values import Domain
from laminar.plan.reasons import NoRule, Reason
from laminar.plan.scope import text
from laminar.plan.select import select
from laminar.plan.sessions import find_sessions


def lower(
    query: exp.Expr,
    relations: Mapping[str, tuple[str, ...]],
    typer: Typer,
    times: Mapping[str, frozenset[str]] | None = None,
    arrivals: frozenset[str] = frozenset(),
    chars: Mapping[str, Chars] | None = None,
) -> Lowered:
    """Lower a query over known relations. Raises NoRule where none exists.

    Args:
        query: the parsed query.
        relations: name -> columns.
        typer: tells types.
        times: name -> columns that carry event time.
        arrivals: names, in lower case, of relations that number their rows.
        chars: name in lower case -> its columns of CHAR(n).
    """
    spelling = {name.lower(): name for name in relations}
    columns = {name.lower(): listed for name, listed in relations.items()}
    ctx = Context(columns, spelling, typer, times or {}, arrivals, chars or {})

    def nested(query: exp.Expr, domain: Domain | None, ctes: CommonTables) -> Lowered:
        return _query(ctx, query, domain, ctes)

    ctx.query = nested
    ctx.attach = attach
    lowered = _query(ctx, query, None, {})
    shown = zip(lowered.names, lowered.node.columns, strict=True)
    found = tuple((name, ctx.chars[column]) for name, column in shown if column in ctx.chars)
    return Lowered(find_sessions(lowered.node), lowered.names, found)


def _query(ctx: Context, query: exp.Expr, domain: Domain | None, ctes: CommonTables) -> Lowered:
    ctes = _with(query, domain, ctes)
    match query:
        case exp.Subquery() | exp.SetOperation() if _is_cut(query):
            return _cut(ctx, query, domain, ctes)
        case exp.Subquery():
            return _query(ctx, query.this, domain, ctes)
        case exp.Select():
            return select(ctx, query, domain, ctes)
        case exp.SetOperation():
            return _set_operation(ctx, query, domain, ctes)
        case exp.Values() if domain is None:
            return values(ctx, query)
        case _:
            raise NoRule(Reason.UNKNOWN_CLAUSE, text(query))


def _with(query: exp.Expr, domain: Domain | None, ctes: CommonTables) -> CommonTables:
    clause = query.args.get("with_")
    if clause is None:
        return ctes
    known = dict(ctes)
    for item in clause.expressions:
        loops = None
        if clause.args.get("recursive") and _reads_itself(item):
            loops = Loops(item.alias.lower(), item.args["alias"].args.get("most"))
        listed = item.args["alias"].args.get("columns") or []
        names = tuple(column.name for column in listed)
        known[item.alias.lower()] = CommonTable(item.this, names, dict(known), domain, loops)
    return known


def _reads_itself(item: exp.Expr) -> bool:
    tables = (each for each in item.this.find_all(exp.Table) if not each.args.get("db"))
    return any(each.name.lower() == item.alias.lower() for each in tables)


_CUTS = ("order", "limit", "offset")


def _is_cut(query: exp.Expr) -> bool:
    return any(query.args.get(each) for each in _CUTS)


def _cut(ctx: Context, query: exp.Expr, domain: Domain | None, ctes: CommonTables) -> Lowered:
    """Lower `q ORDER BY ... LIMIT ...` as `SELECT * FROM (q) ORDER BY ... LIMIT ...`."""
    inner = query.copy()
    around = exp.Select(expressions=[exp.Star()])
    for each in (*_CUTS, "with_"):
        clause = inner.args.get(each)
        inner.set(each, None)
        if each != "with_":
            around.set(each, clause)
    alias = exp.TableAlias(this=exp.to_identifier("q"))
    around.set("from_", exp.From(this=exp.Subquery(this=inner, alias=alias)))
    return ctx.query(around, domain, ctes)


def _set_operation(
    ctx: Context, query: exp.SetOperation, domain: Domain | None, ctes: CommonTables
) -> Lowered:
    """Combine two queries; the columns of a domain are compared like the others."""
    if any(query.args.get(each) for each in ("by_name", "side")):
        raise NoRule(Reason.UNKNOWN_CLAUSE, "BY NAME in a set operation")
    left = ctx.query(query.left, domain, ctes)
    right = ctx.query(query.right, domain, ctes)
    keep_copies = query.args.get("distinct") is False
    if isinstance(query, exp.Union):
        columns = tuple(ctx.named_after(each) for each in left.node.columns)
        both: Node = _widened(ctx, UnionAll((left.node, right.node), columns))
        node = both if keep_copies else Aggregate(both, columns, ())
        return Lowered(node, left.names)
    node = _counted(ctx, left.node, right.node, isinstance(query, exp.Except), keep_copies)
    return Lowered(node, left.names)


def _counted(ctx: Context, left: Node, right: Node, is_except: bool, keep_copies: bool) -> Node:
    """INTERSECT and EXCEPT: count each row on both sides; the copies follow from the counts."""
    tag = ctx.fresh()
    columns = tuple(ctx.named_after(each) for each in left.columns)

    def tagged(node: Node, is_left: str) -> Project:
        items = tuple((column, ctx.fresh()) for column in node.columns)
        return Project(node, (*items, (is_left, ctx.fresh())))

    both = _widened(ctx, UnionAll((tagged(left, "true"), tagged(right, "false")), (*columns, tag)))
    flipped = ctx.fresh()
    sided = Project(both, (*((c, c) for c in columns), (tag, tag), (f"NOT {tag}", flipped)))
    a, b = ctx.fresh(), ctx.fresh()
    sided, spellings, shown = _spelled_on_the_left(ctx, sided, both, tag)
    counts = Aggregate(
        sided,
        columns,
        (
            AggCall(a, "count_if", (tag,), f"COUNT_IF({tag})"),
            AggCall(b, "count_if", (flipped,), f"COUNT_IF({flipped})"),
            *spellings,
        ),
    )
    if is_except:
        copies = f"GREATEST({a} - {b}, 0L)" if keep_copies else f"IF({a} > 0 AND {b} = 0, 1L, 0L)"
    else:
        copies = f"LEAST({a}, {b})" if keep_copies else f"IF({a} > 0 AND {b} > 0, 1L, 0L)"
    items = tuple((shown.get(column, column), column) for column in columns)
    return Project(Reweigh(counts, copies), items)


def _spelled_on_the_left(
    ctx: Context, sided: Project, both: UnionAll, tag: str
) -> tuple[Project, list[AggCall], dict[str, str]]:
    """Let rows that a collation takes for equal show a spelling of the left side, as in Spark."""
    items, calls, shown = list(sided.items), [], {}
    for column, kind in zip(both.columns, both.types, strict=False):
        collation = collation_of(kind)
        if collation is None:
            continue
        plain, least = ctx.fresh(), ctx.fresh()
        items.append((f"IF({tag}, ({column} COLLATE UTF8_BINARY), NULL)", plain))
        calls.append(AggCall(least, "min", (plain,), f"MIN({plain})"))
        shown[column] = f"({least} COLLATE {collation})"
    return Project(sided.input, tuple(items)), calls, shown


def _widened(ctx: Context, union: UnionAll) -> UnionAll:
    """Fix the column types, so that a part alone has the types of the whole."""
    types = ctx.typer.types(union)
    return UnionAll(union.inputs, union.columns, tuple(types[name] for name in union.columns))
