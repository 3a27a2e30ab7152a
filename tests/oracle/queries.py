"""Random queries: joins of queries of joins, with nested queries wherever one may stand.

All columns are whole numbers, so any of them can be compared with any other. What Spark leaves open
(ties in a LIMIT, FIRST, LAG) is left out, for then there is no one truth.
"""

from __future__ import annotations

import random
from typing import TypeVar

T = TypeVar("T")

TABLES = {
    "t": ("id", "k", "g", "x"),
    "u": ("k", "w"),
    "s": ("k", "tag"),
    "odd": ("a", "b", "c1", "c2"),
}

Columns = list[str]  # with the alias of what they belong to

_CALLS = (
    "COUNT(*)",
    "COUNT({0})",
    "SUM({0})",
    "AVG({0})",
    "MIN({0})",
    "MAX({0})",
    "BOOL_OR({0} > 1)",
    "SUM({0}) FILTER (WHERE {1} > 1)",
    "COUNT(DISTINCT {0})",
    "ROUND(STDDEV({0}), 6)",
)
_WINDOWS = (
    "RANK() OVER (PARTITION BY {0} ORDER BY {1})",
    "SUM({0}) OVER (PARTITION BY {1})",
    "COUNT(*) OVER ()",
    "MAX({0}) OVER (PARTITION BY {1} ORDER BY {0})",
)
_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
_SETS = ("UNION ALL", "UNION", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL")


class Writer:
    """Writes queries; every alias is used once."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._aliases = 0

    def query(self, depth: int) -> tuple[str, list[str]]:
        """Return a query and the names of its columns."""
        if depth and self._once_in(7):
            return self._set_operation(depth)
        source, columns = self._from(depth)
        where = f" WHERE {self._condition(columns, 1)}" if self._once_in(2) else ""
        kind = self._chance.random()
        if kind < 0.3:
            items, tail = self._grouped(columns)
        else:
            items, tail = [self._value(columns, 1) for _ in range(self._number(1, 4))], ""
            if kind < 0.42:
                items.append(self._filled(_WINDOWS, columns))
            elif self._once_in(8):
                items[0] = f"DISTINCT {items[0]}"
        names = self._names(len(items))
        if self._once_in(7):
            places = ", ".join(str(place + 1) for place in range(len(items)))
            down = self._pick("", " DESC")
            tail += (
                f" ORDER BY {places}{down} LIMIT {self._number(1, 4)}{self._pick('', ' OFFSET 1')}"
            )
        listed = ", ".join(f"{item} AS {name}" for item, name in zip(items, names, strict=True))
        return f"SELECT {listed} FROM {source}{where}{tail}", names

    def _set_operation(self, depth: int) -> tuple[str, list[str]]:
        (one, ours), (other, theirs) = self.query(depth - 1), self.query(depth - 1)
        width = min(len(ours), len(theirs))
        parts = [
            f"SELECT {', '.join(f'CAST({name} AS BIGINT) AS {name}' for name in names[:width])}"
            f" FROM ({query}) AS {self._alias()}"
            for query, names in ((one, ours), (other, theirs))
        ]
        return f" {self._pick(*_SETS)} ".join(parts), ours[:width]

    def _from(self, depth: int) -> tuple[str, Columns]:
        source, columns = self._relation(depth)
        for _ in range(self._pick(0, 0, 1, 1, 2)):
            kind = self._pick(*_JOINS)
            right, theirs = self._relation(depth - 1)
            compare = self._pick("=", "=", "=", "<=>", "<")
            tests = [f"{self._typed(*columns)} {compare} {self._typed(*theirs)}"]
            if self._once_in(3):
                tests.append(f"{self._pick(*columns)} + 1 = {self._pick(*theirs)} - 1")
            for side in (columns, theirs):
                if self._once_in(5):
                    tests.append(f"{self._pick(*side)} > 1")
            if self._once_in(8):
                source = f"({source})"
            source += f" {kind} {right} ON {' AND '.join(tests)}"
            if "SEMI" not in kind and "ANTI" not in kind:
                columns = [*columns, *theirs]
        return source, columns

    def _relation(self, depth: int) -> tuple[str, Columns]:
        alias = self._alias()
        if depth <= 0 or self._once_in(2):
            name = self._pick(*TABLES)
            return f"{name} AS {alias}", [f"{alias}.{column}" for column in TABLES[name]]
        if self._once_in(7):
            rows = self._pick("VALUES (1, 2), (3, NULL)", "SELECT 1, 2")
            return f"({rows}) AS {alias}(m, n)", [f"{alias}.m", f"{alias}.n"]
        query, names = self.query(depth - 1)
        return f"({query}) AS {alias}", [f"{alias}.{name}" for name in names]

    def _grouped(self, columns: Columns) -> tuple[list[str], str]:
        keys = list(dict.fromkeys(self._value(columns, 0) for _ in range(self._number(0, 2))))
        calls = [self._filled(_CALLS, columns) for _ in range(self._number(1, 2))]
        tail = ""
        if keys:
            listed = ", ".join(keys)
            tail = (
                f" GROUP BY {self._pick(listed, listed, f'ROLLUP ({listed})', f'CUBE ({listed})')}"
            )
        if self._once_in(4):
            tail += f" HAVING {self._pick('COUNT(*) > 1', 'COUNT(*) > (SELECT COUNT(*) FROM u)')}"
        return [*keys, *calls], tail

    def _value(self, columns: Columns, depth: int) -> str:
        one, other = self._pick(*columns), self._pick(*columns)
        plain = (one, one, f"{one} + 2", f"COALESCE({one}, {other})", f"{one} - {other}")
        if not depth or not self._once_in(4):
            return self._pick(*plain)
        if self._once_in(2):
            return f"CASE WHEN {self._condition(columns, 1)} THEN {one} ELSE {other} END"
        relation, theirs = self._relation(0)
        call = self._pick("MAX({0})", "COUNT(*)", "SUM({0})").format(self._pick(*theirs))
        compare = self._pick("=", "<", "<=>")
        test = f" WHERE {self._pick(*theirs)} {compare} {one}" if self._once_in(2) else ""
        return f"(SELECT {call} FROM {relation}{test})"

    def _condition(self, columns: Columns, depth: int) -> str:
        one, other = self._pick(*columns), self._pick(*columns)
        plain = (f"{one} > 1", f"{one} IS NULL", f"{one} <> {other}", f"{one} IN (1, 2)")
        if not depth or self._once_in(3):
            return self._pick(*plain)
        if self._once_in(3):
            parts = (self._condition(columns, depth - 1), self._condition(columns, depth))
            return self._pick("({} OR {})", "NOT ({} AND {})").format(*parts)
        relation, theirs = self._relation(1)
        mine, found = self._pick(*theirs), self._value(theirs, 0)
        compare = self._pick("=", "=", "<", "<=>", "<>")
        test = f" WHERE {mine} {compare} {one}" if self._once_in(2) else ""
        word = self._pick("", "NOT ")
        return self._pick(
            f"{word}EXISTS (SELECT 1 FROM {relation}{test})",
            f"{other} {word}IN (SELECT {self._typed(found)} FROM {relation}{test})",
            f"({one}, {other}) {word}IN (SELECT {mine}, {found} FROM {relation}{test})",
        )

    def _typed(self, *among: str) -> str:
        """Return one of several whole numbers, now and then in another type."""
        one = self._pick(*among)
        kind = self._pick(*[""] * 6, "DOUBLE", "DECIMAL(20, 2)")
        return f"CAST({one} AS {kind})" if kind else one

    def _filled(self, templates: tuple[str, ...], columns: Columns) -> str:
        return self._pick(*templates).format(self._value(columns, 0), self._pick(*columns))

    def _names(self, count: int) -> list[str]:
        # A plan calls its own columns c1, c2, ...
        return [f"{self._pick('o', 'c')}{place + 1}" for place in range(count)]

    def _alias(self) -> str:
        self._aliases += 1
        return f"q{self._aliases}"

    def _pick(self, *among: T) -> T:
        return self._chance.choice(among)

    def _number(self, least: int, most: int) -> int:
        return self._chance.randint(least, most)

    def _once_in(self, times: int) -> bool:
        return self._chance.random() < 1 / times
