"""Joins: inner ones stay n-ary, the others become inner joins, sets of keys and unions.

    A LEFT JOIN B  =  A ⋈ B  +  (A without a partner, padded with NULL)
    A SEMI JOIN B  =  A ⋈ keys(B)
    A ANTI JOIN B  =  A ▷ keys(B)

where keys(B) is the set of B's join keys. A condition that compares keys and something more has no
such form and is maintained by recomputing the touched keys (`KeyedJoin`). One without any equality
asks for the values of A that have a partner (`plan/theta.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from laminar.plan.context import Context
from laminar.plan.equal_keys import Compared, Pair, comparable, paired
from laminar.plan.nodes import (
    Aggregate,
    Anti,
    Filter,
    Join,
    KeyedJoin,
    Node,
    Predicate,
    Project,
    UnionAll,
)
from laminar.plan.reasons import NoRule, Reason
from laminar.plan.scope import reads, text
from laminar.plan.theta import partnered
from laminar.sql.asof import MARK


def predicate(condition: exp.Expr) -> Predicate:
    """Note what a resolved condition reads, and whether it is an equality."""
    return Predicate(
        text(condition), reads(condition), isinstance(condition, exp.EQ | exp.NullSafeEQ)
    )


def inner_join(left: Node, right: Node, conditions: list[exp.Expr]) -> Join:
    """Join two plans; a left side that is itself an inner join is extended, not nested."""
    inputs = (*left.inputs, right) if isinstance(left, Join) else (left, right)
    before = left.predicates if isinstance(left, Join) else ()
    return Join(inputs, (*before, *(predicate(each) for each in conditions)))


def where(node: Node, conditions: list[exp.Expr]) -> Node:
    """Apply conditions; those over an inner join become join predicates."""
    if not conditions:
        return node
    if isinstance(node, Join):
        return Join(node.inputs, (*node.predicates, *(predicate(each) for each in conditions)))
    return Filter(node, text(exp.and_(*conditions)))


def only(node: Node, columns: tuple[str, ...]) -> Project:
    """Keep some columns of a plan."""
    return Project(node, tuple((column, column) for column in columns))


@dataclass(frozen=True, slots=True)
class KeyedCondition:
    """A join condition taken apart by which sides its parts read."""

    pairs: tuple[Pair, ...]
    left_only: tuple[str, ...]
    right_only: tuple[str, ...]
    mixed: tuple[str, ...]

    @classmethod
    def of(
        cls, ctx: Context, left: Node, right: Node, conditions: list[exp.Expr]
    ) -> KeyedCondition:
        """Sort conditions by the side they read."""
        on_left, on_right = frozenset(left.columns), frozenset(right.columns)
        pairs: list[tuple[Compared, str]] = []
        lefts: list[str] = []
        rights: list[str] = []
        mixed: list[str] = []
        for each in conditions:
            used = reads(each)
            pair = _pair(each, on_left, on_right)
            if used <= on_left:
                lefts.append(text(each))
            elif used <= on_right:
                rights.append(text(each))
            elif pair is not None:
                pairs.append(pair)
            else:
                mixed.append(text(each))
        keys = paired(ctx, left, right, pairs)
        return cls(tuple(keys), tuple(lefts), tuple(rights), tuple(mixed))

    def keys(self) -> list[Pair]:
        """Return the pairs, the first of which fails where a one-sided condition does.

        It is NULL there, and NULL never finds a partner. A pair for which it does, or none at all,
        gets a constant beside it to be made NULL.
        """
        pairs = list(self.pairs)
        if (self.left_only or self.right_only or not pairs) and (
            not pairs or pairs[0].operator != "="
        ):
            pairs.insert(0, Pair("1", "1"))
        if self.left_only or self.right_only:
            return [
                self._guarded(pair) if pair.is_cast or not at else pair
                for at, pair in enumerate(pairs)
            ]
        return pairs

    def _guarded(self, pair: Pair) -> Pair:
        """Compute a key only where the conditions on its side hold: a cast of others may fail."""
        left, right = _if(self.left_only, pair.left), _if(self.right_only, pair.right)
        return replace(pair, left=left, right=right)


def _pair(
    condition: exp.Expr, left: frozenset[str], right: frozenset[str]
) -> tuple[Compared, str] | None:
    if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
        return None
    a, b = condition.left, condition.right
    if not reads(a) or not reads(b):
        return None
    if reads(a) <= right:
        a, b = b, a
    if not (reads(a) <= left and reads(b) <= right):
        return None
    return (a, b), "=" if isinstance(condition, exp.EQ) else "<=>"


def _if(conditions: tuple[str, ...], key: str) -> str:
    if not conditions:
        return key
    test = " AND ".join(f"({each})" for each in conditions)
    return f"CASE WHEN {test} THEN {key} END"


def key_set(ctx: Context, node: Node, keys: tuple[str, ...]) -> Node:
    """Return the set of a plan's keys, as columns of their own."""
    items = tuple((key, ctx.fresh()) for key in keys)
    known = _as_set(node, keys)
    if known is not None:
        source, columns = known
        return Project(source, tuple(zip(columns, (name for _, name in items), strict=True)))
    names = tuple(name for _, name in items)
    return Aggregate(Project(node, items), names, ())


def _as_set(node: Node, keys: tuple[str, ...]) -> tuple[Node, tuple[str, ...]] | None:
    """Return the set that a plan's keys are already, and what they are called in it."""
    while isinstance(node, Project):
        written = {name: expression for expression, name in node.items}
        if not written.keys() >= set(keys):
            return None  # a key is computed further up
        keys = tuple(written[key] for key in keys)
        node = node.input
    is_set = isinstance(node, Aggregate) and not node.calls and sorted(node.keys) == sorted(keys)
    return (node, keys) if is_set else None


def _equal(left: tuple[str, ...], pairs: list[Pair], right: tuple[str, ...]) -> list[Predicate]:
    found = zip(left, pairs, right, strict=True)
    return [Predicate(f"{a} {p.operator} {b}", frozenset((a, b)), True) for a, p, b in found]


def _operators(pairs: list[Pair]) -> tuple[str, ...]:
    return tuple(pair.operator for pair in pairs)


def semi_join(ctx: Context, left: Node, right: Node, pairs: list[Pair], *, anti: bool) -> Node:
    """Keep the rows of `left` that have (or have not) a partner in `right`."""
    right, right_keys = ctx.extend(right, [pair.right for pair in pairs])
    keys = key_set(ctx, right, right_keys)
    wanted = left.columns
    left, left_keys = ctx.extend(left, [pair.left for pair in pairs])
    kept: Node
    if anti:
        kept = Anti(left, keys, left_keys, keys.columns, _operators(pairs))
    else:
        kept = Join((left, keys), tuple(_equal(left_keys, pairs, keys.columns)))
    return only(kept, wanted)


def keyed_join(
    ctx: Context, left: Node, right: Node, conditions: list[exp.Expr], kind: str
) -> Node:
    """Plan an outer, semi, anti or ASOF join."""
    marks = [each for each in conditions if _is_mark(each)]
    if marks:
        return _asof(ctx, left, right, [each for each in conditions if each not in marks], kind)
    parts = KeyedCondition.of(ctx, left, right, conditions)
    if parts.mixed and not parts.pairs:
        return _theta_join(ctx, left, right, conditions, kind)
    pairs = parts.keys()
    wanted = left.columns if kind.startswith("LEFT ") else (*left.columns, *right.columns)
    if kind.startswith("LEFT ") and not parts.mixed:
        return semi_join(ctx, left, right, pairs, anti=kind == "LEFT ANTI")
    wide_left, keys_left = ctx.extend(left, [pair.left for pair in pairs])
    wide_right, keys_right = ctx.extend(right, [pair.right for pair in pairs])
    equal = _equal(keys_left, pairs, keys_right)
    if parts.mixed:
        test = " AND ".join([*(each.sql for each in equal), *(f"({each})" for each in parts.mixed)])
        joined = KeyedJoin(wide_left, wide_right, keys_left, keys_right, test, kind)
        return only(joined, wanted)
    matched = Join((wide_left, wide_right), tuple(equal))
    lonely: list[Node] = []
    if kind in ("LEFT", "FULL"):
        keys = key_set(ctx, wide_right, keys_right)
        rest = Anti(wide_left, keys, keys_left, keys.columns, _operators(pairs))
        lonely.append(_padded(ctx, only(rest, left.columns), right, wanted))
    if kind in ("RIGHT", "FULL"):
        keys = key_set(ctx, wide_left, keys_left)
        rest = Anti(wide_right, keys, keys_right, keys.columns, _operators(pairs))
        lonely.append(_padded(ctx, only(rest, right.columns), left, wanted))
    return UnionAll((only(matched, wanted), *lonely), wanted)


def _theta_join(
    ctx: Context, left: Node, right: Node, conditions: list[exp.Expr], kind: str
) -> Node:
    """Join by a condition without equalities: A ⋈ B, and the values of A that have a partner."""

    def rows(kept: Node, other: Node, *, anti: bool) -> Node:
        found = partnered(ctx, kept, other, conditions)
        pairs = [Pair(text(code), name, "<=>") for code, name in found.codes()]
        return semi_join(ctx, kept, found.node, pairs, anti=anti)

    if kind.startswith("LEFT "):
        return rows(left, right, anti=kind == "LEFT ANTI")
    wanted = (*left.columns, *right.columns)
    parts: list[Node] = [only(inner_join(left, right, conditions), wanted)]
    if kind in ("LEFT", "FULL"):
        parts.append(_padded(ctx, rows(left, right, anti=True), right, wanted))
    if kind in ("RIGHT", "FULL"):
        parts.append(_padded(ctx, rows(right, left, anti=True), left, wanted))
    return UnionAll(tuple(parts), wanted)


def _padded(ctx: Context, kept: Node, other: Node, wanted: tuple[str, ...]) -> Node:
    """Put typed NULLs where the other side's columns would be."""
    types = ctx.typer.types(other)
    present = frozenset(kept.columns)
    return Project(
        kept,
        tuple(
            (column if column in present else f"CAST(NULL AS {types[column]})", column)
            for column in wanted
        ),
    )


def _is_mark(condition: exp.Expr) -> bool:
    return any(each.is_string and each.this == MARK for each in condition.find_all(exp.Literal))


_COMPARISONS: dict[type[exp.Expr], str] = {exp.GTE: ">=", exp.GT: ">", exp.LTE: "<=", exp.LT: "<"}
_TURNED = {">=": "<=", ">": "<", "<=": ">=", "<": ">"}


def _asof(ctx: Context, left: Node, right: Node, conditions: list[exp.Expr], kind: str) -> Node:
    """Plan a join of each left row with the one right row that is nearest in time."""
    parts = KeyedCondition.of(ctx, left, right, conditions)
    timed = [each.unnest() for each in conditions if type(each.unnest()) in _COMPARISONS]
    if len(timed) != 1 or len(parts.mixed) != 1 or kind != "LEFT":
        raise NoRule(Reason.UNKNOWN_CLAUSE, "it compares one time with another, once")
    pairs = parts.keys()
    if not parts.pairs or any(pair.operator != "=" for pair in pairs):
        raise NoRule(Reason.UNKNOWN_CLAUSE, "it needs equal keys, compared with =")
    one, other, comparison = timed[0].this, timed[0].expression, _COMPARISONS[type(timed[0])]
    if reads(one) <= frozenset(right.columns):
        one, other, comparison = other, one, _TURNED[comparison]
    if not (reads(one) <= frozenset(left.columns) and reads(other) <= frozenset(right.columns)):
        raise NoRule(Reason.UNKNOWN_CLAUSE, "it compares a time of each side")
    ((one, other),) = comparable(ctx, left, right, [(one, other)], [comparison])
    wide_left, (*keys_left, time_left) = ctx.extend(left, [*(p.left for p in pairs), text(one)])
    wide_right, (*keys_right, time_right) = ctx.extend(
        right, [*(p.right for p in pairs), text(other)]
    )
    joined = KeyedJoin(
        wide_left,
        wide_right,
        tuple(keys_left),
        tuple(keys_right),
        f"{time_left} {comparison} {time_right}",
        "ASOF",
        (time_left, comparison, time_right),
    )
    return only(joined, (*left.columns, *right.columns))
