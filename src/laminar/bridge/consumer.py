"""The consumer's side of a bridge: messages become batches, in order."""

from __future__ import annotations

from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from laminar.bridge.actions import AdvanceWatermark, Checkpoint, Eof, ProcessBatch, Ring1Action
from laminar.bridge.messages import Barrier, BridgeMessage, End, RowBatch, RowEvent, Watermark
from laminar.bridge.pipeline import PipelineBridge, record_batch
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
        self._latency = self.policy.max_latency.total_seconds()
        self._parts: list[RowBatch] = []
        self._events: list[RowEvent] = []
        self._rows = self._bytes = 0
        self._counted = (0, 0)  # of those, what the bridge counts as being in memory
        self._first_at = 0.0
        self._held: int | None = None  # a watermark that stands behind the open batch
        self._ready: list[Ring1Action] = []
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
        batches = sum(type(each) is ProcessBatch for each in actions)
        while limit is None or batches < limit or self._is_at_mark():
            message = self._channel.pop()
            if message is None:
                break
            before = len(actions)
            self._accept(message, actions)
            batches += sum(type(each) is ProcessBatch for each in actions[before:])
        if self._is_open and (limit is None or batches < limit) and (flush or self._is_old()):
            self._close(actions)
        if limit is not None and batches > limit:
            actions = self._keep_back(actions, limit)
        return actions

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

    def _accept(self, message: BridgeMessage, actions: list[Ring1Action]) -> None:
        match message:
            case RowEvent():
                self._add_event(message, actions)
            case RowBatch(end=None):
                self._add_in_pieces(message, actions)
            case RowBatch():
                self._add_range(message, actions)
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

    def _add_event(self, event: RowEvent, actions: list[Ring1Action]) -> None:
        if self._parts:
            self._close(actions)
        size = self._bridge.row_bytes
        self._note(1, size, event.sent_at, (1, size))
        self._events.append(event)
        self._close_if_full(actions)

    def _add_range(self, batch: RowBatch, actions: list[Ring1Action]) -> None:
        rows, size = batch.rows.num_rows, batch.rows.nbytes
        is_next = bool(self._parts) and self._parts[-1].end == batch.start
        fits = self._rows + rows <= self.policy.max_rows
        fits = fits and self._bytes + size <= self.policy.max_bytes
        if self._is_open and not (is_next and fits):
            self._close(actions)
        self._add_part(batch, size, actions)

    def _add_in_pieces(self, batch: RowBatch, actions: list[Ring1Action]) -> None:
        """Add rows that have no range, so that every batch is as large as the policy says."""
        if self._events or (self._parts and self._parts[-1].end is not None):
            self._close(actions)
        rows: Any = batch.rows
        total, left = rows.num_rows, rows.nbytes
        at = 0
        # Only Arrow can be cut, and a file only be released as a whole.
        if batch.place is None and isinstance(rows, pa.Table | pa.RecordBatch):
            while total - at > (room := self.policy.max_rows - self._rows):
                share = left * room // (total - at)
                self._add_part(batch._replace(rows=rows.slice(at, room)), share, actions)
                at, left = at + room, left - share
        rest = batch._replace(rows=rows.slice(at)) if at else batch
        self._add_part(rest, left, actions)

    def _add_part(self, part: RowBatch, size: int, actions: list[Ring1Action]) -> None:
        rows = part.rows.num_rows
        # A batch that was spilled does not count as being in memory.
        self._note(rows, size, part.sent_at, (rows, size) if part.place is None else (0, 0))
        self._parts.append(part)
        self._close_if_full(actions)

    def _note(self, rows: int, size: int, sent_at: float, counted: tuple[int, int]) -> None:
        if not self._is_open:
            self._first_at = sent_at
        self._rows += rows
        self._bytes += size
        self._counted = (self._counted[0] + counted[0], self._counted[1] + counted[1])

    def _close_if_full(self, actions: list[Ring1Action]) -> None:
        if self._rows >= self.policy.max_rows or self._bytes >= self.policy.max_bytes:
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
            rows = [each.row for each in self._events]
            made = record_batch(rows, self._bridge.schema, self._bridge.name)
            times = [each.event_time for each in self._events if each.event_time is not None]
            keys = [each.key_hash for each in self._events]
            self._parts.append(RowBatch(made, max(times, default=None), keys))
            self._events = []
        if self._parts:
            actions.append(ProcessBatch(tuple(self._parts)))
            self._channel.hand_out(*self._counted)
            self._parts = []
            self._rows = self._bytes = 0
            self._counted = (0, 0)
        if self._held is not None:
            self.current_watermark, self._held = self._held, None
            actions.append(AdvanceWatermark(self.current_watermark))

    def _keep_back(self, actions: list[Ring1Action], limit: int) -> list[Ring1Action]:
        """Keep for the next call what follows the last batch that may be returned."""
        seen = 0
        for at, each in enumerate(actions):
            seen += type(each) is ProcessBatch
            if seen > limit:
                self._ready = actions[at:]
                return actions[:at]
        return actions
