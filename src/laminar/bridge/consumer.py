"""The consumer's side of a bridge: messages become batches, in order."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from laminar.bridge.columns import record_batch
from laminar.bridge.messages import (
    AdvanceWatermark,
    Barrier,
    BridgeMessage,
    Checkpoint,
    End,
    Eof,
    ProcessBatch,
    Ring1Action,
    RowBatch,
    RowEvent,
    Watermark,
)
from laminar.bridge.pipeline import PipelineBridge
from laminar.bridge.policy import BatchPolicy


class BridgeConsumer:
    """Forms batches by a policy.

    Law: the rows of all batches are the rows that were sent, in order, and an action stands behind
    every row that was sent before its message. Watermarks never go back.

    A range of a source is never cut, and a batch never spans rows that were dropped: so a batch is
    one range, which can be read again.
    """

    def __init__(self, bridge: PipelineBridge, policy: BatchPolicy | None = None) -> None:
        self.policy = policy or BatchPolicy()
        self._bridge = bridge
        self._channel = bridge.channel
        self._max_rows = self.policy.max_rows
        self._max_bytes = self.policy.max_bytes
        self._latency = self.policy.max_latency.total_seconds()
        self._parts: list[RowBatch] = []
        self._events: list[RowEvent] = []
        self._rows = self._bytes = 0
        self._spilled_rows = self._spilled_bytes = 0  # of those, what was not in memory before
        self._first_at = 0.0
        self._held: int | None = None  # a watermark that stands behind the open batch
        self._ready: list[Ring1Action] = []
        self._formed = 0  # batches among the actions of the call that runs
        self.current_watermark: int | None = None
        """The last that was handed out."""

    def drain(self, *, limit: int | None = None, flush: bool = False) -> list[Ring1Action]:
        """Return what there is to do now; rows that no rule has closed yet stay.

        Args:
            limit: how many batches at most, with the marks right behind the last of them; the rest
                stays in the bridge, within its bound.
            flush: close the last batch, whatever the policy says.
        """
        actions, self._ready = self._ready, []
        self._formed = sum(type(each) is ProcessBatch for each in actions) if actions else 0
        try:
            self._advance(actions, limit)
            is_last = limit is None or self._formed < limit
            if self._is_open and is_last and (flush or self._is_old()):
                self._close(actions)
        except BaseException:
            self._ready = actions  # a spill file that cannot be read takes nothing else with it
            raise
        if limit is not None and self._formed > limit:
            actions = self._keep_back(actions, limit)
        return actions

    def _advance(self, actions: list[Ring1Action], limit: int | None) -> None:
        memory, pop = self._channel.memory, self._channel.pop
        while limit is None or self._formed < limit or self._is_at_mark():
            message = memory.popleft() if memory else pop()
            if type(message) is RowBatch:
                self._add_batch(message, actions)
            elif type(message) is RowEvent:
                self._add_events(message, actions)
            elif message is not None:
                self._add_mark(message, actions)
            else:
                return

    def _is_at_mark(self) -> bool:
        return not self._is_open and self._channel.next_is_mark()

    @property
    def deadline(self) -> float | None:
        """When the open batch will be old enough, by the bridge's clock; None without one."""
        return self._first_at + self._latency if self._is_open else None

    @property
    def _is_open(self) -> bool:
        """Whether there is a batch to close; one without rows still moves the position."""
        return bool(self._parts or self._events)

    def release(self, batch: ProcessBatch) -> None:
        """Forget a batch for good; one that was spilled is only now gone from disk."""
        for part in batch.parts:
            self._channel.release(part)

    def _add_mark(self, message: BridgeMessage, actions: list[Ring1Action]) -> None:
        match message:
            case Watermark(timestamp):
                self._hold(timestamp)
                if self.policy.flush_on_watermark or not self._is_open:
                    self._close(actions)
            case Barrier(epoch):
                self._close(actions)
                actions.append(Checkpoint(epoch))
            case End():
                self._close(actions)
                actions.append(Eof())

    def _add_events(self, event: RowEvent, actions: list[Ring1Action]) -> None:
        """Add a row, and those right behind it that belong to the same batch."""
        if self._parts:
            self._close(actions)
        events, memory, each = self._events, self._channel.memory, self._bridge.row_bytes
        if not events:
            self._first_at = event.sent_at
        room = self._max_rows - self._rows
        if each:
            room = min(room, -((self._bytes - self._max_bytes) // each))  # rounded up
        added = 1
        events.append(event)
        while added < room and memory and type(following := memory[0]) is RowEvent:
            memory.popleft()
            events.append(following)
            added += 1
        self._rows += added
        self._bytes += added * each
        if added >= room:
            self._close(actions)

    def _add_batch(self, batch: RowBatch, actions: list[Ring1Action]) -> None:
        parts = self._parts
        if (
            batch.num_rows >= self._max_rows
            and batch.end is not None
            and batch.place is None
            and not parts
            and not self._events
            and self._held is None
        ):  # it passes as it is
            actions.append(ProcessBatch((batch,)))
            self._formed += 1
            self._channel.rows_out += batch.num_rows
            self._channel.bytes_out += batch.size
            return
        if batch.end is None:
            if self._events or (parts and parts[-1].end is not None):
                self._close(actions)
            batch = self._cut(batch, actions)
        elif self._events or (parts and not self._goes_on_with(batch)):
            self._close(actions)
        self._add_part(batch, actions)

    def _goes_on_with(self, batch: RowBatch) -> bool:
        """Whether a range belongs to the open batch: it is never cut, and a batch is one range."""
        return (
            self._parts[-1].end == batch.start
            and self._rows + batch.num_rows <= self._max_rows
            and self._bytes + batch.size <= self._max_bytes
        )

    def _cut(self, batch: RowBatch, actions: list[Ring1Action]) -> RowBatch:
        """Add rows that have no range in pieces, as large as the policy says; return the rest."""
        rows: Any = batch.rows
        # Only Arrow can be cut, and a file only be released as a whole.
        if batch.place is not None or not isinstance(rows, pa.Table | pa.RecordBatch):
            return batch
        at, total, left = 0, batch.num_rows, batch.size
        while total - at > (room := self._max_rows - self._rows):
            share = left * room // (total - at)
            piece = batch._replace(rows=rows.slice(at, room), num_rows=room, size=share)
            self._add_part(piece, actions)
            at, left = at + room, left - share
        return batch._replace(rows=rows.slice(at), num_rows=total - at, size=left) if at else batch

    def _add_part(self, part: RowBatch, actions: list[Ring1Action]) -> None:
        if not self._parts:
            self._first_at = part.sent_at
        self._rows += part.num_rows
        self._bytes += part.size
        if part.place is not None:
            self._spilled_rows += part.num_rows
            self._spilled_bytes += part.size
        self._parts.append(part)
        if self._rows >= self._max_rows or self._bytes >= self._max_bytes:
            self._close(actions)

    def _is_old(self) -> bool:
        return self._bridge.clock() - self._first_at >= self._latency

    def _hold(self, timestamp: int) -> None:
        known = self.current_watermark if self._held is None else self._held
        if known is None or timestamp > known:
            self._held = timestamp

    def _close(self, actions: list[Ring1Action]) -> None:
        """End the open batch, then let the watermark pass that stands behind it."""
        if self._events:
            self._parts, self._events = [self._columns(self._events)], []
        if self._parts:
            actions.append(ProcessBatch(tuple(self._parts)))
            self._formed += 1
            self._channel.rows_out += self._rows - self._spilled_rows
            self._channel.bytes_out += self._bytes - self._spilled_bytes
            self._parts = []
            self._rows = self._bytes = self._spilled_rows = self._spilled_bytes = 0
        if self._held is not None:
            self.current_watermark, self._held = self._held, None
            actions.append(AdvanceWatermark(self.current_watermark))

    def _columns(self, events: list[RowEvent]) -> RowBatch:
        made = record_batch([each.row for each in events], self._bridge.schema, self._bridge.name)
        times = [each.event_time for each in events if each.event_time is not None]
        return RowBatch(made, len(events), self._bytes, max(times, default=None))

    def _keep_back(self, actions: list[Ring1Action], limit: int) -> list[Ring1Action]:
        """Keep for the next call what follows the last batch that may be returned."""
        seen = 0
        for at, each in enumerate(actions):
            seen += type(each) is ProcessBatch
            if seen > limit:
                self._ready = actions[at:]
                return actions[:at]
        return actions
