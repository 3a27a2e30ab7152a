"""MERGE as one statement: target and source are joined once, and every row pair becomes a delta.

With a target row of weight w: an update is -w of the old and +w of the new row, a deletion -w, an
insertion +1. The first clause whose condition holds decides. A target row that several source rows
match would depend on their order, so it is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from laminar.delta.change import columns, quote
from laminar.errors import MergeConflict, UnknownColumn
from laminar.model.trace import ARRIVAL, WEIGHT
from laminar.runtime.catalog.column_rules import default_of, instead, refuse_generated
from laminar.sql.statements import Merge, MergeAction, MergeClause, MergeKind

if TYPE_CHECKING:
    import pyarrow as pa

    from laminar.runtime.catalog.definitions import TableDefinition

TARGET = "__target_rows"
"""The name under which the target's distinct rows are bound, with their weights."""

COUNTED = "__counted"
"""How many rows of the table a row of the delta stands for, when they are counted for the user."""


def merge_query(merge: Merge, definition: TableDefinition, source_columns: tuple[str, ...]) -> str:
    """Return a query whose rows are arrays of weighted rows."""
    target, source = quote(merge.alias or definition.name), quote(merge.source_alias)
    both = f"{target}.__id IS NOT NULL AND {source}.__source"
    once = _needs_one_match(merge)
    arms = [
        f"WHEN {_is(clause, target, source)} THEN "
        f"ARRAY({', '.join(_rows(clause, definition, target, source, source_columns))})"
        for clause in merge.clauses
    ]
    if once:
        many = f"COUNT(IF({both}, 1, NULL)) OVER (PARTITION BY {target}.__id) > 1"
        old = _old(definition, target)
        marked = _struct(definition, old, "CAST(NULL AS BIGINT)", "0L", f"{target}.{ARRIVAL}")
        arms.insert(0, f"WHEN {both} AND {many} THEN ARRAY({marked})")
    elif any(clause.kind is MergeKind.MATCHED for clause in merge.clauses):
        # All that match are deleted: once each, however often they match.
        number = f"ROW_NUMBER() OVER (PARTITION BY {target}.__id ORDER BY {target}.__id)"
        arms.insert(0, f"WHEN {both} AND {number} > 1 THEN NULL")
    listed = columns(definition.shape.columns)
    rows = (
        f"SELECT {listed}, {ARRIVAL}, {WEIGHT} AS __w, MONOTONICALLY_INCREASING_ID() AS __id"
        f" FROM {TARGET}"
    )
    return (
        f"SELECT CASE {' '.join(arms)} END AS __pair"
        f" FROM ({rows}) AS {target} {_join(merge)} JOIN"
        f" (SELECT *, true AS __source FROM {merge.source}) AS {source} ON (\n{merge.on}\n)"
    )


def refuse_conflict(definition: TableDefinition, found: pa.Table) -> None:
    """Raise if a row of the target was matched more than once."""
    marked = found.filter(pc.is_null(found.column(WEIGHT)))
    if marked.num_rows:
        raise MergeConflict(
            definition.name,
            marked.select(list(definition.shape.columns)).slice(0, 1).to_pylist()[0],
        )


def _needs_one_match(merge: Merge) -> bool:
    """A single deletion of all that match is the same however often a row matches."""
    matched = [clause for clause in merge.clauses if clause.kind is MergeKind.MATCHED]
    if len(matched) == 1 and matched[0].condition is None:
        return matched[0].action is not MergeAction.DELETE
    return bool(matched)


def _join(merge: Merge) -> str:
    kinds = {clause.kind for clause in merge.clauses}
    new, left = MergeKind.NOT_MATCHED in kinds, MergeKind.NOT_MATCHED_BY_SOURCE in kinds
    return {(False, False): "INNER", (True, False): "RIGHT", (False, True): "LEFT"}.get(
        (new, left), "FULL"
    )


def _is(clause: MergeClause, target: str, source: str) -> str:
    has = {
        MergeKind.MATCHED: f"{target}.__id IS NOT NULL AND {source}.__source",
        MergeKind.NOT_MATCHED: f"{target}.__id IS NULL",
        MergeKind.NOT_MATCHED_BY_SOURCE: f"{source}.__source IS NULL",
    }[clause.kind]
    return f"{has} AND (\n{clause.condition}\n)" if clause.condition else has


def _rows(
    clause: MergeClause,
    definition: TableDefinition,
    target: str,
    source: str,
    source_columns: tuple[str, ...],
) -> list[str]:
    old, weight = _old(definition, target), f"{target}.__w"
    gone = _struct(definition, old, f"-{weight}", weight, f"{target}.{ARRIVAL}")
    if clause.action is MergeAction.DELETE:
        return [gone]
    given = _given(clause, definition, source, source_columns)
    if clause.action is MergeAction.INSERT:
        new = {name: given.get(name, default_of(definition, name)) for name in old}
        return [_struct(definition, new, "1L", "1L")]
    return [gone, _struct(definition, {**old, **given}, weight, "0L")]


def _old(definition: TableDefinition, target: str) -> dict[str, str]:
    return {name: f"{target}.{quote(name)}" for name in definition.shape.columns}


def _given(
    clause: MergeClause, definition: TableDefinition, source: str, source_columns: tuple[str, ...]
) -> dict[str, str]:
    """Return column of the target -> its new value."""
    known = {name.casefold(): name for name in definition.shape.columns}
    if clause.is_star:
        there = {name.casefold(): name for name in source_columns}
        made = dict(definition.generated)
        wanted = {key: name for key, name in known.items() if name not in made}
        missing = [name for key, name in wanted.items() if key not in there]
        if missing:
            raise UnknownColumn(missing[0], source_columns)
        return {name: f"{source}.{quote(there[key])}" for key, name in wanted.items()}
    given = {}
    for name, value in clause.values:
        if name.casefold() not in known:
            raise UnknownColumn(name, definition.shape.columns)
        column = known[name.casefold()]
        refuse_generated(definition, column)
        given[column] = instead(definition, column, value)
    return given


def _struct(
    definition: TableDefinition,
    values: dict[str, str],
    weight: str,
    counted: str,
    arrival: str = "CAST(NULL AS BIGINT)",
) -> str:
    items = [
        f"CAST((\n{values[name]}\n) AS {kind}) AS {quote(name)}"
        for name, kind, _ in definition.columns
    ]
    hidden = f"{arrival} AS {ARRIVAL}, {weight} AS {WEIGHT}, {counted} AS {COUNTED}"
    return f"STRUCT({', '.join(items)}, {hidden})"
