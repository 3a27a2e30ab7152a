"""Random queries over columns of any type; Spark says which make sense."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import TypeVar

from .kinds import ALL_KINDS

T = TypeVar("T")


Columns = dict[str, str]
"""Column -> name of its kind."""

_CALLS = (
    "COUNT(*)", "COUNT({0})", "MIN({0})", "MAX({0})", "SUM({0})", "AVG({0})", "COUNT(DISTINCT {0})",
    "BOOL_OR({0} = {1})", "COUNT_IF({0} <=> {1})", "MAX(COALESCE({0}, {1}))",
)  # fmt: skip
_VALUES = (
    "{0}", "{0}", "{0}", "COALESCE({0}, {1})", "CASE WHEN {0} = {1} THEN {0} ELSE {1} END",
    "NULLIF({0}, {1})", "{0} = {1}", "{0} IN ({1}, {0})", "{0} <=> {1}", "GREATEST({0}, {1})",
    "HASH({0})", "STRUCT({0} AS p, {1} AS q)", "-{0}", "CAST({0} AS STRING)",
    "{0} = {plain}", "{0} IN ({plain}, {1})", "{0} || ''", "EXTRACT(YEAR FROM {0})",
    "DATE_TRUNC('DAY', {0})", "{0} + INTERVAL '1' DAY", "CAST({0} AS DATE)",
)  # fmt: skip
_TESTS = (
    "{0} = {1}", "{0} <=> {1}", "{0} < {1}", "{0} < {plain}", "{0} IN ({plain}, {plain})",
    "{0} IS NOT NULL", "NOT ({0} = {1})",
    "{0} IN (SELECT {2} FROM {table})",
    "{0} NOT IN (SELECT {2} FROM {table} WHERE {2} IS NOT NULL)",
    "EXISTS (SELECT 1 FROM {table} WHERE {2} = {0})",
    "NOT EXISTS (SELECT 1 FROM {table} WHERE {2} = {0} AND {3} = {1})",
    "{0} = (SELECT MAX({2}) FROM {table})",
    "(SELECT COUNT(*) FROM {table} WHERE {2} = {0}) > 0",
)  # fmt: skip
_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
_SETS = ("UNION ALL", "UNION", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL")
_WINDOWS = (
    "COUNT(*) OVER (PARTITION BY {0})", "RANK() OVER (PARTITION BY {0} ORDER BY {1})",
    "MAX({0}) OVER (PARTITION BY {1})", "SUM({0}) OVER (PARTITION BY {1})",
    "DENSE_RANK() OVER (ORDER BY {0})",
)  # fmt: skip


class WildWriter:
    """Writes one query over some relations."""

    def __init__(self, chance: random.Random, tables: dict[str, Columns]) -> None:
        self._chance = chance
        self._tables = tables

    def shaped(self) -> tuple[str, str]:
        """Return the name of a shape, and a query of it; Spark may refuse it."""
        shape = self._chance.choice(
            (self._select, self._select, self._grouped, self._grouped, self._join, self._join,
             self._join, self._set, self._window, self._top, self._distinct, self._nested)
        )  # fmt: skip
        return shape.__name__.strip("_"), shape()

    def items(self) -> str:
        """Return what to select, from the one table there is."""
        return self._items(self._table()[1])

    def _items(self, columns: Columns) -> str:
        return _named([self._fill(self._pick(_VALUES), columns) for _ in range(self._number(1, 3))])

    def _select(self) -> str:
        table, columns = self._table()
        return f"SELECT {self._items(columns)} FROM {table}{self._where(columns)}"

    def _distinct(self) -> str:
        return self._select().replace("SELECT", "SELECT DISTINCT", 1)

    def _grouped(self) -> str:
        table, columns = self._table()
        keys = [self._fill(self._pick(_VALUES), columns) for _ in range(self._number(0, 2))]
        keys = list(dict.fromkeys(keys))
        calls = [self._fill(self._pick(_CALLS), columns) for _ in range(self._number(1, 3))]
        tail = f" GROUP BY {', '.join(keys)}" if keys else ""
        if keys and self._chance.random() < 0.3:
            tail += " HAVING COUNT(*) > 1"
        return f"SELECT {_named([*keys, *calls])} FROM {table}{self._where(columns)}{tail}"

    def _join(self) -> str:
        (left, ours), (right, theirs) = self._table(), self._table()
        mine, other = [f"l.{name}" for name in ours], [f"r.{name}" for name in theirs]
        on = f"{self._pick(mine)} {self._pick(('=', '=', '=', '<=>', '<'))} {self._pick(other)}"
        if self._chance.random() < 0.4:
            on += f" AND {self._pick(mine)} {self._pick(('=', '<=>', '<>'))} {self._pick(other)}"
        kind = self._pick(_JOINS)
        shown = mine if "SEMI" in kind or "ANTI" in kind else mine + other
        picked = [self._pick(shown) for _ in range(self._number(1, 4))]
        return f"SELECT {_named(picked)} FROM {left} l {kind} {right} r ON {on}"

    def _nested(self) -> str:
        """Return a query over another one, as a table or as a WITH item that is read twice."""
        inner = self._pick((self._select, self._grouped, self._join, self._set, self._distinct))()
        name = "q"
        outer = WildWriter(self._chance, {name: {"c0": ""}})
        query = self._pick((outer._select, outer._grouped, outer._join, outer._window))()
        return f"WITH {name} AS ({inner}) {query}"

    def _set(self) -> str:
        parts = []
        width = self._number(1, 2)
        for _ in range(2):
            table, columns = self._table()
            parts.append(
                f"SELECT {_named([self._pick(columns) for _ in range(width)])} FROM {table}"
            )
        return f" {self._pick(_SETS)} ".join(parts)

    def _window(self) -> str:
        table, columns = self._table()
        items = [*columns, self._fill(self._pick(_WINDOWS), columns)]
        return f"SELECT {_named(items)} FROM {table}"

    def _top(self) -> str:
        down = self._pick(("", " DESC", " NULLS LAST"))
        table, columns = self._table()
        items = self._chance.sample(sorted(columns), self._number(1, len(columns)))
        order = ", ".join(f"{place + 1}{down}" for place in range(len(items)))
        return f"SELECT {_named(items)} FROM {table} ORDER BY {order} LIMIT {self._pick((1, 3))}"

    def _where(self, columns: Columns) -> str:
        if self._chance.random() < 0.5:
            return ""
        return f" WHERE {self._fill(self._pick(_TESTS), columns)}"

    def _number(self, least: int, most: int) -> int:
        return self._chance.randint(least, most)

    def _fill(self, template: str, columns: Columns) -> str:
        table, theirs = self._table()
        inner = [f"{table}.{name}" for name in theirs]
        first = self._pick(columns)
        kind = ALL_KINDS.get(columns[first])
        return template.format(
            first, self._pick(columns), self._pick(inner), self._pick(inner),
            table=table, plain=self._pick(kind.plain or kind.literals) if kind else "NULL",
        )  # fmt: skip

    def _table(self) -> tuple[str, Columns]:
        name = self._pick(self._tables)
        return name, self._tables[name]

    def _pick(self, among: Iterable[T]) -> T:
        return self._chance.choice(list(among))


def _named(items: Sequence[str]) -> str:
    return ", ".join(f"{item} AS c{place}" for place, item in enumerate(items))
