"""The queue of a bridge: one producer, one consumer, and no lock between them.

Every counter has one writer. What is in memory is older than what was spilled: while a spilled
message waits, new ones go behind it. So a consumer that sees one may trust that memory gets no
more until it has taken all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TypeVar

from laminar.bridge.messages import Barrier, BridgeMessage, End, RowBatch, Step, Watermark
from laminar.bridge.spill import SpillFile, SpillLog
from laminar.errors import InvalidSetting

_MARKS = (Watermark, Barrier, End)
_T = TypeVar("_T")
_new = tuple.__new__  # a named tuple at half the cost


class Channel:
    """Messages in order, and how many rows and bytes of them wait.

    Args:
        capacity_rows: rows that may wait in memory; None if they lie on disk anyway.
        capacity_bytes: memory that they may take.
        spill: where rows go that do not fit, if anywhere.
    """

    __slots__ = (
        "_behind",
        "_spill",
        "_spilled_in",
        "_spilled_out",
        "_steps",
        "bytes_in",
        "bytes_out",
        "capacity_bytes",
        "capacity_rows",
        "memory",
        "rows_in",
        "rows_out",
    )

    def __init__(
        self, capacity_rows: int | None, capacity_bytes: int | None, spill: SpillLog | None = None
    ) -> None:
        for name, given in (("capacity_rows", capacity_rows), ("capacity_bytes", capacity_bytes)):
            if given is not None and given < 1:
                raise InvalidSetting(name, given, "1 or more, or None")
        self.capacity_rows = capacity_rows
        self.capacity_bytes = capacity_bytes
        self.memory: deque[BridgeMessage] = deque()
        self._behind: deque[BridgeMessage | SpillFile] = deque()
        self._steps: deque[Step] = deque()  # ranges in memory, from their sending to their release
        self._spill = spill
        self.rows_in = self.bytes_in = 0  # written by the producer alone
        self.rows_out = self.bytes_out = 0  # written by the consumer alone
        self._spilled_in = 0  # rows; written by the producer alone
        self._spilled_out = 0  # written by the consumer alone

    @property
    def spill(self) -> SpillLog | None:
        """The log on disk for rows that do not fit; None if the strategy has none."""
        return self._spill

    @property
    def rows(self) -> int:
        """Rows in memory that were not handed out."""
        return self.rows_in - self.rows_out

    @property
    def bytes(self) -> int:
        """Bytes in memory that were not handed out."""
        return self.bytes_in - self.bytes_out

    @property
    def waiting(self) -> int:
        """Rows that were not handed out, on disk too."""
        return self.rows + self._spilled_in - self._spilled_out

    @property
    def is_spilling(self) -> bool:
        """Whether something on disk waits, so that new messages must go behind it."""
        return bool(self._behind)

    def fits(self, rows: int, size: int) -> bool:
        """Whether so much more may wait; a batch that is larger than all goes in alone."""
        waiting = self.rows_in - self.rows_out
        if not waiting:
            return True
        limit, most = self.capacity_rows, self.capacity_bytes
        return (limit is None or waiting + rows <= limit) and (
            most is None or self.bytes_in - self.bytes_out + size <= most
        )

    def room(self, row_bytes: int, most: int) -> int:
        """Return how many single rows surely fit; the consumer can only make it more."""
        if self._behind:
            return 0
        if self.capacity_rows is not None:
            most = min(most, self.capacity_rows - self.rows)
        if self.capacity_bytes is not None and row_bytes:
            most = min(most, (self.capacity_bytes - self.bytes) // row_bytes)
        return max(most, 0)

    # Producer

    def put(self, batch: RowBatch) -> None:
        """Append rows to those in memory; they stand behind what was spilled."""
        self.rows_in += batch.num_rows
        self.bytes_in += batch.size
        if self._behind:
            self._behind.append(batch)
            return
        if batch.end is not None:
            self._steps.append(Step(batch.after, batch.start, batch.end))
        self.memory.append(batch)

    def put_mark(self, mark: Barrier | End) -> None:
        """Append a barrier or the end, behind all rows that were sent, those on disk too."""
        (self._behind or self.memory).append(mark)

    def put_watermark(self, timestamp: int) -> None:
        """Append a watermark, or raise one that nothing follows: only the higher one matters."""
        if self._behind:
            self._behind.append(Watermark(timestamp))
            return
        memory, mark = self.memory, _new(Watermark, (timestamp,))
        try:
            last = memory[-1]
            if type(last) is Watermark:
                if timestamp > last.timestamp:
                    memory[-1] = mark
                return
        except IndexError:
            pass  # there is none, or the consumer took it in this moment
        memory.append(mark)

    def put_behind(self, batch: RowBatch, limit: int) -> bool:
        """Write a batch to disk, durable on return; False if there is no room for it."""
        assert self._spill is not None
        before = _snapshot(self._steps) if not self._behind else ()
        file = self._spill.append(batch, before, limit)
        if file is None:
            return False
        self.adopt(file)
        return True

    def adopt(self, file: SpillFile) -> None:
        """Put a file at the end, which may be one that an earlier process has left."""
        self._spilled_in += file.rows
        self._behind.append(file)

    # Consumer

    def next_is_mark(self) -> bool:
        """Whether the oldest message is there and brings no rows."""
        behind = bool(self._behind)
        if self.memory:
            return type(self.memory[0]) in _MARKS
        return behind and type(self._behind[0]) in _MARKS

    def pop(self) -> BridgeMessage | None:
        """Take the oldest message; None if there is none."""
        behind = bool(self._behind)  # looked at first: see the law above
        if self.memory:
            return self.memory.popleft()
        if not behind:
            return None
        assert self._spill is not None
        head = self._behind[0]
        if not isinstance(head, SpillFile):
            self._behind.popleft()
            return head
        batch = self._spill.read(head)
        self._behind.popleft()
        self._spilled_out += head.rows
        return batch

    def release(self, batch: RowBatch) -> None:
        """Forget a batch for good: its epoch is committed."""
        if batch.place is not None:
            assert self._spill is not None
            self._spill.remove(batch.place)
        elif batch.end is not None and self._steps:
            self._steps.popleft()


def _snapshot(queue: Iterable[_T]) -> tuple[_T, ...]:
    """Copy a queue that the other side may change meanwhile."""
    while True:
        try:
            return tuple(queue)
        except RuntimeError:  # it changed while it was copied
            continue
