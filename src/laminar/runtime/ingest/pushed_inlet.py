"""The way in for rows that are pushed: durable in the pending log, then through the bridge.

They lie in files from the start, so nothing of them is in memory while they wait, and a strategy
that spills finds them spilled already.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from laminar.bridge import (
    AdvanceWatermark,
    BridgeConsumer,
    BridgeCounters,
    PipelineBridge,
    ProcessBatch,
    SpillToDisk,
)
from laminar.model.row_counts import Skipped
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.catalog.source_options import InletOptions
from laminar.runtime.ingest.arriving_rows import RowTimes, numbered
from laminar.runtime.ingest.inlet import InletContext
from laminar.runtime.ingest.read_range import RangeNote, ReadRange, SegmentWriter, concatenated
from laminar.store import PendingBatch, PendingLog, Range


@dataclass(frozen=True, slots=True)
class PendingRows:
    """Rows in a file of the pending log."""

    batch: PendingBatch
    size: int

    @property
    def num_rows(self) -> int:
        """How many there are."""
        return self.batch.rows

    @property
    def nbytes(self) -> int:
        """None of them is in memory."""
        return 0


class PushedInlet:
    """Rows of one table, from the users who push them to the epochs."""

    source = None

    def __init__(
        self,
        definition: TableDefinition,
        options: InletOptions,
        context: InletContext,
        pending: PendingLog,
        position: int,
    ) -> None:
        self.definition = definition
        self.options = options
        self.error: Exception | None = None
        self._context = context
        self._pending = pending
        times = RowTimes.of(definition, None, context.settings)
        self._segments = SegmentWriter(definition, context.store, times)
        self._lock = threading.Lock()
        self._past = BridgeCounters()
        self._told: deque[tuple[int, int]] = deque()  # end of a range, rows dropped before it
        self._told_of = 0
        self._is_closed = False
        self._open(position)

    def _open(self, position: int) -> None:
        self.bridge = PipelineBridge(
            self.definition.name,
            capacity_rows=self.options.buffer_rows,
            capacity_bytes=None,
            # It is never asked to write: what is pushed is in the pending log by then.
            strategy=None
            if isinstance(self.options.strategy, SpillToDisk)
            else self.options.strategy,
            clock=self._context.clock,
        )
        self._consumer = BridgeConsumer(self.bridge, self.options.policy)
        self._position = position
        self._ready: list[ProcessBatch] = []
        self._bytes = 0
        for batch in self._pending.after(self.definition.name, position):
            self._send(batch)

    def admit(self, rows: int) -> bool:
        """Whether rows may be pushed now; False if they are to be dropped, which is counted.

        Raises:
            Backpressure: there is no room, and nothing may be dropped.
        """
        strategy = self.options.strategy
        with self._lock:
            if isinstance(strategy, SpillToDisk):
                if self._bytes < strategy.max_spill_bytes:
                    return True
                strategy = strategy.then
            elif self.bridge.channel.fits(rows, 0):
                return True
            return self.bridge.refuse(rows, strategy)

    def push(self, data: pa.Table) -> bool:
        """Keep rows and let them in; on return they survive a crash. False if it is closed."""
        with self._lock:
            if self._is_closed:
                return False
            seq = self._pending.append(self.definition.name, data)
            for batch in self._pending.after(self.definition.name, seq - 1):
                self._send(batch)
        self._context.wake()
        return True

    def _send(self, batch: PendingBatch) -> None:
        size = batch.path.stat().st_size
        self._bytes += size
        self.bridge.send_batch(
            PendingRows(batch, size), start=batch.seq - 1, end=batch.seq, force=True
        )

    def begin(self, *, ahead: bool) -> None:
        """There is nothing to read: rows are here when they are pushed."""

    def pump(self) -> None:
        """There is nothing to poll."""

    def say(self, watermark: int) -> None:
        """Send a watermark behind all rows that were pushed so far."""
        with self._lock:
            self.bridge.send_watermark(watermark)

    def cut(self, epoch: int, *, whole: bool, until: int | None = None) -> Range | None:
        """Return the range that an epoch may take; see `Inlet.cut`."""
        with self._lock:
            if whole:
                self.bridge.send_checkpoint(epoch)
            while whole or not self._ready:
                actions = self._consumer.drain(limit=1)
                if not actions:
                    break
                self._ready += [each for each in actions if isinstance(each, ProcessBatch)]
                marks = [each.timestamp for each in actions if isinstance(each, AdvanceWatermark)]
                if until is not None and max(marks, default=until - 1) >= until:
                    break
            if not self._ready:
                return None
            return Range(self.definition.name, self._position, self._ready[-1].end)

    @property
    def consumed(self) -> int | None:
        """Where the last range ended that an epoch took; None if it took none."""
        return self._position or None

    def take(self, taken: Range, epoch: int, now_ms: int) -> ReadRange:
        """Hand over a range; one that no `cut` returned is a replay's, and waits in the log too."""
        batches = self._pending.between(taken.table, taken.start, taken.end)
        rows = concatenated([numbered(each.read(), each.seq) for each in batches])
        marks = self._segments.times.largest(rows, now_ms)
        prefix = self._context.pruning.stage(self.definition)
        kept = rows if prefix is None else prefix(rows)
        done = self._segments.write(epoch, kept, marks, now_ms=now_ms)
        note = RangeNote(marks, rows.num_rows, rows.num_rows - kept.num_rows)
        self._go_on_after(taken)
        return done.counted(note)

    def skipped(self, taken: Range) -> Skipped | None:
        """Return how many rows were let go since the last range that was taken."""
        with self._lock:
            rows = self.counters.dropped - self._told_of
            self._told_of += rows
            self._told.append((taken.end, rows))
        return Skipped(taken.start, rows) if rows else None

    def _go_on_after(self, taken: Range) -> None:
        with self._lock:
            if not self._ready or self._ready[-1].end != taken.end:
                self._restart(taken.end)
                return
            parts = [part.rows for batch in self._ready for part in batch.parts]
            self._bytes -= sum(part.size for part in parts if isinstance(part, PendingRows))
            self._ready = []
            self._position = taken.end

    def committed(self, end: Any) -> None:
        """Forget what was dropped before; the log forgets rows once no replay can ask for them."""
        with self._lock:
            while self._told and self._told[0][0] <= end:
                self._told.popleft()

    @property
    def deadline(self) -> float | None:
        """When the open batch will be old enough."""
        return self._consumer.deadline

    @property
    def counters(self) -> BridgeCounters:
        """What went through."""
        return self.bridge.counters.after(self._past)

    def restart(self, position: Any, epoch: int) -> None:  # noqa: ARG002
        """Go on from a committed position."""
        with self._lock:
            self._told_of -= sum(rows for _, rows in self._told)
            self._told.clear()
            self._restart(position or 0)

    def _restart(self, position: int) -> None:
        past = self.counters
        self._open(position)
        again = self.bridge.counters
        self._past = replace(
            past, sent=past.sent - again.sent, batches=past.batches - again.batches
        )

    def close(self) -> None:
        """Take no more."""
        with self._lock:
            self._is_closed = True
            self.bridge.close()
