"""What an epoch does to a relation, as SQL text: before, after, and the difference.

    after = before + delta        (as Z-sets: weights add up, zero means absent)

A text of None says that the rows are known to be none at all; rules use that to leave out terms
instead of running them on nothing.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from laminar.model.quoting import backquoted
from laminar.model.same_row import RowType, identity
from laminar.model.trace import WEIGHT


class Version(StrEnum):
    """The three versions of a relation in an epoch."""

    BEFORE = "before"
    AFTER = "after"
    DELTA = "delta"


@dataclass(frozen=True, slots=True)
class State:
    """What is known of a relation when an epoch's statements are rendered."""

    changed: bool = True  # the delta has rows
    insert_only: bool = False  # the delta has no negative weight
    positive: bool = False  # the stored history has no negative weight
    existed: bool = True  # the relation had rows before
    units: bool = False  # every weight of the delta is 1
    held_units: bool = False  # every weight of the stored history is 1


@dataclass(frozen=True, slots=True)
class Change:
    """A plan's rows before and after an epoch, and the delta between."""

    before: str | None
    after: str | None
    delta: str | None
    insert_only: bool  # the delta has no negative weight
    positive: bool  # before and after have no negative weight
    units: bool = False  # every weight of the delta is 1

    def map(self, rule: Callable[[str], str], *, reweighs: bool = False) -> Change:
        """Apply a linear rule: f(a + b) = f(a) + f(b), so it goes through each version."""
        return Change(
            None if self.before is None else rule(self.before),
            None if self.after is None else rule(self.after),
            None if self.delta is None else rule(self.delta),
            self.insert_only,
            self.positive,
            self.units and not reweighs,
        )


def quote(name: str) -> str:
    """Quote a column name where Spark asks for it."""
    if re.fullmatch(r"c\d+|__\w+", name):
        return name
    return backquoted(name)


def table(relation: str, version: Version | str) -> str:
    """Return the name under which a version of a relation is bound while statements run."""
    slug = re.sub(r"[^a-z0-9_]", "_", relation.lower())
    if slug != relation:
        slug = f"{slug}_{zlib.crc32(relation.encode()):08x}"
    return f"{slug}__{version}"


def union(parts: list[str]) -> str | None:
    """Add Z-sets up: UNION ALL; None if there are none."""
    if not parts:
        return None
    return "\nUNION ALL\n".join(parts)


def columns(names: tuple[str, ...], prefix: str = "") -> str:
    """Render a column list."""
    return ", ".join(f"{prefix}{quote(name)}" for name in names)


@dataclass(frozen=True, slots=True)
class SameRows:
    """How a statement groups rows that are the same: what it lists, and what it groups by."""

    listed: str
    by: str


def same_rows(row: RowType) -> SameRows:
    """Group rows by their bytes (`model/same_row.py`), which GROUP BY alone does not."""
    listed: list[str] = []
    by: list[str] = []
    for name, kind in zip(map(quote, row.names), row.kinds, strict=True):
        found = identity(name, kind)
        listed.append(name if found.shown == name else f"{found.shown} AS {name}")
        by += found.by
    return SameRows(", ".join(listed), ", ".join(by))


def consolidate(sql: str, row: RowType) -> str:
    """Add up the weights of rows that are the same and drop those that cancel out."""
    rows = same_rows(row)
    return (
        f"SELECT {rows.listed}, SUM({WEIGHT}) AS {WEIGHT} FROM ({sql}) "
        f"GROUP BY {rows.by} HAVING SUM({WEIGHT}) <> 0"
    )


def bag(sql: str, row: RowType, *, positive: bool, units: bool = False) -> str:
    """Turn a Z-set into plain rows: a weight of 3 becomes three rows."""
    listed = columns(row.names)
    if units:
        return f"SELECT {listed} FROM ({sql})"
    rows = sql if positive else consolidate(sql, row)
    return (
        f"SELECT {listed} FROM ({rows}) "
        f"LATERAL VIEW EXPLODE(ARRAY_REPEAT(0, CAST({WEIGHT} AS INT))) copies AS __copy"
    )


def signed_rows(binding: str, row: RowType, state: State, sign: int) -> str:
    """Return the inserted (or the retracted) rows of a delta as plain rows."""
    test = f"{WEIGHT} > 0" if sign > 0 else f"{WEIGHT} < 0"
    rows = f"SELECT * FROM {binding}"
    if not state.insert_only:
        rows = (
            f"SELECT {columns(row.names)}, {sign} * {WEIGHT} AS {WEIGHT} "
            f"FROM ({consolidate(rows, row)}) WHERE {test}"
        )
    return bag(rows, row, positive=True)
