"""What users say of a bridge: when a batch is closed, and what happens when it is full."""

from __future__ import annotations

from dataclasses import dataclass, field
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


class BackpressureStrategy:
    """What a producer does when the consumer is behind.

    One of `PauseSource`, `DropNewest` and `SpillToDisk`.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class PauseSource(BackpressureStrategy):
    """Take no more, and say so: the source stops polling until there is room. Loses nothing."""


@dataclass(frozen=True, slots=True)
class DropNewest(BackpressureStrategy):
    """Let new rows go. They are counted, and a warning is written once per period."""


@dataclass(frozen=True, slots=True)
class SpillToDisk(BackpressureStrategy):
    """Write new rows to files that survive a crash, and read them back in order."""

    max_spill_bytes: int = 1 << 30
    then: BackpressureStrategy = field(default_factory=PauseSource)
    """What to do when the disk has its share, too."""

    def __post_init__(self) -> None:
        if self.max_spill_bytes < 1:
            raise InvalidSetting("max_spill_bytes", self.max_spill_bytes, "1 or more")
        if isinstance(self.then, SpillToDisk):
            raise InvalidSetting("then", self.then, "PauseSource() or DropNewest()")
