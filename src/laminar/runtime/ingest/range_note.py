"""What is known of a range besides the rows that are kept of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from laminar.model.row_counts import RowCounts


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
