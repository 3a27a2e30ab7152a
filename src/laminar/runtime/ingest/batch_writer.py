"""The consumer's side of an inlet: batches of the bridge become segments, ahead of their epoch.

Files that were written ahead mean nothing until a manifest names them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from laminar.bridge import (
    AdvanceWatermark,
    BatchPolicy,
    BridgeConsumer,
    Checkpoint,
    PipelineBridge,
    ProcessBatch,
)
from laminar.bridge.messages import RowBatch
from laminar.model.row_counts import Skipped
from laminar.runtime.ingest.read_range import (
    RangeNote,
    ReadRange,
    SegmentWriter,
    Stored,
    concatenated,
    joined,
)
from laminar.store import Range, discard


@dataclass(frozen=True, slots=True)
class ReadyRange:
    """A range whose rows are in segments, for the next epoch."""

    range: Range
    taken: ReadRange
    batches: tuple[ProcessBatch, ...]


class BatchWriter:
    """Takes batches from the bridge and writes them.

    Law: what `ready` shows is one range after what was taken before, with exactly its rows; only
    what `DropNewest` let go lies between two of them. A batch that could not be written is kept,
    and written when it is asked for again.

    Args:
        segments: makes segments of rows.
        bridge: where batches come from.
        policy: when one is closed.
        number: of the epoch that comes next.
        position: where the last range ended that an epoch took.
    """

    def __init__(
        self,
        segments: SegmentWriter,
        bridge: PipelineBridge,
        policy: BatchPolicy,
        number: int,
        position: Any,
    ) -> None:
        self.segments = segments
        self._bridge = bridge
        self._consumer = BridgeConsumer(bridge, policy)
        self._prepared: ReadyRange | None = None
        self._next: tuple[ProcessBatch, list[int]] | None = None  # not written; marks behind it
        self._uncommitted: deque[ReadyRange] = deque()
        self._barriers = 0
        self.number = number
        """Of the epoch that will take what is read now."""
        self.consumed = position
        """Where the last range ended that an epoch took."""

    @property
    def deadline(self) -> float | None:
        """When the open batch will be old enough."""
        return self._consumer.deadline

    @property
    def ready(self) -> Range | None:
        """What the next epoch may take."""
        return None if self._prepared is None else self._prepared.range

    def has_rows(self) -> bool:
        """Whether something waits, on this side or in the bridge."""
        return (
            self._prepared is not None
            or self._next is not None
            or self._consumer.deadline is not None
            or self._bridge.channel.waiting > 0
        )

    def form(self, *, flush: bool) -> bool:
        """Write the next batch, unless one is ready; say whether one is."""
        while self._prepared is None and self._form_next(flush=flush) is not None:
            pass
        return self._prepared is not None

    def form_all(self, barriers: int, until: int | None = None) -> None:
        """Write all batches before a barrier as one range; a gap ends it.

        What comes in behind the barrier meanwhile is for the next epoch: a source that is faster
        than this would have no end.

        Args:
            barriers: the barrier, by its number among all that were sent.
            until: stop at a watermark as high as this.
        """
        while self._barriers < barriers:
            marks = self._form_next(flush=True)
            if marks is None or (until is not None and max(marks, default=until - 1) >= until):
                return

    def _form_next(self, *, flush: bool) -> list[int] | None:
        """Write what comes next; return the watermarks right behind it.

        None if nothing comes, or something between it and what is ready was dropped.
        """
        if self._next is None:
            actions = self._consumer.drain(limit=1, flush=flush)
            self._barriers += sum(isinstance(each, Checkpoint) for each in actions)
            marks = [each.timestamp for each in actions if isinstance(each, AdvanceWatermark)]
            batch = next((each for each in actions if isinstance(each, ProcessBatch)), None)
            if batch is None:
                return marks if actions else None
            self._next = batch, marks  # until it is written: polling is past it already
        batch, marks = self._next
        if not self._prepare(batch):
            return None
        self._next = None
        return marks

    def _prepare(self, batch: ProcessBatch) -> bool:
        """Add a batch to what is ready; False if something between them was dropped."""
        before = self._prepared
        if before is not None and before.range.end != batch.start:
            return False
        place = 0 if before is None else sum(each.num_rows for each in before.batches)
        taken = self._written(batch, place)
        if before is None:
            span = Range(self.segments.definition.name, batch.start, batch.end)
            self._prepared = ReadyRange(span, taken, (batch,))
        else:
            span = replace(before.range, end=batch.end)
            self._prepared = ReadyRange(span, before.taken.joined(taken), (*before.batches, batch))
        return True

    def _written(self, batch: ProcessBatch, place: int) -> ReadRange:
        stored = [
            part.rows.taken.counted(_note(part))
            for part in batch.parts
            if isinstance(part.rows, Stored)
        ]
        parts = [part for part in batch.parts if isinstance(part.rows, pa.Table)]
        if not parts:
            return stored[0] if stored else ReadRange(None)
        rows = concatenated([part.rows for part in parts])
        marks = joined(map(_note, batch.parts)).marks
        written = self.segments.write(self.number, rows, marks, place=place)
        written = written.counted(joined(map(_note, parts)))
        return stored[0].joined(written) if stored else written

    def skipped(self, taken: Range) -> Skipped | None:
        """Return what was let go right before a range that is ready; None if nothing was."""
        ready = self._prepared
        if ready is None or ready.range != taken:
            return None
        rows, after = ready.taken.counts.dropped, ready.batches[0].parts[0].after
        return Skipped(after, rows) if rows or after != taken.start else None

    def take(self, taken: Range, epoch: int) -> ReadRange | None:
        """Hand over what is ready; None if that is another range."""
        ready = self._prepared
        if ready is None or ready.range != taken:
            return None
        self._prepared = None
        self.consumed = taken.end
        self.number = epoch + 1
        self._uncommitted.append(ready)
        segment = ready.taken.segment
        return replace(ready.taken, segment=segment and replace(segment, lo=epoch, hi=epoch))

    def committed(self, end: Any) -> None:
        """Forget what an epoch has taken, now that it is committed."""
        while self._uncommitted:
            done = self._uncommitted.popleft()
            for batch in done.batches:
                self._consumer.release(batch)
            if done.range.end == end:
                return

    def discard(self) -> None:
        """Remove files that no epoch will name."""
        if self._prepared is not None and self._prepared.taken.segment is not None:
            discard(self.segments.store.root, self._prepared.taken.segment.files)


def _note(part: RowBatch) -> RangeNote:
    return RangeNote.from_json(part.note, part.num_rows)
