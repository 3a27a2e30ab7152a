"""Names of traces: `v` is a view's rows, `v#2` its second hidden part, `!` says what else is kept.

    trace    = relation [ "!" ( "partial" | "pending" | "late" ) ]
    relation = view [ "#" number ]

Tables and views have the plain form. What is kept under these names in manifests stays readable, so
the form does not change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

SIGNS = "#!"
"""The signs by which names of traces are put together; SQL lets nobody else use them."""

_FORM = re.compile(
    r"(?P<view>.+?)(?:#(?P<part>[1-9][0-9]*))?(?:!(?P<kind>partial|pending|late))?", re.DOTALL
)


class TraceKind(StrEnum):
    """What a trace holds instead of a relation's rows."""

    PARTIAL = "partial"
    """Partial accumulators of its groups."""
    PENDING = "pending"
    """Changes that it has not shown yet."""
    LATE = "late"
    """Rows that came too late for it. They are counted in their epoch and kept by no manifest."""


@dataclass(frozen=True, slots=True)
class TraceName:
    """What the name of a trace says.

    Law: `TraceName.parse(str(name)) == name`, and `str(TraceName.parse(text)) == text`. So a view's
    name may hold any sign, these too, but must not end as if it were the name of another's part.
    """

    view: str
    """The table or view as it is defined."""
    part: int | None = None
    """The number of a hidden part, from 1 on; None for the view itself."""
    kind: TraceKind | None = None
    """None for the rows themselves."""

    def __post_init__(self) -> None:
        found = _FORM.fullmatch(str(self))
        if found is None or found["view"] != self.view:
            raise ValueError(f'"{self}" would not be read as a name of "{self.view}"')

    def __str__(self) -> str:
        return self.relation if self.kind is None else f"{self.relation}!{self.kind}"

    @property
    def relation(self) -> str:
        """The view, or the part of it, that the trace belongs to."""
        return self.view if self.part is None else f"{self.view}#{self.part}"

    @classmethod
    @lru_cache(maxsize=4096)  # a database has few, and asks for each again and again
    def parse(cls, text: str) -> TraceName:
        """Read a name; every text but the empty one is some name."""
        found = _FORM.fullmatch(text)
        if found is None:
            raise ValueError("the name of a trace is empty")
        part, kind = found["part"], found["kind"]
        return cls(found["view"], int(part) if part else None, TraceKind(kind) if kind else None)


def is_plain(name: str) -> bool:
    """Whether this can be a table or view: it is not the name of another's part or trace."""
    found = _FORM.fullmatch(name)
    return found is not None and found["view"] == name


def part_of(view: str, number: int) -> str:
    """Return the name of a hidden part of a view."""
    return str(TraceName(view, number))


def partial_trace(relation: str) -> str:
    """Return the name of the trace that holds a relation's partial accumulators."""
    return f"{relation}!{TraceKind.PARTIAL}"


def pending_trace(relation: str) -> str:
    """Return the name of the trace that holds what a relation has not shown yet."""
    return f"{relation}!{TraceKind.PENDING}"


def late_trace(view: str) -> str:
    """Return the name for the rows that came too late for a view."""
    return f"{view}!{TraceKind.LATE}"


def is_partial(trace: str) -> bool:
    """Whether a trace holds partial accumulators."""
    return TraceName.parse(trace).kind is TraceKind.PARTIAL


def relation_of(trace: str) -> str:
    """Return the view, or the part of one, that a trace belongs to."""
    return TraceName.parse(trace).relation


def view_of(trace: str) -> str:
    """Return the table or view that a trace, or a part, belongs to."""
    return TraceName.parse(trace).view


def own_traces(view: str, traces: Iterable[str]) -> list[str]:
    """Return the traces that a view is kept in: its own, hidden parts and accumulators."""
    return [each for each in traces if view_of(each) == view]
