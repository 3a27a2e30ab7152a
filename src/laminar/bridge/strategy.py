"""What a producer does when the consumer is behind."""

from __future__ import annotations

from dataclasses import dataclass, field

from laminar.errors import InvalidSetting


class BackpressureStrategy:
    """One of `PauseSource`, `DropNewest` and `SpillToDisk`."""

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
