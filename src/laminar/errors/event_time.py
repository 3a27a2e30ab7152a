"""What can be wrong with event time."""

from __future__ import annotations

from typing import ClassVar

from laminar.errors.sql import SqlError


class EventTimeError(SqlError):
    """Something asks for event time where there is none, or not enough.

    Catch this to handle every error about watermarks and windows in one place.
    """

    code: ClassVar[str] = "LMR-3100"


class NoWatermark(EventTimeError):
    """A relation has no watermark that could move or that a view could wait for.

    Only a source that is declared with WATERMARK FOR has one, and with it all views that carry its
    column of event time on.
    """

    code: ClassVar[str] = "LMR-3101"

    def __init__(self, name: str) -> None:
        super().__init__(
            f'no watermark: "{name}" has no event time',
            hint="declare the source with WATERMARK FOR ts AS ts - INTERVAL '5' SECOND",
        )
        self.name = name


class NoWindow(EventTimeError):
    """A clause waits for windows to close, but the view's query has none.

    The query must group by a window over event time, or by a column of event time. What is done
    with the groups after that, other than choosing and computing columns, belongs into a view of
    its own.
    """

    code: ClassVar[str] = "LMR-3102"

    def __init__(self, view: str, clause: str, reason: str) -> None:
        super().__init__(
            f'view "{view}" has {clause}, but {reason}',
            hint="group by a window over event time, such as TUMBLE(ts, INTERVAL '1' MINUTE)",
        )
        self.view = view
