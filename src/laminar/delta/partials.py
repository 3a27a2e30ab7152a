"""Statements that maintain groups as partial accumulators.

accumulate   partial rows of the delta, appended to the trace: O(delta), no state is read
reset        where a retraction meets an accumulator that cannot undo it: the group's partial
             rows are retracted and one fresh row is computed from the group's rows
finish       the old and the new result of the touched groups, for those who read the view
content      all groups, merged and finished
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from laminar.delta.accumulators import COUNT
from laminar.delta.change import Change, Version, columns, consolidate, quote, same_rows, table
from laminar.delta.program import Merged
from laminar.model.same_row import same
from laminar.model.trace import WEIGHT
from laminar.plan.nodes import Aggregate, Project

_WINDOW = re.compile(r"`?window`?\([^()]*\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Grouping:
    """How a statement lists its keys, and what it groups by."""

    listed: str
    by: str


def grouping(node: Aggregate, own: Callable[[str], str]) -> Grouping:
    """Group rows of the input by the keys of an aggregate.

    A window is a struct, which Spark's fast hash table does not take. Neither edge is ever NULL (a
    row without a time is in no window), so grouping by both edges makes the same groups, faster.

    Args:
        node: the aggregate.
        own: how the statement spells a column of the plan.
    """
    written = node.input.items if isinstance(node.input, Project) else ()
    windows = {name for expression, name in written if _WINDOW.fullmatch(expression)}
    listed: list[str] = []
    by: list[str] = []
    for key in node.keys:
        name = own(key)
        if key in windows:
            edges = (f"{name}.start", f"{name}.end")
            listed.append(f"NAMED_STRUCT('start', {edges[0]}, 'end', {edges[1]}) AS {name}")
            by += edges
        else:
            listed.append(name)
            by.append(name)
    return Grouping(", ".join(listed), ", ".join(by))


def _partials(relation: Merged, rows: str, *, units: bool = False) -> str:
    """Fold rows into one partial row per group."""
    keys = grouping(relation.node, quote)
    partials = ", ".join(
        f"{each.over_rows(units=units)} AS {each.name}" for each in relation.accumulators.all
    )
    listed = f"{keys.listed}, " if keys.by else ""
    group = f"GROUP BY {keys.by}" if keys.by else "HAVING COUNT(*) > 0"
    return f"SELECT {listed}{partials}, 1L AS {WEIGHT} FROM ({rows}) {group}"


def accumulate(relation: Merged, given: Change) -> str:
    """Δ partial rows when the delta can be added in."""
    assert given.delta is not None
    return _partials(relation, given.delta, units=given.units)


def needs_reset(relation: Merged, given: Change) -> bool:
    """Whether the delta may hold retractions that the accumulators cannot undo."""
    return not (given.insert_only or relation.accumulators.invertible)


def reset(relation: Merged, given: Change, partial_before: str | None) -> str:
    """Δ partial rows when some groups have to be read again."""
    assert given.delta is not None
    node = relation.node
    delta = consolidate(given.delta, relation.inputs)
    keys = columns(node.keys) or "1"
    if node.keys:
        hit = f"SELECT DISTINCT {keys} FROM ({delta}) WHERE {WEIGHT} < 0"
    else:
        hit = f"SELECT 1 AS __hit FROM ({delta}) WHERE {WEIGHT} < 0 LIMIT 1"
    on = _same_key(node.keys)
    untouched = f"SELECT t.* FROM ({delta}) t LEFT ANTI JOIN ({hit}) k ON {on}"
    parts = [_partials(relation, untouched)]
    if partial_before is not None:
        names = partial_columns(relation)
        held = f"SELECT t.* FROM {partial_before} t LEFT SEMI JOIN ({hit}) k ON {on}"
        # Only what still counts: taking back the whole history would double it in every epoch.
        parts.append(
            f"SELECT {columns(names)}, -{WEIGHT} AS {WEIGHT} "
            f"FROM ({consolidate(held, relation.partials)})"
        )
    if given.after is not None:
        again = f"SELECT t.* FROM ({given.after}) t LEFT SEMI JOIN ({hit}) k ON {on}"
        parts.append(_partials(relation, consolidate(again, relation.inputs)))
    return "\nUNION ALL\n".join(f"SELECT * FROM ({part})" for part in parts)


def _same_key(keys: tuple[str, ...]) -> str:
    if not keys:
        return "true"
    return " AND ".join(f"t.{quote(key)} <=> k.{quote(key)}" for key in keys)


def partial_columns(relation: Merged) -> tuple[str, ...]:
    """Columns of the trace of partial rows."""
    return (*relation.node.keys, *(each.name for each in relation.accumulators.all))


def merge_partials(relation: Merged, rows: str, *, positive: bool, units: bool = False) -> str:
    """Merge partial rows to one per group: what compaction stores and content reads."""
    keys = columns(relation.node.keys)
    live = rows if positive else consolidate(rows, relation.partials)
    weight = None if units else WEIGHT
    merged = ", ".join(
        f"{each.merged(each.name, weight)} AS {each.name}" for each in relation.accumulators.all
    )
    listed = f"{keys}, " if keys else ""
    group = f" GROUP BY {keys}" if keys else ""
    return f"SELECT {listed}{merged}, 1L AS {WEIGHT} FROM ({live}){group}"


def content(relation: Merged, partial: str, *, positive: bool, units: bool = False) -> str:
    """All groups with their results; a query without keys has one row even of nothing."""
    merged = merge_partials(relation, f"SELECT * FROM {partial}", positive=positive, units=units)
    where = f" WHERE {COUNT} > 0" if relation.node.keys else ""
    return f"SELECT {_results(relation, '')}, 1L AS {WEIGHT} FROM ({merged}){where}"


def _results(relation: Merged, prefix: str) -> str:
    """The output columns over accumulator columns, with the relation's types."""
    names = relation.shape.columns
    types = dict(zip(names, relation.shape.types, strict=True))
    spelled = {each.key: each.over(prefix) for each in relation.accumulators.spellings}
    items = [f"{spelled[key]} AS {key}" if key in spelled else key for key in relation.node.keys]
    items += [
        f"CAST({each.over(prefix)} AS {types[each.name]}) AS {each.name}"
        for each in relation.accumulators.finishes
    ]
    return ", ".join(items)


def finish(
    relation: Merged, partial_before: str | None, partial_delta: str, *, positive: bool, first: bool
) -> str:
    """Δ of the results: the old row of each touched group goes, the new one comes.

    One pass over the touched groups' partial rows gives both: each row counts `__wo` times in
    the old state and `__wn` times in the new one.
    """
    keys = relation.node.keys
    rows = _touched(relation, partial_before, partial_delta)
    if relation.accumulators.is_inexact:
        return _replaced(relation, rows, partial_delta, positive=positive)
    if not positive:
        each = same_rows(relation.partials)
        rows = (
            f"SELECT {each.listed}, SUM(__wo) AS __wo, SUM(__wn) AS __wn "
            f"FROM ({rows}) GROUP BY {each.by}"
        )
    both = ", ".join(
        f"{each.merged(each.name, weight)} AS {prefix}{each.name}"
        for each in relation.accumulators.all
        for prefix, weight in (("o", "__wo"), ("n", "__wn"))
    )
    listed = f"{columns(keys)}, " if keys else ""
    group = f" GROUP BY {columns(keys)}" if keys else ""
    merged = f"SELECT {listed}{both} FROM ({rows}){group}"
    old_there = f"o{COUNT} > 0" if keys else str(not first).lower()
    new_there = f"n{COUNT} > 0" if keys else "true"
    return _old_and_new(relation, merged, old_there, new_there)


def _replaced(relation: Merged, rows: str, delta: str, *, positive: bool) -> str:
    """Δ of the results: the *stored* rows of the touched groups go, the new ones come.

    A sum of doubles depends on the order of its terms, so the old row cannot be computed again:
    one that differs in its last digit would take nothing back.
    """
    names = relation.shape.columns
    keys = relation.node.keys
    stored = table(relation.shape.name, Version.BEFORE)
    old = f"SELECT {columns(names, 't.')}, -t.{WEIGHT} AS {WEIGHT} FROM {stored} t"
    if keys:
        old += (
            f" LEFT SEMI JOIN (SELECT DISTINCT {columns(keys)} FROM {delta}) k ON {_same_key(keys)}"
        )
    return consolidate(
        f"{_new_results(relation, rows, positive=positive)}\nUNION ALL\n{old}",
        relation.shape.row,
    )


def touched_results(
    relation: Merged, partial_before: str | None, partial_delta: str, *, positive: bool
) -> str:
    """The results of the touched groups after the epoch."""
    rows = _touched(relation, partial_before, partial_delta)
    return _new_results(relation, rows, positive=positive)


def _new_results(relation: Merged, rows: str, *, positive: bool) -> str:
    new = f"SELECT {columns(partial_columns(relation))}, __wn AS {WEIGHT} FROM ({rows})"
    merged = merge_partials(relation, new, positive=positive)
    there = f" WHERE {COUNT} > 0" if relation.node.keys else ""
    return f"SELECT {_results(relation, '')}, 1L AS {WEIGHT} FROM ({merged}){there}"


def _touched(relation: Merged, before: str | None, delta: str) -> str:
    names = partial_columns(relation)
    new = f"SELECT {columns(names)}, 0L AS __wo, {WEIGHT} AS __wn FROM {delta}"
    if before is None:
        return new
    old = f"SELECT {columns(names, 't.')}, t.{WEIGHT} AS __wo, t.{WEIGHT} AS __wn FROM {before} t"
    keys = relation.node.keys
    if keys:
        listed = columns(keys)
        old += f" LEFT SEMI JOIN (SELECT DISTINCT {listed} FROM {delta}) k ON {_same_key(keys)}"
    return f"{old}\nUNION ALL\n{new}"


def _old_and_new(relation: Merged, merged: str, old_there: str, new_there: str) -> str:
    finishes = relation.accumulators.finishes
    types = dict(zip(relation.shape.columns, relation.shape.types, strict=True))
    results = "".join(
        f", CAST({each.over(prefix)} AS {types[each.name]}) AS {prefix}{each.name}"
        for each in finishes
        for prefix in ("o", "n")
    )
    spellings = relation.accumulators.spellings
    results += "".join(
        f", {each.over(prefix)} AS {prefix}{each.key}"
        for each in spellings
        for prefix in ("o", "n")
    )
    listed = columns(relation.node.keys)
    keyed = f"{listed}, " if listed else ""
    finished = f"SELECT {keyed}{old_there} AS __old, {new_there} AS __new{results} FROM ({merged})"
    unchanged = " AND ".join(
        ["__old", "__new"]
        + [same(f"o{each.name}", f"n{each.name}", types[each.name]) for each in finishes]
        + [same(f"o{each.key}", f"n{each.key}", types[each.key]) for each in spellings]
    )
    picked = "".join(
        f"IF(__sign < 0, o{each.name}, n{each.name}) AS {each.name}, " for each in finishes
    )
    spelled = {
        each.key: f"IF(__sign < 0, o{each.key}, n{each.key}) AS {each.key}" for each in spellings
    }
    shown = "".join(f"{spelled.get(key, key)}, " for key in relation.node.keys)
    return (
        f"SELECT {shown}{picked}__sign AS {WEIGHT} FROM ({finished}) "
        f"LATERAL VIEW EXPLODE(ARRAY(-1L, 1L)) signs AS __sign "
        f"WHERE NOT ({unchanged}) AND IF(__sign < 0, __old, __new)"
    )
