"""Recompute in full, then take the difference: ΔQ = Q(after) − stored.

Downstream of it everything stays incremental, because what it hands on is a delta like any other.
"""

from __future__ import annotations

from laminar.delta.change import Version, columns, consolidate, quote, table
from laminar.delta.program import Recomputed
from laminar.model.trace import WEIGHT


def recompute(relation: Recomputed, *, existed: bool) -> str:
    """Δ of the relation; its inputs are bound under their own names, as plain rows."""
    own = relation.shape
    pairs = zip(own.columns, own.types, strict=True)
    typed = ", ".join(f"CAST({quote(name)} AS {kind}) AS {quote(name)}" for name, kind in pairs)
    parts = [f"SELECT {typed}, 1L AS {WEIGHT} FROM (\n{relation.sql}\n)"]
    if existed:
        before = table(own.name, Version.BEFORE)
        parts.append(f"SELECT {columns(own.columns)}, -{WEIGHT} AS {WEIGHT} FROM {before}")
    return consolidate("\nUNION ALL\n".join(parts), own.row)
