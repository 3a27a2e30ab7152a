"""A relation that the system fills from what it knows: small, typed, built when named."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from laminar.delta.program import Shape
from laminar.sql.system import SYSTEM

if TYPE_CHECKING:
    from laminar.runtime.engine.engine import Engine
    from laminar.runtime.history.timeline import Snapshot

Rows = Iterable[tuple[Any, ...]]

_ARROW = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
    "array<string>": pa.list_(pa.string()),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}
"""Spark's name of a type -> Arrow's type."""


@dataclass(frozen=True, slots=True)
class SystemTable:
    """Name, columns with Spark's names of their types, and where the rows come from."""

    name: str
    columns: tuple[tuple[str, str], ...]
    rows: Callable[[Engine, Snapshot], Rows]

    @property
    def shape(self) -> Shape:
        """Name, columns and types, as any relation has them."""
        names, types = zip(*self.columns, strict=True)
        return Shape(f"{SYSTEM}.{self.name}", names, types)

    def arrow(self, engine: Engine, snapshot: Snapshot) -> pa.Table:
        """Return the rows of this moment."""
        rows = list(self.rows(engine, snapshot))
        return pa.table(
            {
                name: pa.array([row[place] for row in rows], _ARROW[kind])
                for place, (name, kind) in enumerate(self.columns)
            }
        )


def columns(text: str) -> tuple[tuple[str, str], ...]:
    """Read `name type, name type`; types have no spaces inside."""
    pairs = (part.split() for part in text.replace("\n", " ").split(", "))
    return tuple((name, kind) for name, kind in pairs)
