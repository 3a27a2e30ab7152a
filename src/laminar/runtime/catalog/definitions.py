"""What a user defined, in a form that a manifest can carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

from laminar.delta.emission import Emission
from laminar.delta.program import Shape
from laminar.model.char_columns import as_declared
from laminar.model.event_time import Chain, Timing
from laminar.model.quoting import backquoted
from laminar.model.schema import Schema

Pairs: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A table, or a source (with or without a connector)."""

    name: str
    columns: tuple[tuple[str, str, bool], ...]  # (name, type, nullable)
    is_source: bool = False
    connector: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    sql: str = ""
    primary_key: tuple[str, ...] = ()
    event_time: str | None = None
    delay_us: int = 0
    born: str = ""
    """The version of the database that it came with: another one of its name has another."""
    lengths: Pairs = ()
    """Column -> so many characters are the most: VARCHAR(n)."""
    defaults: Pairs = ()
    """Column -> the expression for rows that do not give it."""
    generated: Pairs = ()
    """Column -> the expression that it always has the value of."""
    checks: Pairs = ()
    """Constraint -> the condition that is false for no row."""
    comments: Pairs = ()
    """Column -> what the user says of it."""
    comment: str = ""
    properties: Pairs = ()
    chars: Pairs = ()
    """Column -> n of CHAR(n), or its type as declared if that has texts of a length inside."""

    @property
    def has_rules(self) -> bool:
        """Whether rows have to be looked at, or completed, before they come in."""
        return bool(self.lengths or self.chars or self.generated or self.checks)

    @property
    def upserts(self) -> bool:
        """Whether a row with a known key takes the place of the old one; tables refuse it."""
        return self.is_source and bool(self.primary_key)

    def takes_rows_of(self, other: TableDefinition) -> bool:
        """Whether rows that were made for another table of this name do for this one."""
        return self._row_rules == other._row_rules

    @property
    def _row_rules(self) -> tuple[object, ...]:
        way_in = (self.columns, self.primary_key, self.is_source, self.connector)
        return (*way_in, self.lengths, self.chars, self.generated, self.checks)

    @property
    def shape(self) -> Shape:
        """Name, columns and types; that a column is NOT NULL is lost."""
        names = tuple(name for name, _, _ in self.columns)
        chars = tuple((name, as_declared(noted)) for name, noted in self.chars)
        return Shape(self.name, names, tuple(kind for _, kind, _ in self.columns), chars)

    @property
    def schema(self) -> Schema:
        """The columns, with which of them may be NULL."""
        return Schema.parse(
            ", ".join(
                f"{backquoted(name)} {kind}{'' if nullable else ' NOT NULL'}"
                for name, kind, nullable in self.columns
            )
        )


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """A materialized view, with the value of every option."""

    name: str
    query: str
    refresh_policy: str = "auto"
    sql: str = ""
    schedule: str = "every epoch"
    diamond_consistency: str = "atomic"
    diamond_schedule_policy: str = "fastest"
    defined_at: str = ""
    emission: Emission = field(default_factory=Emission)
    born: str = ""
    comment: str = ""
    properties: Pairs = ()
    expanded: str = ""
    """The query with functions of SQL written out, if it calls functions of the user's."""
    calls: tuple[tuple[str, int], ...] = ()
    """Those functions, directly or through others, each with its version."""


@dataclass(frozen=True, slots=True)
class OperatorDefinition:
    """A view that a Python operator maintains; the operator itself lives in the program."""

    name: str
    reads: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    sql: str = ""
    born: str = ""

    @property
    def shape(self) -> Shape:
        """Name, columns and types."""
        names = tuple(name for name, _ in self.columns)
        return Shape(self.name, names, tuple(kind for _, kind in self.columns))


@dataclass(frozen=True, slots=True)
class LateDefinition:
    """Where the rows go that are late for a view."""

    name: str
    view: str
    sql: str = ""


Definition = TableDefinition | ViewDefinition | OperatorDefinition | LateDefinition

_KINDS: dict[str, type[Definition]] = {
    "table": TableDefinition,
    "view": ViewDefinition,
    "operator": OperatorDefinition,
    "late": LateDefinition,
}


def to_json(definitions: Mapping[str, Definition]) -> list[dict[str, Any]]:
    """Return definitions as plain values, in order."""
    names = {cls: kind for kind, cls in _KINDS.items()}
    return [{"kind": names[type(each)], **asdict(each)} for each in definitions.values()]


def from_json(data: Sequence[Mapping[str, Any]]) -> list[Definition]:
    """Read definitions back."""
    found: list[Definition] = []
    for entry in data:
        values = {key: _frozen(value) for key, value in entry.items() if key != "kind"}
        if isinstance(values.get("emission"), Mapping):
            values["emission"] = Emission(**values["emission"])
        found.append(_KINDS[entry["kind"]](**values))
    return found


def _frozen(value: Any) -> Any:
    return tuple(_frozen(each) for each in value) if isinstance(value, list) else value


def timing_of(definition: TableDefinition) -> Timing:
    """Return which column of a table carries event time."""
    if definition.event_time is None:
        return Timing()
    return Timing({definition.event_time: (Chain(),)})
