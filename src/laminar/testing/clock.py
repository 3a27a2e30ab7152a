"""A wall clock that moves when a test says so."""

from __future__ import annotations

from datetime import UTC, datetime


class ManualClock:
    """Stands still until it is moved; gives milliseconds from 1970, as the engine's clock does."""

    def __init__(self, start: datetime) -> None:
        aware = start if start.tzinfo is not None else start.replace(tzinfo=UTC)
        self._now_ms = int(aware.timestamp() * 1000)

    def __call__(self) -> int:
        """Return the time it stands at."""
        return self._now_ms

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now_ms += round(seconds * 1000)
