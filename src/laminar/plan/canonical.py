"""When two plans are the same: equal but for the names of their columns.

Columns get fresh names wherever a query is planned, so a WITH item that is used twice becomes two
plans that differ in nothing else. The canonical form numbers columns in the order they are met.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable
from dataclasses import fields

from laminar.plan.nodes import (
    Aggregate,
    Anti,
    Join,
    KeyedJoin,
    Node,
    Recursion,
    Scan,
    TopK,
    Window,
    children,
)
from laminar.sql.tokens import Kind, tokenize

_COLUMN = re.compile(r"c\d+")
_AS_THEY_ARE = frozenset(("types", "function", "kind", "relation"))


class _Numbers(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return self.setdefault(name, f"n{len(self)}")


def rename_columns(sql: str, names: dict[str, str]) -> str:
    """Rename the plan's columns in an expression; strings, fields and quoted names stay."""
    parts: list[str] = []
    done = 0
    after_dot = False
    for token in tokenize(sql):
        if token.kind is Kind.WORD and not after_dot and _COLUMN.fullmatch(token.text):
            parts += [sql[done : token.start], names[token.text]]
            done = token.end
        after_dot = token.is_symbol(".")
    return "".join([*parts, sql[done:]])


def canonical(node: Node) -> Hashable:
    """Return a value that is equal for plans that yield the same rows by the same steps."""
    return _form(node, _Numbers())


def _form(value: object, names: _Numbers) -> Hashable:
    match value:
        case Scan():
            columns = tuple((column, names[name]) for column, name in value.items)
            return ("Scan", value.relation, columns)
        case str():
            return rename_columns(value, names)
        case tuple():
            return tuple(_form(each, names) for each in value)
        case frozenset():
            return None  # what a predicate reads follows from its text
        case None | bool() | int():
            return value
    found: list[Hashable] = [type(value).__name__]
    for field in fields(value):  # type: ignore[arg-type]
        part = getattr(value, field.name)
        found.append(part if field.name in _AS_THEY_ARE else _form(part, names))
    return tuple(found)


def repeated(node: Node) -> frozenset[Hashable]:
    """Return the canonical forms of joins that a plan would compute more than once."""
    counts: Counter[Hashable] = Counter()
    joins: set[Hashable] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, Join | Anti | Aggregate | KeyedJoin | Window | TopK | Recursion):
            form = canonical(current)
            counts[form] += 1
            if isinstance(current, Join | Anti):
                joins.add(form)
            if counts[form] > 1:
                continue  # what is below is shared with it
        stack.extend(children(current))
    return frozenset(form for form in joins if counts[form] > 1)
