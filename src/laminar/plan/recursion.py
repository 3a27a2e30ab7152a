"""WITH RECURSIVE r AS (base UNION ALL step): the rows R = base + step(R).

The rule asks for a step that is linear in R: it makes rows of each row of R by itself, with other
relations if need be. What looks at all rows of a level together, or at R twice, is no such step.

A column tells the level of each row. It tells R's rows apart by how they came about, so what the
step makes is well-founded, and it is what Spark's limit counts.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from laminar.plan.context import CommonTable, Context, Loops, Lowered
from laminar.plan.nodes import (
    Again,
    Anti,
    Filter,
    Generate,
    Join,
    Node,
    Project,
    Recursion,
    UnionAll,
    children,
)
from laminar.plan.reasons import NoRule, Reason

LEVEL = "int"
"""The type of a level."""


def recursion(ctx: Context, table: CommonTable) -> Lowered:
    """Lower a WITH item that reads itself."""
    assert table.loops is not None
    written = _in_two(table.query, table.loops)
    base = ctx.query(written.left, None, table.visible)
    given = ctx.typer.types(base.node)
    names = table.names or base.names
    types = (*(given[column] for column in base.node.columns), LEVEL)
    loop = ctx.fresh()
    own = CommonTable(table.query, names, {}, again=Again(loop, (), types))
    step = ctx.query(written.right, None, {**table.visible, table.loops.name: own})
    if len(step.node.columns) != len(base.node.columns):
        raise NoRule(Reason.RECURSIVE_CTE, f"{table.loops.name} changes its columns")
    most = ctx.typer.recursion_levels if table.loops.most is None else table.loops.most
    columns = tuple(ctx.fresh() for _ in types)
    found = Recursion(
        _at_level(ctx, base.node, "1"), _levelled(ctx, step.node, loop), loop, columns, types, most
    )
    return Lowered(Project(found, tuple((each, each) for each in columns[:-1])), names)


def again(ctx: Context, given: Again, names: tuple[str, ...]) -> Lowered:
    """Read the rows that a step is given, under fresh column names; the level is not shown."""
    return Lowered(replace(given, columns=tuple(ctx.fresh() for _ in given.types)), names)


def ends_recursion(node: Node) -> bool:
    """Whether Spark would stop a recursion when a LIMIT over this plan has its rows."""
    if isinstance(node, Project | UnionAll):
        return any(ends_recursion(each) for each in children(node))
    return isinstance(node, Recursion)


def _in_two(query: exp.Expr, loops: Loops) -> exp.Union:
    """Return the query as base and step; Spark takes a UNION ALL of the two and nothing else."""
    while isinstance(query, exp.Subquery) and not query.args.get("with_"):
        query = query.this
    is_plain = isinstance(query, exp.Union) and query.args.get("distinct") is False
    cuts = any(query.args.get(each) for each in ("order", "limit", "offset", "by_name", "with_"))
    if not is_plain or cuts:
        raise NoRule(Reason.RECURSIVE_CTE, f"{loops.name} is no plain UNION ALL of two queries")
    assert isinstance(query, exp.Union)
    return query


def _levelled(ctx: Context, step: Node, loop: str) -> Node:
    """Return a step that hands on the level of the row that it is given, plus one."""
    node, level = _carried(ctx, step, loop)
    return _at_level(ctx, node, f"{level} + 1", step.columns)


def _at_level(
    ctx: Context, node: Node, level: str, columns: tuple[str, ...] | None = None
) -> Project:
    items = [(column, ctx.fresh()) for column in columns or node.columns]
    return Project(node, (*items, (level, ctx.fresh())))


def _carried(ctx: Context, node: Node, loop: str) -> tuple[Node, str]:
    """Return a plan with the level of what it is given, and the column that has it.

    Law: what this can do is linear in the rows of the recursion: they are read once by each
    branch, and pass only through operators f with f(a + b) = f(a) + f(b).
    """
    match node:
        case Again():
            return node, node.columns[-1]
        case Filter() | Generate():
            below, level = _carried(ctx, node.input, loop)
            return replace(node, input=below), level
        case Project():
            below, level = _carried(ctx, node.input, loop)
            return Project(below, (*node.items, (level, level))), level
        case UnionAll():
            return _union(ctx, node, loop)
        case Join():
            return _join(ctx, node, loop)
        case Anti() if reads_again(node.left, loop) and not reads_again(node.right, loop):
            below, level = _carried(ctx, node.left, loop)
            return replace(node, left=below), level
    raise NoRule(Reason.RECURSION_BY_LEVEL, f"{_said(node)} in the step looks at a whole level")


def _union(ctx: Context, node: UnionAll, loop: str) -> tuple[Node, str]:
    if not all(reads_again(each, loop) for each in node.inputs):
        raise NoRule(Reason.RECURSION_BY_LEVEL, "a part of the step does not read the recursion")
    parts: list[Node] = []
    for each in node.inputs:
        below, level = _carried(ctx, each, loop)
        items = tuple((column, column) for column in each.columns)
        parts.append(Project(below, (*items, (level, ctx.fresh()))))
    column = ctx.fresh()
    types = (*node.types, LEVEL) if node.types else ()
    return UnionAll(tuple(parts), (*node.columns, column), types), column


def _join(ctx: Context, node: Join, loop: str) -> tuple[Node, str]:
    own = [place for place, each in enumerate(node.inputs) if reads_again(each, loop)]
    if len(own) > 1:
        raise NoRule(Reason.RECURSION_TWICE, "the step needs the recursion more than once")
    below, level = _carried(ctx, node.inputs[own[0]], loop)
    inputs = (*node.inputs[: own[0]], below, *node.inputs[own[0] + 1 :])
    return Join(inputs, node.predicates), level


def reads_again(node: Node, loop: str) -> bool:
    """Whether a plan reads the rows that the step of a recursion is given."""
    if isinstance(node, Again):
        return node.loop == loop
    return any(reads_again(each, loop) for each in children(node))


_SAID = {
    "Aggregate": "DISTINCT, a set operation or an aggregate",
    "TopK": "LIMIT",
    "Window": "a window function",
    "KeyedJoin": "an outer, semi or anti join on more than equal keys",
    "Reweigh": "a set operation",
    "Anti": "NOT IN or NOT EXISTS over the recursion",
    "Recursion": "another recursion",
}


def _said(node: Node) -> str:
    return _SAID.get(type(node).__name__, type(node).__name__)
