"""What can go wrong on the way from a source to an epoch."""

from __future__ import annotations

from typing import ClassVar

from laminar.errors.base import LaminarError


class BridgeError(LaminarError):
    """Rows could not pass from a source to the epochs.

    Catch this to handle every error of a bridge in one place.
    """

    code: ClassVar[str] = "LMR-7000"


class Backpressure(BridgeError):
    """A bridge is full, and its source was asked to pause.

    Nothing was taken, so nothing is lost: send the same rows again once `has_capacity` says so,
    which it does after an epoch. Rows that are pushed with `insert` wait for `step`, or for the
    background loop of `start`.
    """

    code: ClassVar[str] = "LMR-7001"

    def __init__(self, name: str, rows: int, limit: str) -> None:
        super().__init__(
            f'the bridge of "{name}" is full: {rows:,} rows wait for an epoch',
            detail=f"it holds up to {limit}",
            hint="run step or start, then send them again; or raise buffer_rows, or let it spill",
        )
        self.name = name


class BridgeClosed(BridgeError):
    """Rows were sent after the end of the stream.

    Open a new bridge: what follows the end would never be read.
    """

    code: ClassVar[str] = "LMR-7002"

    def __init__(self, name: str) -> None:
        super().__init__(f'the bridge of "{name}" is closed', hint="send nothing after close")
        self.name = name


class SpillCorrupt(BridgeError):
    """A file of rows that did not fit into memory is damaged.

    Restore the file. If that cannot be done, remove it and those after it: a source that can be
    read again is read again from the last committed position.
    """

    code: ClassVar[str] = "LMR-7003"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"damaged spill file: {path}",
            detail=reason,
            hint="restore the file, or remove the folder: the source is then read again",
        )
        self.path = path


class NotRetained(BridgeError):
    """A source that keeps only what its views use was asked for more than that.

    It was declared WITH (retain = 'used'), so rows and columns that no view wants are not stored.
    Query a view over it; create all views before the first rows are read; or declare the source
    without the option.
    """

    code: ClassVar[str] = "LMR-7004"

    def __init__(self, name: str, wanted: str) -> None:
        super().__init__(
            f'source "{name}" keeps only what its views use, and {wanted}',
            hint="query a view instead, or declare the source WITH (retain = 'all')",
        )
        self.name = name


class LoopFailed(BridgeError):
    """The background loop stopped because an epoch kept failing.

    The cause is in the detail. Everything committed before is there, and nothing that was not is
    lost: mend the cause and call `start` again.
    """

    code: ClassVar[str] = "LMR-7005"

    def __init__(self, reason: str, attempts: int) -> None:
        super().__init__(
            f"the background loop has stopped after {attempts} failed attempts",
            detail=reason,
            hint="mend the cause and call start again",
        )
        self.attempts = attempts
