"""A range of a table that was read: its segment, and what is known of it besides its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from laminar.model.row_counts import RowCounts
from laminar.model.trace import Segment
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.ingest.arriving_rows import RowTimes, numbered, without_part
from laminar.store import SegmentStore, discard


@dataclass(frozen=True, slots=True)
class RangeNote:
    """It crosses the bridge with the rows, and goes to disk with those that are spilled."""

    marks: Mapping[str, int] = field(default_factory=dict)
    """Part of the source -> its largest event time."""
    read: int = 0
    """Rows that the connector delivered."""
    unused: int = 0
    """Those of them that no view wants, or that a newer row of their key has replaced."""
    refused: int = 0
    """Rows that the connector left out."""
    dropped: int = 0
    """Rows that were let go between this range and the one before."""

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value."""
        counts = [self.read, self.unused, self.refused, self.dropped]
        return {"marks": dict(self.marks), "counts": counts}

    @classmethod
    def from_json(cls, data: Any, rows: int) -> RangeNote:
        """Read it back; what an older version has spilled only has marks.

        Args:
            data: as it was sent.
            rows: how many are kept of the range.
        """
        if data and isinstance(data.get("marks"), Mapping):
            return cls(data["marks"], *data["counts"])
        return cls(data or {}, rows)

    def counted(self, stored: int, late: int) -> RowCounts:
        """Return what became of the rows, once those that are kept are written.

        Args:
            stored: rows in the segment.
            late: rows that lie in the future.
        """
        read = self.read + self.refused + self.dropped
        return RowCounts(read, stored + self.unused, self.dropped, self.refused, late)


def joined(notes: Iterable[RangeNote]) -> RangeNote:
    """Return those of ranges that follow each other as one."""
    found = list(notes)
    return RangeNote(
        largest_of(each.marks for each in found),
        sum(each.read for each in found),
        sum(each.unused for each in found),
        sum(each.refused for each in found),
        sum(each.dropped for each in found),
    )


def largest_of(marks: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return part -> its largest event time in any of them."""
    found: dict[str, int] = {}
    for each in marks:
        for part, mark in each.items():
            found[part] = max(mark, found.get(part, mark))
    return found


@dataclass(frozen=True, slots=True)
class ReadRange:
    """A range that was read: its segment, and rows that stay out of it."""

    segment: Segment | None
    ahead: pa.Table | None = None
    largest: Mapping[str, int] = field(default_factory=dict)
    """Part of the source -> its largest event time."""
    delivered: int | None = None
    """Set if the segment is a delta of its table already: how many rows the source gave for it."""
    counts: RowCounts = field(default_factory=RowCounts)
    """What became of its rows."""

    @property
    def rows(self) -> int:
        """How many rows the source gave, without those in the future."""
        if self.delivered is not None:
            return self.delivered
        return 0 if self.segment is None else self.segment.rows

    def joined(self, other: ReadRange) -> ReadRange:
        """Return both as one."""
        tables = [each for each in (self.ahead, other.ahead) if each is not None]
        segments = [each for each in (self.segment, other.segment) if each is not None]
        segment = segments[0] if segments else None
        if len(segments) == 2:
            segment = segments[0].joined(segments[1])
        marks = largest_of((self.largest, other.largest))
        ahead, counts = concatenated(tables) if tables else None, self.counts + other.counts
        return ReadRange(segment, ahead, marks, counts=counts)

    def counted(self, note: RangeNote) -> ReadRange:
        """Return it with what became of its rows."""
        stored = 0 if self.segment is None else self.segment.rows
        late = 0 if self.ahead is None else self.ahead.num_rows
        return replace(self, counts=note.counted(stored, late))


@dataclass(frozen=True, slots=True)
class SegmentWriter:
    """Makes rows of one table the segment of an epoch."""

    definition: TableDefinition
    store: SegmentStore
    times: RowTimes

    def write(
        self,
        number: int,
        rows: pa.Table,
        marks: Mapping[str, int],
        *,
        place: int = 0,
        now_ms: int | None = None,
    ) -> ReadRange:
        """Write rows as a segment, without those far in the future.

        Args:
            number: of the epoch.
            rows: those that have no number yet get one.
            marks: how far in time each part has come.
            place: how many rows of the epoch were written before.
            now_ms: the wall clock that the epoch goes by; None if it is not begun.
        """
        rows, ahead = self.times.split(numbered(rows, number, place), now_ms)
        name, times = self.definition.name, self.times.columns
        segment = self.store.write_arrow(name, number, without_part(rows), times)
        return ReadRange(segment, ahead, marks)


@dataclass(frozen=True, slots=True)
class Stored:
    """Rows that Spark has written already: they take no memory here."""

    taken: ReadRange

    @property
    def num_rows(self) -> int:
        """How many there are."""
        return 0 if self.taken.segment is None else self.taken.segment.rows

    @property
    def nbytes(self) -> int:
        """None of them is in memory."""
        return 0

    def discard(self, root: Path) -> None:
        """Remove files that no epoch will name."""
        if self.taken.segment is not None:
            discard(root, self.taken.segment.files)


def concatenated(tables: Sequence[pa.Table]) -> pa.Table:
    """Return rows as one table; a column that some of them do not have is NULL there."""
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="default")
