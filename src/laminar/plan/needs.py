"""What a plan wants of a relation that it reads: which columns, and which rows at most.

Both err on the side of more: a column is wanted if its name stands anywhere in the plan, and a row
unless a simple condition right above the scan says that it is not.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from laminar.model.row_test import Every, RowTest
from laminar.plan.nodes import (
    Aggregate,
    Close,
    Constant,
    Filter,
    Generate,
    Join,
    Node,
    Project,
    Reweigh,
    Scan,
    Timely,
    children,
)
from laminar.plan.row_tests import conjuncts, row_test

_BY_NAME = (Scan, Constant, Filter, Project, Generate, Reweigh, Join, Aggregate, Timely, Close)
"""Nodes that use a column only where they name it; all others may use each they are given."""

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Need:
    """What one scan wants of its relation."""

    columns: frozenset[str]
    test: RowTest | None
    """None if it wants every row."""


def needs_of(plan: Node, relation: str, types: Mapping[str, str]) -> list[Need]:
    """Return what each scan of a relation in a plan wants.

    Args:
        plan: whose output columns are all wanted.
        relation: that is scanned.
        types: column -> type of the relation.
    """
    named = {*plan.columns}
    for node in _nodes(plan):
        if not isinstance(node, Scan):
            for text in _texts(node):
                named.update(_WORD.findall(text))
        if not isinstance(node, _BY_NAME):
            named.update(name for each in children(node) for name in each.columns)
    return [
        Need(frozenset(column for column, name in scan.items if name in named), test)
        for scan, test in _tested(plan, (), types)
        if scan.relation == relation
    ]


def _tested(
    node: Node, conditions: tuple[str, ...], types: Mapping[str, str]
) -> Iterator[tuple[Scan, RowTest | None]]:
    """Yield each scan with the part of the conditions right above it that is simple."""
    match node:
        case Scan():
            columns = {name: column for column, name in node.items}
            parts = [part for text in conditions for part in conjuncts(text)]
            found = [row_test(part, columns, types) for part in parts]
            simple = tuple(each for each in found if each is not None)
            yield node, None if not simple else simple[0] if len(simple) == 1 else Every(simple)
        case Filter():
            yield from _tested(node.input, (*conditions, node.predicate), types)
        case Join():
            for each in node.inputs:
                own = [p.sql for p in node.predicates if p.reads and p.reads <= {*each.columns}]
                yield from _tested(each, tuple(own), types)
        case _:
            for each in children(node):
                yield from _tested(each, (), types)


def _nodes(plan: Node) -> Iterator[Node]:
    yield plan
    for each in children(plan):
        yield from _nodes(each)


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in a node, its inputs left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple | list | frozenset):
        for each in value:
            yield from _texts(each)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if field.name not in ("input", "inputs", "left", "right", "base", "step"):
                yield from _texts(getattr(value, field.name))
