"""Columns that tell the rows of a relation apart, where that is known from its definition."""

from __future__ import annotations

from collections.abc import Mapping

from laminar.delta.program import Emitted, Mapped, Merged, Periodic, Regrouped, Sessioned
from laminar.plan.nodes import Aggregate, Filter, Node, Project, Scan
from laminar.runtime.catalog.storage_plan import Relation

Keys = Mapping[str, tuple[str, ...]]
"""Table -> its primary key."""


def row_key(name: str, relations: Mapping[str, Relation], tables: Keys) -> tuple[str, ...] | None:
    """Return columns of which no two rows share the values; () if there is at most one row.

    None if nothing is known.
    """
    if name in tables:
        return tables[name] or None
    relation = relations[name]
    columns = relation.shape.columns
    match relation:
        case Merged() | Regrouped(node=Aggregate()):
            assert isinstance(relation.node, Aggregate)
            return None if relation.node.covers_domain else columns[: len(relation.node.keys)]
        case Sessioned():
            return columns[: len(relation.node.keys) + 1]
        case Emitted() | Periodic() | Mapped():
            found = _of_plan(relation.node, relations, tables)
            names = dict(zip(relation.node.columns, columns, strict=True))
            return None if found is None else tuple(names[each] for each in found)
    return None


def _of_plan(node: Node, relations: Mapping[str, Relation], tables: Keys) -> tuple[str, ...] | None:
    """Return the columns of a plan that tell its rows apart."""
    match node:
        case Scan():
            below = row_key(node.relation, relations, tables)
            items = dict(node.items)
        case Filter():
            return _of_plan(node.input, relations, tables)
        case Project():
            below = _of_plan(node.input, relations, tables)
            items = dict(node.items)
        case _:
            return None
    if below is None or any(column not in items for column in below):
        return None
    return tuple(items[column] for column in below)
