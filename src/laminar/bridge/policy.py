"""When a batch is closed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from laminar.errors import InvalidSetting

MAX_ROWS = 100_000
MAX_BYTES = 64 << 20
MAX_LATENCY = timedelta(milliseconds=20)


@dataclass(frozen=True, slots=True)
class BatchPolicy:
    """A batch is closed by its rows, its bytes, its age or a watermark, whichever comes first.

    The defaults suit Spark. An epoch has a fixed cost of some tenths of a second, whether it
    carries ten rows or ten thousand, so batches of a thousand would spend nearly all time on it;
    at 100,000 rows the rows themselves cost about as much. An age of 20 ms is a tenth of that
    cost: a burst becomes one batch, and nobody sees the wait.
    """

    max_rows: int = MAX_ROWS
    """Close at so many rows; one range of a source is never cut."""
    max_latency: timedelta = MAX_LATENCY
    """Close so long after the first row was sent."""
    flush_on_watermark: bool = True
    """Close before a watermark; otherwise the watermark waits for the batch it stands behind."""
    max_bytes: int = MAX_BYTES
    """Close at so many bytes in memory."""

    def __post_init__(self) -> None:
        for name in ("max_rows", "max_bytes"):
            if getattr(self, name) < 1:
                raise InvalidSetting(name, getattr(self, name), "1 or more")
        if self.max_latency < timedelta(0):
            raise InvalidSetting("max_latency", self.max_latency, "0 or more")
