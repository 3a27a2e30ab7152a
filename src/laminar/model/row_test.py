"""Simple conditions on one row, as values: decided without Spark, and exactly as it does."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TypeAlias

from laminar.model.quoting import string_literal

Value: TypeAlias = bool | int | float | str | date | Decimal


@dataclass(frozen=True, slots=True)
class Compare:
    """A column compared with a constant: `=`, `<>`, `<`, `<=`, `>`, `>=`."""

    column: str
    operator: str
    value: Value

    def __str__(self) -> str:
        return f"{self.column} {self.operator} {_literal(self.value)}"


@dataclass(frozen=True, slots=True)
class Among:
    """A column that equals one of some constants."""

    column: str
    values: tuple[Value, ...]

    def __str__(self) -> str:
        return f"{self.column} IN ({', '.join(map(_literal, self.values))})"


@dataclass(frozen=True, slots=True)
class IsNull:
    """A column without a value."""

    column: str

    def __str__(self) -> str:
        return f"{self.column} IS NULL"


@dataclass(frozen=True, slots=True)
class Flag:
    """A column that is true or false itself."""

    column: str

    def __str__(self) -> str:
        return self.column


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; of NULL it is NULL."""

    test: RowTest

    def __str__(self) -> str:
        return f"NOT ({self.test})"


@dataclass(frozen=True, slots=True)
class Every:
    """All of them."""

    tests: tuple[RowTest, ...]

    def __str__(self) -> str:
        return " AND ".join(f"({each})" for each in self.tests)


@dataclass(frozen=True, slots=True)
class Some:
    """At least one of them."""

    tests: tuple[RowTest, ...]

    def __str__(self) -> str:
        return " OR ".join(f"({each})" for each in self.tests)


RowTest: TypeAlias = Compare | Among | IsNull | Flag | Not | Every | Some


def columns_of(test: RowTest) -> frozenset[str]:
    """Return the columns that a test looks at."""
    match test:
        case Not(inner):
            return columns_of(inner)
        case Every(tests) | Some(tests):
            return frozenset().union(*map(columns_of, tests))
        case _:
            return frozenset({test.column})


def _literal(value: Value) -> str:
    if isinstance(value, str):
        return string_literal(value)
    return f"DATE '{value}'" if isinstance(value, date) else str(value).lower()
