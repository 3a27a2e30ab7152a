"""The relational plan: a small algebra over Z-sets.

Every node yields rows with named columns and a weight. Column names are unique within a plan, so
an expression is plain Spark SQL text and never needs a qualifier. Nodes are frozen values: the
compiler reads them, nothing changes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from laminar.model.event_time import Chains, Steps
from laminar.model.local_days import later, zone_of


@dataclass(frozen=True, slots=True)
class Scan:
    """All rows of a relation, its columns under unique names."""

    relation: str
    items: tuple[tuple[str, str], ...]  # (column of the relation, name in the plan)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the output columns."""
        return tuple(name for _, name in self.items)


@dataclass(frozen=True, slots=True)
class Constant:
    """Rows written in the query itself (VALUES, SELECT without FROM)."""

    sql: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows for which the predicate is true."""

    input: Node
    predicate: str

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the output columns."""
        return self.input.columns


@dataclass(frozen=True, slots=True)
class Project:
    """One output row per input row."""

    input: Node
    items: tuple[tuple[str, str], ...]  # (expression, name)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the output columns."""
        return tuple(name for _, name in self.items)


@dataclass(frozen=True, slots=True)
class Generate:
    """Each row beside the rows that a generator (explode and kin) makes of it."""

    input: Node
    generator: str
    produced: tuple[str, ...]
    outer: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the output columns."""
        return (*self.input.columns, *self.produced)


@dataclass(frozen=True, slots=True)
class Reweigh:
    """Each row's weight times an integer expression over its columns."""

    input: Node
    factor: str

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the output columns."""
        return self.input.columns


@dataclass(frozen=True, slots=True)
class UnionAll:
    """The rows of all inputs, by position; `types` (if any) are what the columns widen to."""

    inputs: tuple[Node, ...]
    columns: tuple[str, ...]
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition over joined rows, and the columns it reads."""

    sql: str
    reads: frozenset[str]
    is_equality: bool = False


@dataclass(frozen=True, slots=True)
class Join:
    """Inner join of any number of inputs; no predicate means a cross join."""

    inputs: tuple[Node, ...]
    predicates: tuple[Predicate, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the output columns."""
        return tuple(name for each in self.inputs for name in each.columns)


@dataclass(frozen=True, slots=True)
class Anti:
    """The rows of `left` whose key is not in the set `right` (one row per key, no duplicates)."""

    left: Node
    right: Node
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    operators: tuple[str, ...]  # `=` or `<=>` for each pair of keys

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the output columns."""
        return self.left.columns


@dataclass(frozen=True, slots=True)
class KeyedJoin:
    """An outer, semi or anti join whose condition is an equality of keys and something more."""

    left: Node
    right: Node
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    condition: str
    kind: str  # LEFT, RIGHT, FULL, LEFT SEMI, LEFT ANTI as Spark spells them, or ASOF
    match: tuple[str, str, str] | None = None  # of ASOF: left time, comparison, right time

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the output columns."""
        if self.kind in ("LEFT SEMI", "LEFT ANTI"):
            return self.left.columns
        return (*self.left.columns, *self.right.columns)


@dataclass(frozen=True, slots=True)
class AggCall:
    """One aggregate call; the arguments are columns of the input."""

    name: str
    function: str  # lower case, or "other" for one without a merge rule
    args: tuple[str, ...]
    sql: str  # the whole call over the input's columns


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One row per key, or exactly one row when there are no keys.

    One that covers a domain has a row for each of its values, as if it had no keys.
    """

    input: Node
    keys: tuple[str, ...]
    calls: tuple[AggCall, ...]
    covers_domain: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the output columns."""
        return (*self.keys, *(call.name for call in self.calls))

    @property
    def total(self) -> bool:
        """Whether a row is there whatever the input holds."""
        return self.covers_domain or not self.keys


@dataclass(frozen=True, slots=True)
class Sessions:
    """One row per session: rows of one key, each at most a gap after the one before it."""

    input: Node
    keys: tuple[str, ...]
    time: str  # the column of the input that holds the time
    gap: str  # as Spark's session_window takes it
    window: str  # the output column with start and end
    calls: tuple[AggCall, ...]
    horizon: Horizon | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the output columns."""
        return (*self.keys, self.window, *(call.name for call in self.calls))


@dataclass(frozen=True, slots=True)
class Horizon:
    """Up to where the windows of a view are final."""

    view: str
    path: str  # the end of a window, or a key that is a time itself
    chains: Chains  # from the view's watermark to there
    origins: tuple[tuple[str, str, Steps], ...]  # (relation, column, steps) that it comes from
    direct: bool  # a row's time is one of the delta's: no join brings back older rows


@dataclass(frozen=True, slots=True)
class Timely:
    """The rows whose window is not final yet; what is there already is not judged again."""

    input: Node
    horizon: Horizon

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the output columns."""
        return self.input.columns


@dataclass(frozen=True, slots=True)
class Close:
    """The rows of groups whose window is over."""

    input: Node
    horizon: Horizon

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the output columns."""
        return self.input.columns


@dataclass(frozen=True, slots=True)
class Aging:
    """The rows that are there at the time of an epoch: not before `start`, nor from `end` on."""

    input: Node
    start: str  # columns of the input; NULL is no limit
    end: str
    zone: str = "UTC"
    moves: tuple[int, ...] = ()  # lengths that the conditions add to the clock, if days vary

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the output columns."""
        return self.input.columns

    def clock(self, moment: int) -> int:
        """Return the time that limits are compared with at a moment.

        Law: of a limit e + d, it is d later than the clock moved by what the conditions say. Where
        all days have 24 hours, that is the moment itself.
        """
        zone = zone_of(self.zone) if self.moves else None
        return moment if zone is None else later(moment, self.moves, zone) - sum(self.moves)


@dataclass(frozen=True, slots=True)
class Window:
    """Each row beside window functions over its partition."""

    input: Node
    partition: tuple[str, ...]  # columns that every window is partitioned by
    items: tuple[tuple[str, str], ...]  # (window expression, name)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the output columns."""
        return (*self.input.columns, *(name for _, name in self.items))


@dataclass(frozen=True, slots=True)
class TopK:
    """The first `limit` rows (None: all) after `offset` in an order; all columns break ties."""

    input: Node
    order: tuple[str, ...]
    limit: int | None
    offset: int = 0

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the output columns."""
        return self.input.columns


@dataclass(frozen=True, slots=True)
class Again:
    """In the step of a recursion: the rows that the step was given, the last column their level."""

    loop: str  # of which recursion
    columns: tuple[str, ...]
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Settled:
    """The same rows, of which those that are there and taken back are left out."""

    input: Node
    types: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the output columns."""
        return self.input.columns


@dataclass(frozen=True, slots=True)
class Recursion:
    """The rows R = base + step(R) of a WITH item that reads itself; the last column is the level.

    Rows of the base are at level 1, and what a step makes of a row is one level further.
    """

    base: Node
    step: Node  # over one `Again` in each branch
    loop: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    most: int | None  # levels that there may be; None for any number


Node: TypeAlias = (
    Scan
    | Constant
    | Filter
    | Project
    | Generate
    | Reweigh
    | UnionAll
    | Join
    | Anti
    | KeyedJoin
    | Aggregate
    | Sessions
    | Timely
    | Close
    | Aging
    | Window
    | TopK
    | Again
    | Settled
    | Recursion
)


def children(node: Node) -> tuple[Node, ...]:
    """Return the direct inputs of a node."""
    match node:
        case Scan() | Constant() | Again():
            return ()
        case Recursion():
            return (node.base, node.step)
        case UnionAll() | Join():
            return node.inputs
        case Anti() | KeyedJoin():
            return (node.left, node.right)
        case _:
            return (node.input,)


def scanned(node: Node) -> tuple[str, ...]:
    """Return the relations a plan reads, each once, in the order they are met."""
    found: dict[str, None] = {}
    stack: list[Node] = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, Scan):
            found[current.relation] = None
        stack.extend(reversed(children(current)))
    return tuple(found)
