"""What may be chosen about checkpoints and about recovery."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import ClassVar

from laminar.dag.barrier import BarrierType
from laminar.errors.dag import InvalidSetting


@dataclass(frozen=True, slots=True)
class DagCheckpointConfig:
    """When checkpoints are taken, and how; times in seconds."""

    interval: float | None = 30.0
    """None takes them only when asked."""
    barrier_type: BarrierType = BarrierType.ALIGNED
    alignment_timeout: float = 60.0
    """After this a checkpoint that some node has not reported to is given up."""
    incremental: bool = True
    """Keep only segments that the checkpoint before does not have."""
    max_concurrent: int = 2
    retained: int = 3
    """How many complete checkpoints are kept."""
    copies: bool = False
    """Copy segments instead of linking them: twice the room, safe from a damaged disk block."""

    def __post_init__(self) -> None:
        if self.interval is not None and self.interval <= 0:
            raise InvalidSetting("interval", self.interval, "more than 0, or None")
        if self.alignment_timeout <= 0:
            raise InvalidSetting("alignment_timeout", self.alignment_timeout, "more than 0")
        for name in ("max_concurrent", "retained"):
            if getattr(self, name) < 1:
                raise InvalidSetting(name, getattr(self, name), "1 or more")


@dataclass(frozen=True, slots=True)
class RecoveryMode:
    """Which state to open: the newest that is whole, or that of one checkpoint.

    Write `RecoveryMode.Latest` or `RecoveryMode.Specific(3)`.
    """

    checkpoint_id: int | None = None

    Latest: ClassVar[RecoveryMode]

    @staticmethod
    def Specific(checkpoint_id: int) -> RecoveryMode:  # noqa: N802 - the name it is specified by
        """Return the mode that goes back to one checkpoint and sets later history aside."""
        return RecoveryMode(checkpoint_id)


RecoveryMode.Latest = RecoveryMode()


@dataclass(frozen=True, slots=True)
class RecoveryConfig:
    """Which state a database opens with, and how that is verified."""

    mode: RecoveryMode = field(default_factory=lambda: RecoveryMode.Latest)
    parallelism: int = field(default_factory=lambda: os.cpu_count() or 1)
    """Threads that verify and restore files side by side."""
    target_recovery_time: float = 5.0
    """Seconds; recovery that took longer says so in the log (`laminar.recovery`)."""

    def __post_init__(self) -> None:
        if self.parallelism < 1:
            raise InvalidSetting("parallelism", self.parallelism, "1 or more")
        if self.target_recovery_time <= 0:
            raise InvalidSetting("target_recovery_time", self.target_recovery_time, "more than 0")
