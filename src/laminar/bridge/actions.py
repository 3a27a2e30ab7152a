"""What a consumer is to do next; strictly in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from laminar.bridge.messages import RowBatch


@dataclass(frozen=True, slots=True)
class ProcessBatch:
    """Rows that closed as one batch, in the pieces in which they were sent."""

    parts: tuple[RowBatch, ...]

    @property
    def num_rows(self) -> int:
        """The rows of all parts."""
        return sum(part.num_rows for part in self.parts)

    @property
    def event_time(self) -> int | None:
        """The largest event time, where one is known."""
        known = [part.event_time for part in self.parts if part.event_time is not None]
        return max(known, default=None)

    @property
    def start(self) -> Any:
        """Its rows come after this offset; None if they have none."""
        return self.parts[0].start

    @property
    def end(self) -> Any:
        """The offset of its last row; None if they have none."""
        return self.parts[-1].end

    @property
    def table(self) -> pa.Table:
        """All rows as one Arrow table; nothing is copied."""
        pieces = [
            pa.Table.from_batches([part.rows])
            if isinstance(part.rows, pa.RecordBatch)
            else part.rows
            for part in self.parts
        ]
        return pieces[0] if len(pieces) == 1 else pa.concat_tables(pieces)


@dataclass(frozen=True, slots=True)
class AdvanceWatermark:
    """No row before this time follows, in microseconds from 1970."""

    timestamp: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All rows before belong to this epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Eof:
    """The bridge is closed: nothing follows."""


Ring1Action: TypeAlias = ProcessBatch | AdvanceWatermark | Checkpoint | Eof
