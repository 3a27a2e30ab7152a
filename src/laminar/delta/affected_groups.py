"""Affected groups: what a change touches is computed anew, and the difference taken.

    K  = keys that the deltas of the inputs hold
    ΔQ = Q(inputs after, only keys in K) − (stored rows with keys in K)

Exact for any operator whose output for a key depends on the inputs' rows for that key alone:
aggregates without accumulators, window functions by partition, outer joins by join key.
"""

from __future__ import annotations

from laminar.delta.accumulators import Spelling
from laminar.delta.asof import at_moments, moments, nearest
from laminar.delta.change import Change, Version, bag, columns, consolidate, quote, table
from laminar.delta.program import Regrouped
from laminar.delta.render import Everything
from laminar.delta.render import change as render
from laminar.model.same_row import collation_of
from laminar.model.trace import WEIGHT
from laminar.plan.nodes import Aggregate, KeyedJoin, Node, Window

_Keyed = tuple[Node, tuple[str, ...], Change]


def regroup(
    relation: Regrouped, given: list[Change], *, existed: bool, touched: str | None = None
) -> str:
    """Δ of the relation.

    Args:
        relation: what is computed anew.
        given: the changes of its inputs.
        existed: whether it had rows before.
        touched: for an ASOF JOIN, the name of its touched moments, if they are there already.
    """
    if isinstance(relation.node, KeyedJoin) and relation.node.kind == "ASOF" and existed:
        left, right = given
        return _moved(relation, relation.node, left, right, touched)
    sides = _sides(relation, given)
    keys = _touched_keys(sides)
    own = relation.shape
    listed = columns(own.columns)
    parts = [f"SELECT {listed}, 1L AS {WEIGHT} FROM ({_recompute(relation, sides, keys)})"]
    if existed:
        old = f"SELECT {columns(own.columns, 't.')}, -t.{WEIGHT} AS {WEIGHT} "
        old += f"FROM {table(own.name, Version.BEFORE)} t"
        if keys is not None:
            old += f" LEFT SEMI JOIN ({keys}) k ON {_own_key(relation)}"
        parts.append(old)
    return consolidate("\nUNION ALL\n".join(parts), own.row)


def _moved(
    relation: Regrouped, node: KeyedJoin, left: Change, right: Change, known: str | None
) -> str:
    """Δ of an ASOF JOIN: its groups are moments of a key, not whole keys."""
    own = relation.shape
    touched = moments(node, left, right) if known is None else f"SELECT * FROM {known}"
    test = " AND ".join(f"t.{key} <=> k.k{place}" for place, key in enumerate(node.left_keys))
    assert node.match is not None
    parts = [
        f"SELECT {columns(own.columns, 't.')}, -t.{WEIGHT} AS {WEIGHT} "
        f"FROM {table(own.name, Version.BEFORE)} t LEFT SEMI JOIN ({touched}) k "
        f"ON {test} AND t.{node.match[0]} <=> k.t"
    ]
    if left.after is not None:
        ours, theirs = at_moments(node, relation.inputs, left, right, touched)
        right_side = (node.right, node.right_keys, right)
        theirs = theirs or _restricted(relation, right_side, None)
        made = f"SELECT {_typed(relation)} FROM ({nearest(node, ours, theirs)})"
        parts.append(f"SELECT {columns(own.columns)}, 1L AS {WEIGHT} FROM ({made})")
    return consolidate("\nUNION ALL\n".join(parts), own.row)


def is_touched(relation: Regrouped, given: list[Change], *, first: bool) -> bool:
    """Whether any group may differ; a query without keys has a row even of nothing."""
    if any(change.delta is not None for change in given):
        return True
    return first and isinstance(relation.node, Aggregate) and not relation.node.keys


def _sides(relation: Regrouped, given: list[Change]) -> list[_Keyed]:
    match relation.node:
        case Aggregate():
            return [(relation.node.input, relation.node.keys, given[0])]
        case Window():
            return [(relation.node.input, relation.node.partition, given[0])]
        case KeyedJoin(left=left, right=right, left_keys=ours, right_keys=theirs):
            return [(left, ours, given[0]), (right, theirs, given[1])]


def _touched_keys(sides: list[_Keyed]) -> str | None:
    """The keys in K as k1, k2, ...; None if there is but one group."""
    if not sides[0][1]:
        return None
    parts = []
    for _, keys, change in sides:
        if change.delta is not None:
            items = ", ".join(f"{key} AS k{place}" for place, key in enumerate(keys))
            parts.append(f"SELECT {items} FROM ({change.delta})")
    united = "\nUNION ALL\n".join(parts)
    names = ", ".join(f"k{place}" for place in range(len(sides[0][1])))
    return f"SELECT DISTINCT {names} FROM ({united})"


def _restricted(relation: Regrouped, side: _Keyed, keys: str | None) -> str:
    node, own, change = side
    row = relation.inputs.only(node.columns)
    if change.after is None:
        # Known to be empty: keep the columns and their types, take no row.
        typed = render(node, Everything()).after
        return bag(f"SELECT * FROM ({typed}) WHERE false", row, positive=True)
    rows = change.after
    if keys is not None:
        on = " AND ".join(f"t.{quote(key)} <=> k.k{place}" for place, key in enumerate(own))
        rows = f"SELECT t.* FROM ({rows}) t LEFT SEMI JOIN ({keys}) k ON {on}"
    return bag(rows, row, positive=change.positive)


def _recompute(relation: Regrouped, sides: list[_Keyed], keys: str | None) -> str:
    rows = [_restricted(relation, side, keys) for side in sides]
    node = relation.node
    match node:
        case Aggregate():
            listed = columns(node.keys)
            keys_shown = [_shown(relation, key) for key in node.keys]
            calls = [f"{call.sql} AS {call.name}" for call in node.calls]
            items = ", ".join(keys_shown + calls)
            group = f" GROUP BY {listed}" if listed else ""
            return f"SELECT {_typed(relation)} FROM (SELECT {items} FROM ({rows[0]}){group})"
        case Window():
            items = "".join(f", {expression} AS {name}" for expression, name in node.items)
            inner = f"SELECT {columns(node.input.columns)}{items} FROM ({rows[0]})"
            return f"SELECT {_typed(relation)} FROM ({inner})"
        case KeyedJoin(kind="ASOF"):
            return f"SELECT {_typed(relation)} FROM ({nearest(node, rows[0], rows[1])})"
        case KeyedJoin():
            return (
                f"SELECT {columns(node.columns)} FROM ({rows[0]}) l "
                f"{node.kind} JOIN ({rows[1]}) r ON {node.condition}"
            )


def _shown(relation: Regrouped, key: str) -> str:
    """Show a key that has several spellings as `accumulators.Spelling` says."""
    collation = collation_of(relation.inputs.kind(key))
    return key if collation is None else f"{Spelling(key, collation).shown} AS {key}"


def _typed(relation: Regrouped) -> str:
    pairs = zip(relation.shape.columns, relation.shape.types, strict=True)
    return ", ".join(f"CAST({quote(name)} AS {kind}) AS {quote(name)}" for name, kind in pairs)


def _own_key(relation: Regrouped) -> str:
    node = relation.node
    match node:
        case Aggregate():
            own = [f"t.{key}" for key in node.keys]
        case Window():
            own = [f"t.{key}" for key in node.partition]
        case KeyedJoin(kind="RIGHT"):
            own = [f"t.{key}" for key in node.right_keys]
        case KeyedJoin(kind="FULL"):
            pairs = zip(node.left_keys, node.right_keys, strict=True)
            own = [f"COALESCE(t.{left}, t.{right})" for left, right in pairs]
        case KeyedJoin():
            own = [f"t.{key}" for key in node.left_keys]
    return " AND ".join(f"{key} <=> k.k{place}" for place, key in enumerate(own))
