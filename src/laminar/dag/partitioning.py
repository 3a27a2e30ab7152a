"""How the rows that cross an edge are spread over Spark's partitions."""

from __future__ import annotations

from dataclasses import dataclass

from laminar.errors.dag import InvalidSetting


@dataclass(frozen=True, slots=True)
class PartitioningStrategy:
    """Any of the ways below; an edge without one moves no rows."""


@dataclass(frozen=True, slots=True)
class Single(PartitioningStrategy):
    """All rows in one partition, for an operator that must see them together: `coalesce(1)`."""


@dataclass(frozen=True, slots=True)
class RoundRobin(PartitioningStrategy):
    """Rows dealt out evenly, whatever they hold: `repartition(n)`.

    Without a number Spark's own `spark.sql.shuffle.partitions` decides.
    """

    partitions: int | None = None

    def __post_init__(self) -> None:
        _check_partitions(self.partitions)


@dataclass(frozen=True, slots=True)
class HashBy(PartitioningStrategy):
    """Rows of equal key together, the key being a column or expression: `repartition(n, key)`."""

    key: str
    partitions: int | None = None

    def __post_init__(self) -> None:
        _check_name("partitioning key", self.key)
        _check_partitions(self.partitions)


@dataclass(frozen=True, slots=True)
class Custom(PartitioningStrategy):
    """Rows of equal partition number together, the number being computed into a column by the user.

    Spark has no public way to place a row by a function of its own, so the function becomes a
    column of the producer and the edge spreads by that column.
    """

    column: str
    partitions: int | None = None

    def __post_init__(self) -> None:
        _check_name("partition column", self.column)
        _check_partitions(self.partitions)


def _check_partitions(partitions: int | None) -> None:
    if partitions is not None and partitions < 1:
        raise InvalidSetting("number of partitions", partitions, "1 or more")


def _check_name(setting: str, name: str) -> None:
    if not name.strip():
        raise InvalidSetting(setting, name, "the name of a column or an expression")
