"""When a view shows what it computed.

With the end of a window as e, the watermark's threshold as s (shown: e < s), U the groups:

    V   = σ(e < s) U
    ΔV  = σ(e < s₀) ΔU  +  σ(s₀ ≤ e < s₁) U₁          0 is before the epoch, 1 after

The first term holds corrections to windows that are shown already; without lateness it is empty.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from laminar.delta.change import Version, columns, consolidate, table
from laminar.delta.lateness import below
from laminar.delta.partials import content, finish
from laminar.delta.program import Emitted, Merged
from laminar.model.trace import WEIGHT


class Mode(StrEnum):
    """The kinds of EMIT that differ in what they do."""

    UPDATE = "update"
    CLOSE = "close"
    FINAL = "final"
    PERIODIC = "periodic"


@dataclass(frozen=True, slots=True)
class Emission:
    """When a view shows its rows, and how late rows may be: the clauses after its query."""

    mode: str = Mode.UPDATE
    every_us: int = 0
    lateness_us: int | None = None
    late_to: str | None = None

    @property
    def closes(self) -> bool:
        """Whether rows wait for their window to be over."""
        return self.mode in (Mode.CLOSE, Mode.FINAL)

    @property
    def is_bounded(self) -> bool:
        """Whether rows can be too late."""
        return self.closes or self.lateness_us is not None


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Ends of windows below these are shown, before the epoch and after it."""

    before: int | None
    after: int | None

    @property
    def moved(self) -> bool:
        """Whether windows may have closed."""
        return self.after is not None and (self.before is None or self.before < self.after)


def closing(path: str, thresholds: Thresholds) -> str:
    """Render the test that a window closes in this epoch."""
    assert thresholds.after is not None
    test = below(path, thresholds.after)
    if thresholds.before is not None:
        test += f" AND NOT ({below(path, thresholds.before)})"
    return test


def emit_stored(relation: Emitted, thresholds: Thresholds, after: str, *, corrects: bool) -> str:
    """ΔV over groups that are stored as rows; `after` is where to find those that may close."""
    listed = columns(relation.shape.columns)
    parts = []
    if thresholds.moved:
        test = closing(relation.horizon.path, thresholds)
        parts.append(f"SELECT {listed}, {WEIGHT} FROM {after} WHERE {test}")
    if corrects and thresholds.before is not None:
        delta = table(relation.reads[0], Version.DELTA)
        test = below(relation.horizon.path, thresholds.before)
        parts.append(f"SELECT {listed}, {WEIGHT} FROM {delta} WHERE {test}")
    return consolidate("\nUNION ALL\n".join(parts), relation.shape.row)


def emit_merged(
    relation: Emitted,
    groups: Merged,
    thresholds: Thresholds,
    partials: tuple[str, str | None, str],
    *,
    positive: bool,
    corrects: bool,
) -> str:
    """ΔV over groups that are kept as partial accumulators.

    Args:
        relation: V.
        groups: U.
        thresholds: s₀ and s₁.
        partials: where partial rows that may close, those before, and those of the delta are.
        positive: no partial row is taken back.
        corrects: the delta may touch windows that are shown already.
    """
    path = relation.horizon.path
    listed = columns(relation.shape.columns)
    after, before, delta = partials
    parts = []
    if thresholds.moved:
        rows = f"(SELECT * FROM {after} WHERE {closing(path, thresholds)})"
        parts.append(content(groups, rows, positive=positive))
    if corrects and thresholds.before is not None:
        test = below(path, thresholds.before)
        # Sums of doubles are taken back as they are stored, and that is here.
        stored = replace(groups, shape=replace(groups.shape, name=relation.shape.name))
        old = None if before is None else f"(SELECT * FROM {before} WHERE {test})"
        new = f"(SELECT * FROM {delta} WHERE {test})"
        parts.append(finish(stored, old, new, positive=positive, first=False))
    return "\nUNION ALL\n".join(f"SELECT {listed}, {WEIGHT} FROM ({part})" for part in parts)
