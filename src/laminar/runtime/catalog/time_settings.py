"""What may be set about time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


def wall_clock() -> int:
    """Return milliseconds from 1970."""
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class TimeSettings:
    """Limits of event time; each may be changed while the engine runs."""

    clock: Callable[[], int] = wall_clock
    """The wall clock in milliseconds."""
    future_ms: int = 3_600_000
    """How far ahead of the wall clock a row of a live source may be."""
    late_rows_kept: int = 10_000
    """How many late rows are kept for looking at."""
    idle_timeout_ms: int | None = None
    """After how much silence a source no longer holds back the watermark; None waits forever."""
    aging_rows: int = 100_000
    """How many rows may leave a view in one epoch because time has passed."""
