"""What the compiler hands to the runtime: relations, and how each is kept up to date."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeAlias

from laminar.dag import PartitioningStrategy
from laminar.delta.accumulators import Accumulators
from laminar.model.char_columns import Chars
from laminar.model.event_time import Timing
from laminar.model.quoting import backquoted
from laminar.model.same_row import RowType
from laminar.model.trace import ARRIVAL, WEIGHT
from laminar.plan.nodes import (
    Aggregate,
    Aging,
    Horizon,
    KeyedJoin,
    Node,
    Recursion,
    Scan,
    Sessions,
    TopK,
    Window,
)
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
    chars: Chars = ()
    """Those of its columns that Spark compares as CHAR(n), as they were declared."""

    @property
    def ddl(self) -> str:
        """The columns as Spark DDL, without the weight."""
        pairs = zip(self.columns, self.types, strict=True)
        return ", ".join(f"{backquoted(name)} {kind}" for name, kind in pairs)

    @property
    def row(self) -> RowType:
        """The columns with their types."""
        return RowType(self.columns, self.types)

    @property
    def stored(self) -> str:
        """The columns as Spark DDL, with the weight, as segments have them."""
        return f"{self.ddl}, {WEIGHT} BIGINT"

    @property
    def numbered(self) -> str:
        """The same, with the hidden number of arrival that rows of tables have."""
        return f"{self.ddl}, {ARRIVAL} BIGINT, {WEIGHT} BIGINT"


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
    inputs: RowType = field(default_factory=RowType)
    """The columns of its input."""
    partials: RowType = field(default_factory=RowType)
    """The columns of its partial rows."""
    strategy = Strategy.INCREMENTAL


@dataclass(frozen=True, slots=True)
class Regrouped:
    """Groups that are computed anew when a change touches them."""

    shape: Shape
    node: Aggregate | Window | KeyedJoin
    reads: tuple[str, ...]
    inputs: RowType = field(default_factory=RowType)
    """The columns of all its inputs."""
    strategy = Strategy.AFFECTED_GROUPS


@dataclass(frozen=True, slots=True)
class Limited:
    """The first k rows of an order."""

    shape: Shape
    node: TopK
    reads: tuple[str, ...]
    tie_breakers: tuple[str, ...]  # what follows the order, so that the answer is one
    strategy = Strategy.INCREMENTAL


@dataclass(frozen=True, slots=True)
class Recursed:
    """The rows of a WITH item that reads itself, with their levels."""

    shape: Shape
    node: Recursion
    reads: tuple[str, ...]
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


@dataclass(frozen=True, slots=True)
class Sessioned:
    """Sessions: those that a change touches are computed anew from their rows."""

    shape: Shape
    node: Sessions
    reads: tuple[str, ...]
    accumulators: Accumulators | None
    inputs: RowType = field(default_factory=RowType)
    """The columns of its input."""
    strategy = Strategy.AFFECTED_GROUPS


@dataclass(frozen=True, slots=True)
class Emitted:
    """Groups whose window is over, of a relation with one row per group."""

    shape: Shape
    node: Scan
    reads: tuple[str, ...]
    horizon: Horizon
    strategy = Strategy.INCREMENTAL


@dataclass(frozen=True, slots=True)
class Periodic:
    """A relation as it was at the last turn of the wall clock."""

    shape: Shape
    node: Scan
    reads: tuple[str, ...]
    every_us: int
    strategy = Strategy.INCREMENTAL


@dataclass(frozen=True, slots=True)
class Aged:
    """Rows of a stored relation that are there at the time of an epoch."""

    shape: Shape
    node: Aging
    reads: tuple[str, ...]
    strategy = Strategy.INCREMENTAL


@dataclass(frozen=True, slots=True)
class Late:
    """Rows that came when all their windows were final."""

    shape: Shape
    node: Node
    columns: tuple[str, ...]  # of the node, in the order of the shape
    reads: tuple[str, ...]
    time: str  # the row's time, an expression over the node
    is_once: str  # true for one of the rows that a window function makes of a row
    horizon: Horizon  # its path is the start of the first window that is not final
    sessions: tuple[str, str] | None = None
    """Where sessions are kept, and when a row is in one of them: then it is not late."""
    strategy = Strategy.INCREMENTAL


Maintained: TypeAlias = (
    Mapped
    | Merged
    | Regrouped
    | Limited
    | Recursed
    | Recomputed
    | Applied
    | Sessioned
    | Emitted
    | Periodic
    | Aged
    | Late
)


@dataclass(frozen=True, slots=True)
class Program:
    """The relations of one view in dependency order; the last one is the view."""

    view: str
    relations: tuple[Maintained, ...]
    timing: Timing = field(default_factory=Timing)
    late: Late | None = None

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

    def stored_whole(self) -> Program:
        """Return it with nothing in it that is computed when somebody reads the view."""
        kept = (
            replace(each, fusible=False, guard=None) if isinstance(each, Mapped) else each
            for each in self.relations
        )
        return replace(self, relations=tuple(kept))

    def sources(self) -> tuple[str, ...]:
        """Relations outside this program that it reads."""
        own = {each.shape.name for each in self.relations}
        names = (name for each in self.relations for name in each.reads if name not in own)
        return tuple(dict.fromkeys(names))
