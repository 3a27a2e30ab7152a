"""What the compiler hands to the runtime: relations, and how each is kept up to date."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from laminar.dag import PartitioningStrategy
from laminar.delta.accumulators import Accumulators
from laminar.model.trace import WEIGHT
from laminar.plan.nodes import Aggregate, KeyedJoin, Node, TopK, Window
from laminar.plan.reasons import Reason


class Strategy(StrEnum):
    """How a relation follows its inputs; always shown, never chosen behind the user's back."""

    INCREMENTAL = "incremental"
    AFFECTED_GROUPS = "affected groups"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Shape:
    """Name and columns of a relation."""

    name: str
    columns: tuple[str, ...]
    types: tuple[str, ...]

    @property
    def ddl(self) -> str:
        """The columns as Spark DDL, without the weight."""
        pairs = zip(self.columns, self.types, strict=True)
        escaped = ((name.replace("`", "``"), kind) for name, kind in pairs)
        return ", ".join(f"`{name}` {kind}" for name, kind in escaped)

    @property
    def stored(self) -> str:
        """The columns as Spark DDL, with the weight, as segments have them."""
        return f"{self.ddl}, {WEIGHT} BIGINT"


@dataclass(frozen=True, slots=True)
class Mapped:
    """A stateless query: linear operators and joins over other relations.

    One that is `fusible` (no join) need not be stored while others read it: they take its
    definition into their own statements.
    """

    shape: Shape
    node: Node
    reads: tuple[str, ...]
    fusible: bool
    guard: Guard | None = None
    """What may fail in it although nothing stores its rows: tried in every epoch."""
    strategy = Strategy.INCREMENTAL


@dataclass(frozen=True, slots=True)
class Guard:
    """Expressions that may fail; they do not if none of the `divisors` is zero."""

    divisors: frozenset[str]
    provable: bool = True


@dataclass(frozen=True, slots=True)
class Merged:
    """Groups kept as partial accumulators."""

    shape: Shape
    node: Aggregate
    reads: tuple[str, ...]
    accumulators: Accumulators
    partial_ddl: str
    strategy = Strategy.INCREMENTAL


@dataclass(frozen=True, slots=True)
class Regrouped:
    """Groups that are computed anew when a change touches them."""

    shape: Shape
    node: Aggregate | Window | KeyedJoin
    reads: tuple[str, ...]
    strategy = Strategy.AFFECTED_GROUPS


@dataclass(frozen=True, slots=True)
class Limited:
    """The first k rows of an order."""

    shape: Shape
    node: TopK
    reads: tuple[str, ...]
    tie_breakers: tuple[str, ...]
    strategy = Strategy.INCREMENTAL


@dataclass(frozen=True, slots=True)
class Recomputed:
    """A query without a rule: run in full, then compared with what is stored."""

    shape: Shape
    sql: str
    reads: tuple[str, ...]
    reason: Reason
    detail: str
    strategy = Strategy.FULL


@dataclass(frozen=True, slots=True)
class Applied:
    """A Python operator of the user's: it is given deltas and returns one."""

    shape: Shape
    operator: Any
    reads: tuple[str, ...]
    spread: tuple[tuple[str, PartitioningStrategy], ...] = ()
    """Inputs whose rows the operator wants placed, and how."""
    strategy = Strategy.INCREMENTAL


Maintained: TypeAlias = Mapped | Merged | Regrouped | Limited | Recomputed | Applied


@dataclass(frozen=True, slots=True)
class Program:
    """The relations of one view in dependency order; the last one is the view."""

    view: str
    relations: tuple[Maintained, ...]

    @property
    def output(self) -> Maintained:
        """The relation that is the view itself."""
        return self.relations[-1]

    @property
    def strategy(self) -> Strategy:
        """The most costly strategy of any part."""
        found = {each.strategy for each in self.relations}
        order = (Strategy.FULL, Strategy.AFFECTED_GROUPS, Strategy.INCREMENTAL)
        return next(each for each in order if each in found)

    def sources(self) -> tuple[str, ...]:
        """Relations outside this program that it reads."""
        own = {each.shape.name for each in self.relations}
        names = (name for each in self.relations for name in each.reads if name not in own)
        return tuple(dict.fromkeys(names))
