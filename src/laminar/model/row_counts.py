"""What became of the rows of a source, as far as epochs have taken them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Rows of one source or table.

    Law: `read == stored + dropped + refused + late`. Each is counted where it happens, and all of
    an epoch are stored with it: what a crash cuts short counts when it is done again, once.
    """

    read: int = 0
    """Rows that its connector delivered, or users pushed; a row that is taken back is one, too."""
    stored: int = 0
    """Rows that came in. Of a key only the newest is kept, of a row only what views use: that is
    how they are stored."""
    dropped: int = 0
    """Rows that were let go because the bridge was full and the source is one that drops."""
    refused: int = 0
    """Rows that its connector left out because they do not fit, as its options ask for."""
    late: int = 0
    """Rows that stay out because they lie too far in the future."""

    def __add__(self, other: RowCounts) -> RowCounts:
        """Return both together."""
        return RowCounts(
            self.read + other.read,
            self.stored + other.stored,
            self.dropped + other.dropped,
            self.refused + other.refused,
            self.late + other.late,
        )

    @property
    def add_up(self) -> bool:
        """Whether the law holds."""
        return self.read == self.stored + self.dropped + self.refused + self.late

    def to_json(self) -> dict[str, int]:
        """Return plain values that the constructor takes."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Skipped:
    """What was let go between two ranges of a source: rows after `after`, up to the second."""

    after: Any
    """Where the first range ended."""
    rows: int

    def to_json(self) -> dict[str, Any]:
        """Return plain values that the constructor takes."""
        return asdict(self)


def with_dropped(counts: RowCounts, gap: Skipped | None) -> RowCounts:
    """Return the counts of a range with what the log says was let go before it.

    That is what counts: who reads the range again does not meet the rows before it.
    """
    dropped = 0 if gap is None else gap.rows
    read = counts.read - counts.dropped + dropped
    return replace(counts, read=read, dropped=dropped)


def counts_of(data: Mapping[str, Mapping[str, int]]) -> dict[str, RowCounts]:
    """Read counts back, by source."""
    return {name: RowCounts(**each) for name, each in data.items()}


def counts_json(counts: Mapping[str, RowCounts]) -> dict[str, dict[str, int]]:
    """Return counts as plain values."""
    return {name: each.to_json() for name, each in counts.items()}
