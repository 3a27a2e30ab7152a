"""What crosses a bridge, in the order in which it was sent."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

_SMALL = 64 << 10


@runtime_checkable
class Rows(Protocol):
    """Rows as a bridge sees them: Arrow tables and record batches, or a handle of stored ones.

    `nbytes` is what they take in memory, so a handle of rows on disk has none.
    """

    @property
    def num_rows(self) -> int:
        """What counts against the bound of a bridge."""
        ...

    @property
    def nbytes(self) -> int:
        """What they take in memory; 0 if they are on disk."""
        ...


def size_of(rows: Rows) -> int:
    """Return how much memory rows take.

    Arrow works out the share of a slice in its buffers, which takes longer than all else that a
    bridge does with a small batch. So that counts as much as the buffers it keeps alive.
    """
    if isinstance(rows, pa.Table | pa.RecordBatch):
        held: int = rows.get_total_buffer_size()
        if held <= _SMALL:
            return held
    return rows.nbytes


class RowEvent(NamedTuple):
    """One row: values in the order of the schema, or by name."""

    row: Any
    event_time: int | None
    sent_at: float


class RowBatch(NamedTuple):
    """Rows that came together.

    A batch of a replayable source knows its range: rows after `start`, up to and including `end`.
    `after` is where the batch before it ended; the two differ if something between was dropped.
    """

    rows: Rows
    num_rows: int
    size: int
    """How much memory they take; worked out once, so that what comes in also goes out."""
    event_time: int | None = None
    """The largest event time among them, in microseconds from 1970."""
    start: Any = None
    end: Any = None
    after: Any = None
    sent_at: float = 0.0
    note: Any = None
    """A JSON value for the consumer; it goes to disk with rows that are spilled."""
    place: Any = None
    """The file it was read back from, if it was spilled."""


class Watermark(NamedTuple):
    """No row before this time follows, in microseconds from 1970."""

    timestamp: int


class Barrier(NamedTuple):
    """All rows sent before belong to this epoch."""

    epoch: int


class End(NamedTuple):
    """The source is done: nothing follows."""


BridgeMessage: TypeAlias = RowEvent | RowBatch | Watermark | Barrier | End
