"""Joins: inner ones stay n-ary, the others become inner joins, sets of keys and unions.

    A LEFT JOIN B  =  A ⋈ B  +  (A without a partner, padded with NULL)
    A SEMI JOIN B  =  A ⋈ keys(B)
    A ANTI JOIN B  =  A ▷ keys(B)

where keys(B) is the set of B's join keys. A condition that compares more than keys has no such
form and is maintained by recomputing the touched keys (`KeyedJoin`).
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from laminar.plan.context import Context
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


def predicate(condition: exp.Expr) -> Predicate:
    """Wrap a resolved condition."""
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


@dataclass(frozen=True, slots=True)
class KeyedCondition:
    """A join condition taken apart."""

    pairs: tuple[tuple[str, str], ...]  # equal expressions, (left, right)
    left_only: tuple[str, ...]
    right_only: tuple[str, ...]
    mixed: tuple[str, ...]

    @classmethod
    def of(cls, left: Node, right: Node, conditions: list[exp.Expr]) -> KeyedCondition:
        """Sort conditions by the side they read."""
        on_left, on_right = frozenset(left.columns), frozenset(right.columns)
        pairs: list[tuple[str, str]] = []
        lefts: list[str] = []
        rights: list[str] = []
        mixed: list[str] = []
        for each in conditions:
            used = reads(each)
            if used <= on_left:
                lefts.append(text(each))
            elif used <= on_right:
                rights.append(text(each))
            elif isinstance(each, exp.EQ) and reads(each.left) and reads(each.right):
                sides = (each.left, each.right)
                if reads(sides[0]) <= on_right:
                    sides = (sides[1], sides[0])
                if reads(sides[0]) <= on_left and reads(sides[1]) <= on_right:
                    pairs.append((text(sides[0]), text(sides[1])))
                else:
                    mixed.append(text(each))
            else:
                mixed.append(text(each))
        return cls(tuple(pairs), tuple(lefts), tuple(rights), tuple(mixed))

    def require_pairs(self) -> None:
        """Refuse a join without an equality between both sides."""
        if not self.pairs:
            raise NoRule(
                Reason.NON_EQUI_OUTER_JOIN,
                "an outer, semi or anti join needs an equality between both sides",
            )


def guarded(keys: list[str], conditions: tuple[str, ...]) -> list[str]:
    """Make the first key NULL where a one-sided condition fails: NULL never finds a partner."""
    if not conditions:
        return keys
    test = " AND ".join(f"({each})" for each in conditions)
    return [f"CASE WHEN {test} THEN {keys[0]} END", *keys[1:]]


def key_set(ctx: Context, node: Node, keys: tuple[str, ...]) -> Aggregate:
    """Return the set of a plan's keys, as columns of their own."""
    items = tuple((key, ctx.fresh()) for key in keys)
    names = tuple(name for _, name in items)
    return Aggregate(Project(node, items), names, ())


def semi_join(
    ctx: Context, left: Node, right: Node, pairs: list[tuple[str, str]], *, anti: bool
) -> Node:
    """Keep the rows of `left` that have (or have not) a partner in `right`."""
    right, right_keys = ctx.extend(right, [pair[1] for pair in pairs])
    keys = key_set(ctx, right, right_keys)
    wanted = left.columns
    left, left_keys = ctx.extend(left, [pair[0] for pair in pairs])
    kept: Node
    if anti:
        kept = Anti(left, keys, left_keys, keys.columns)
    else:
        equal = zip(left_keys, keys.columns, strict=True)
        kept = Join(
            (left, keys), tuple(Predicate(f"{a} = {b}", frozenset((a, b)), True) for a, b in equal)
        )
    return Project(kept, tuple((column, column) for column in wanted))


def keyed_join(
    ctx: Context, left: Node, right: Node, conditions: list[exp.Expr], kind: str
) -> Node:
    """Plan an outer, semi or anti join."""
    parts = KeyedCondition.of(left, right, conditions)
    parts.require_pairs()
    left_keys = guarded([pair[0] for pair in parts.pairs], parts.left_only)
    right_keys = guarded([pair[1] for pair in parts.pairs], parts.right_only)
    wanted = left.columns if kind.startswith("LEFT ") else (*left.columns, *right.columns)
    if kind.startswith("LEFT ") and not parts.mixed:
        pairs = list(zip(left_keys, right_keys, strict=True))
        return semi_join(ctx, left, right, pairs, anti=kind == "LEFT ANTI")
    wide_left, keys_left = ctx.extend(left, left_keys)
    wide_right, keys_right = ctx.extend(right, right_keys)
    if parts.mixed:
        test = " AND ".join(
            [f"{a} = {b}" for a, b in zip(keys_left, keys_right, strict=True)]
            + [f"({each})" for each in parts.mixed]
        )
        joined = KeyedJoin(wide_left, wide_right, keys_left, keys_right, test, kind)
        return Project(joined, tuple((column, column) for column in wanted))
    return _outer(ctx, (left, wide_left, keys_left), (right, wide_right, keys_right), kind)


_Side = tuple[Node, Node, tuple[str, ...]]  # columns wanted, columns with keys, keys


def _outer(ctx: Context, left: _Side, right: _Side, kind: str) -> Node:
    """Add up the matched rows and, padded with NULL, the unmatched ones of the kept sides."""
    wanted = (*left[0].columns, *right[0].columns)
    equal = zip(left[2], right[2], strict=True)
    matched = Join(
        (left[1], right[1]),
        tuple(Predicate(f"{a} = {b}", frozenset((a, b)), True) for a, b in equal),
    )
    parts: list[Node] = [Project(matched, tuple((column, column) for column in wanted))]
    if kind in ("LEFT", "FULL"):
        parts.append(_unmatched(ctx, left, right, wanted))
    if kind in ("RIGHT", "FULL"):
        parts.append(_unmatched(ctx, right, left, wanted))
    return UnionAll(tuple(parts), wanted)


def _unmatched(ctx: Context, kept: _Side, other: _Side, wanted: tuple[str, ...]) -> Node:
    types = ctx.typer.types(other[0])
    present = frozenset(kept[0].columns)
    keys = key_set(ctx, other[1], other[2])
    lonely = Anti(kept[1], keys, kept[2], keys.columns)
    return Project(
        lonely,
        tuple(
            (column if column in present else f"CAST(NULL AS {types[column]})", column)
            for column in wanted
        ),
    )
