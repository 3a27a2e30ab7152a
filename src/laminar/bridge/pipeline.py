"""The producer's side of a bridge."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from laminar.bridge.channel import Channel
from laminar.bridge.columns import record_batch, row_bytes
from laminar.bridge.counters import BridgeCounters
from laminar.bridge.messages import Barrier, End, RowBatch, RowEvent, Rows, size_of
from laminar.bridge.policy import BackpressureStrategy, DropNewest, PauseSource, SpillToDisk
from laminar.bridge.spill import SpillFile, SpillLog
from laminar.errors import Backpressure, BridgeClosed, InvalidSetting

CAPACITY_ROWS = 200_000
CAPACITY_BYTES = 128 << 20
WARN_EVERY = 60.0

_LOOK_AFTER = 1024  # single rows: how much room there is need not be known before each
_new = tuple.__new__  # a named tuple at half the cost
_log = logging.getLogger("laminar.bridge")


class PipelineBridge:
    """Takes rows, watermarks and barriers in order, up to a bound of rows and bytes.

    Law: messages leave in the order in which they were sent. What was sent with success is handed
    out once; what was not taken, because the bridge was full, is counted as dropped or raised as
    `Backpressure`. Only rows count against the bound: a watermark always passes.

    One thread sends and one thread consumes. A batch that is larger than the whole bridge is taken
    when the bridge is empty.

    Args:
        name: whose rows these are, for messages.
        schema: of rows that are sent one by one.
        capacity_rows: rows that may wait in memory; None for no bound.
        capacity_bytes: memory that they may take; None for no bound.
        strategy: what to do when it is full.
        spill: where `SpillToDisk` writes.
        clock: seconds, never going back.
        warn_every: seconds between two warnings about dropped rows.
    """

    def __init__(
        self,
        name: str = "bridge",
        *,
        schema: pa.Schema | None = None,
        capacity_rows: int | None = CAPACITY_ROWS,
        capacity_bytes: int | None = CAPACITY_BYTES,
        strategy: BackpressureStrategy | None = None,
        spill: SpillLog | None = None,
        clock: Callable[[], float] = time.monotonic,
        warn_every: float = WARN_EVERY,
    ) -> None:
        self.name = name
        self.schema = schema
        self.strategy = strategy or PauseSource()
        if isinstance(self.strategy, SpillToDisk) and spill is None:
            raise InvalidSetting("spill", None, "a SpillLog, for SpillToDisk writes to it")
        self.channel = Channel(capacity_rows, capacity_bytes, spill)
        self.clock = clock
        self.row_bytes = 0 if schema is None else row_bytes(schema)
        """What a row that is sent alone is taken to have."""
        self.latest: int | None = None
        """The largest event time that was sent, in microseconds from 1970."""
        self._room = 0  # single rows that surely fit, so that nobody needs to look
        # A source that may drop never has to wait, and one that spills only for the disk.
        last, self._most_spilled = self.strategy, None
        if isinstance(self.strategy, SpillToDisk):
            last, self._most_spilled = self.strategy.then, self.strategy.max_spill_bytes
        self._goes_on = isinstance(last, DropNewest)
        self._warn_every = warn_every
        self._warned_at: float | None = None
        self._warned_of = 0
        self._batches = self._batched = self._dropped = self._spilled = 0
        self._paused = 0.0
        self._paused_at: float | None = None
        self._position: Any = None
        self._closed = False

    # Rows

    def send_event(
        self, row: Sequence[Any] | Mapping[str, Any], event_time: int | None = None
    ) -> bool:
        """Send one row: its values in the order of the schema, or by name.

        Returns:
            Whether it was taken; False means that it was dropped.

        Raises:
            Backpressure: the bridge is full; send it again later.
        """
        if not self._room and not self._has_room():
            return self.send_batch(self._one(row), event_time=event_time)
        self._room -= 1
        if event_time is not None and (self.latest is None or event_time > self.latest):
            self.latest = event_time
        channel = self.channel
        channel.rows_in += 1
        channel.bytes_in += self.row_bytes
        channel.memory.append(_new(RowEvent, (row, event_time, self.clock())))
        return True

    def _has_room(self) -> bool:
        """Look how many single rows fit now; an odd one goes the way of a batch."""
        if self._closed:
            raise BridgeClosed(self.name)
        self._room = self.channel.room(self.row_bytes, _LOOK_AFTER)
        if self._room:
            self._resumed()
        return self._room > 0

    def send_batch(
        self,
        rows: Rows,
        *,
        event_time: int | None = None,
        start: Any = None,
        end: Any = None,
        note: Any = None,
        force: bool = False,
    ) -> bool:
        """Send rows that belong together; see `send_event`.

        Args:
            rows: an Arrow table or record batch, or a handle of stored rows.
            event_time: the largest among them.
            start: where their range begins, if they have one.
            end: where it ends.
            note: a JSON value for the consumer.
            force: take them although it is full, for what is kept elsewhere cannot be refused.
        """
        if self._closed:
            raise BridgeClosed(self.name)
        channel, self._room = self.channel, 0
        count, size = rows.num_rows, size_of(rows)
        batch = _new(
            RowBatch,
            (rows, count, size, event_time, start, end, self._position, self.clock(), note, None),
        )
        if force or (channel.fits(count, size) and not channel.is_spilling):
            channel.put(batch)
            is_taken = True
        else:
            is_taken = self._overflowed(self.strategy, batch)
        if event_time is not None and (self.latest is None or event_time > self.latest):
            self.latest = event_time
        if not is_taken:
            return False
        if self._paused_at is not None:
            self._resumed()
        self._batches += 1
        self._batched += count
        if end is not None:
            self._position = end
        return True

    def _overflowed(self, strategy: BackpressureStrategy, batch: RowBatch) -> bool:
        """Do with a batch that does not fit what the strategy says; whether it was taken."""
        if isinstance(strategy, SpillToDisk):
            if not isinstance(batch.rows, pa.Table | pa.RecordBatch):
                strategy = PauseSource()  # a handle: its rows are on disk already
            elif self.channel.put_behind(batch, strategy.max_spill_bytes):
                self._spilled += batch.num_rows
                return True
            else:
                strategy = strategy.then
        return self.refuse(batch.num_rows, strategy)

    def refuse(self, rows: int, strategy: BackpressureStrategy) -> bool:
        """Count rows that are let go, and return False; or raise, to make the source pause."""
        if not isinstance(strategy, DropNewest):
            self.pause()
            raise Backpressure(self.name, self.channel.waiting, self._limit())
        self._dropped += rows
        now = self.clock()
        if self._warned_at is None or now - self._warned_at >= self._warn_every:
            _log.warning(
                "rows dropped because the bridge is full",
                extra={"source": self.name, "rows": self._dropped - self._warned_of},
            )
            self._warned_at, self._warned_of = now, self._dropped
        return False

    # Order

    def send_watermark(self, timestamp: int) -> bool:
        """Say that no row before this time follows, in microseconds from 1970."""
        if self._closed:
            raise BridgeClosed(self.name)
        self.channel.put_watermark(timestamp)
        return True

    def send_checkpoint(self, epoch: int) -> bool:
        """Say that all rows sent before belong to this epoch."""
        if self._closed:
            raise BridgeClosed(self.name)
        self.channel.put_mark(Barrier(epoch))
        return True

    def close(self) -> None:
        """Say that nothing follows; rows that wait are handed out all the same."""
        if not self._closed:
            self.channel.put_mark(End())
            self._closed, self._room = True, 0

    # Capacity

    def has_capacity(self) -> bool:
        """Whether the source should go on: the next batch, if it is small, will be taken."""
        if self._room or self._goes_on:
            return True
        if self._most_spilled is None:
            return self.channel.fits(1, 0)
        spill = self.channel.spill
        return spill is None or spill.bytes < self._most_spilled

    def pause(self) -> None:
        """Note that the source waits, until the next batch is taken."""
        if self._paused_at is None:
            self._paused_at, self._room = self.clock(), 0

    def _resumed(self) -> None:
        if self._paused_at is not None:
            self._paused += self.clock() - self._paused_at
            self._paused_at = None

    @property
    def is_paused(self) -> bool:
        """Whether the source waits because there was no room."""
        return self._paused_at is not None

    def go_on_from(self, position: Any) -> None:
        """Say where the rows so far end; the next batch comes after."""
        self._position = position

    def adopt(self, file: SpillFile) -> None:
        """Go on behind a batch that an earlier process has spilled."""
        self._room = 0
        self.channel.adopt(file)
        self._position = file.step.end
        if file.event_time is not None:
            known = self.latest
            self.latest = file.event_time if known is None else max(known, file.event_time)

    @property
    def counters(self) -> BridgeCounters:
        """What was sent since it was opened, and what waits now."""
        spill = self.channel.spill
        since = 0.0 if self._paused_at is None else self.clock() - self._paused_at
        sent = self.channel.rows_in + self._spilled
        return BridgeCounters(
            sent,
            self._batches + sent - self._batched,  # a single row is a call of its own
            self._dropped,
            self._spilled,
            0 if spill is None else spill.bytes,
            self._paused + since,
            self.channel.waiting,
            self.channel.bytes,
        )

    def _one(self, row: Sequence[Any] | Mapping[str, Any]) -> pa.RecordBatch:
        return record_batch([row], self.schema, self.name)

    def _limit(self) -> str:
        rows, size = self.channel.capacity_rows, self.channel.capacity_bytes
        found = [f"{rows:,} rows"] if rows is not None else []
        found += [f"{size:,} bytes"] if size is not None else []
        return " and ".join(found)
