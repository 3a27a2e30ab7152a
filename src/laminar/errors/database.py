"""What can be wrong with the use of a database as a whole."""

from __future__ import annotations

from typing import ClassVar

from laminar.errors.base import LaminarError


class DatabaseClosed(LaminarError):
    """Something was asked of a database that is closed.

    Open it again with `laminar.connect`; everything committed or inserted before is still there,
    unless the database was a temporary one.
    """

    code: ClassVar[str] = "LMR-5001"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"the database is closed: {path}", hint="open it again with laminar.connect"
        )
        self.path = path


class WriterBusy(LaminarError):
    """Somebody else was writing for as long as this call was ready to wait; it has done nothing.

    One thread at a time changes definitions or runs epochs. The message says who it is and since
    when. Wait for it and call again, or wait longer from the start: `laminar.writer_timeout_ms`.
    """

    code: ClassVar[str] = "LMR-5002"

    def __init__(self, what: str, seconds: float, thread: str = "") -> None:
        super().__init__(
            f"another writer is busy: {what} runs since {seconds:.0f} s",
            detail=f"on the thread {thread}" if thread else "",
            hint="call again when it is done, or raise laminar.writer_timeout_ms",
        )
        self.what = what
        self.seconds = seconds


class TableRedefined(LaminarError):
    """A table was dropped and created otherwise while a call was about to change its rows.

    Another thread did so, or a restore. The rows were made for the columns and the key of before,
    so nothing was changed. Call again: the rows are then checked against the table of now.
    """

    code: ClassVar[str] = "LMR-5004"

    def __init__(self, table: str) -> None:
        super().__init__(
            f'the table "{table}" was defined anew while its rows were about to be changed',
            hint="nothing was changed: call again",
        )
        self.table = table


class WriteWithinEpoch(LaminarError):
    """Code that an epoch runs asked for something that has to wait for the end of that epoch.

    It would wait for itself, so it is refused at once. An operator, and a source that is polled,
    may read the database and insert rows into tables without a key. Steps and statements that
    define something are for whoever runs the epochs: do them after `step`, or in a function that
    was given to `on_epoch`.
    """

    code: ClassVar[str] = "LMR-5003"

    def __init__(self, what: str, node: str) -> None:
        super().__init__(
            f'an epoch would wait for itself: "{node}", which it waits for, asks for {what}',
            hint="do it when the epoch is over, for example in a function given to on_epoch",
        )
        self.what = what
        self.node = node
