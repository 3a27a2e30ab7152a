"""The queue of a bridge: one producer, one consumer, and no lock between them.

Every counter has one writer. What is in memory is older than what was spilled: while a spilled
message waits, new ones go behind it. So a consumer that sees one may trust that memory gets no
more until it has taken all of them.
"""

from __future__ import annotations

from collections import deque

from laminar.bridge.messages import Barrier, BridgeMessage, End, RowBatch, Watermark
from laminar.bridge.spill import SpillFile, SpillLog, Step
from laminar.errors import InvalidSetting

_MARKS = (Watermark, Barrier, End)


class Channel:
    """Messages in order, and how many rows and bytes of them wait.

    Args:
        capacity_rows: rows that may wait in memory; None if they lie on disk anyway.
        capacity_bytes: memory that they may take.
        spill: where rows go that do not fit, if anywhere.
    """

    __slots__ = (
        "_behind",
        "_memory",
        "_spill",
        "_steps",
        "bytes_in",
        "bytes_out",
        "capacity_bytes",
        "capacity_rows",
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
        self._memory: deque[BridgeMessage] = deque()
        self._behind: deque[BridgeMessage | SpillFile] = deque()
        self._steps: deque[Step] = deque()  # ranges in memory, from their sending to their release
        self._spill = spill
        self.rows_in = self.bytes_in = 0  # written by the producer alone
        self.rows_out = self.bytes_out = 0  # written by the consumer alone

    @property
    def spill(self) -> SpillLog | None:
        """Where rows go that do not fit."""
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
        return self.rows + sum(
            each.rows for each in tuple(self._behind) if isinstance(each, SpillFile)
        )

    @property
    def is_spilling(self) -> bool:
        """Whether something on disk waits, so that new messages must go behind it."""
        return bool(self._behind)

    def fits(self, rows: int, size: int) -> bool:
        """Whether so much more may wait; a batch that is larger than all goes in alone."""
        if not self.rows_in - self.rows_out:
            return True
        limit, most = self.capacity_rows, self.capacity_bytes
        return (limit is None or self.rows_in - self.rows_out + rows <= limit) and (
            most is None or self.bytes_in - self.bytes_out + size <= most
        )

    # Producer

    def put(self, message: BridgeMessage, rows: int = 0, size: int = 0) -> None:
        """Append a message, behind what was spilled."""
        if self._behind:
            self._behind.append(message)
            return
        if rows:
            self.rows_in += rows
            self.bytes_in += size
        if type(message) is RowBatch and message.end is not None:
            self._steps.append(Step(message.after, message.start, message.end))
        if type(message) is Watermark and self._replaced(message):
            return
        self._memory.append(message)

    def _replaced(self, message: Watermark) -> bool:
        """Put a watermark in the place of one that nothing follows: only the later one matters."""
        try:
            if type(self._memory[-1]) is Watermark:
                self._memory[-1] = message
                return True
        except IndexError:
            pass  # there is none, or the consumer took it in this moment
        return False

    def put_behind(self, batch: RowBatch, limit: int) -> bool:
        """Write a batch to disk, durable on return; False if there is no room for it."""
        assert self._spill is not None
        before = tuple(self._steps) if not self._behind else ()
        file = self._spill.append(batch, before, limit)
        if file is not None:
            self._behind.append(file)
        return file is not None

    def adopt(self, file: SpillFile) -> None:
        """Put a file that an earlier process has left at the end."""
        self._behind.append(file)

    # Consumer

    def next_is_mark(self) -> bool:
        """Whether the oldest message is there and brings no rows."""
        behind = bool(self._behind)
        if self._memory:
            return type(self._memory[0]) in _MARKS
        return behind and type(self._behind[0]) in _MARKS

    def pop(self) -> BridgeMessage | None:
        """Take the oldest message; None if there is none."""
        behind = bool(self._behind)  # looked at first: see the law above
        if self._memory:
            return self._memory.popleft()
        if not behind:
            return None
        assert self._spill is not None
        head = self._behind[0]
        message = self._spill.read(head) if isinstance(head, SpillFile) else head
        self._behind.popleft()
        return message

    def hand_out(self, rows: int, size: int) -> None:
        """Note that rows which were in memory left the bridge."""
        self.rows_out += rows
        self.bytes_out += size

    def release(self, batch: RowBatch) -> None:
        """Forget a batch for good: its epoch is committed."""
        if batch.place is not None:
            assert self._spill is not None
            self._spill.remove(batch.place)
        elif batch.end is not None and self._steps:
            self._steps.popleft()
