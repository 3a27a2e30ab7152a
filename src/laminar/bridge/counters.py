"""What a bridge has seen."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class BridgeCounters:
    """One bridge since it was opened; `waiting` is what it holds now."""

    sent: int = 0
    """Rows that were taken, in memory or on disk."""
    batches: int = 0
    """Calls that brought them."""
    dropped: int = 0
    """Rows that were let go because the bridge was full."""
    spilled: int = 0
    """Rows that went to disk."""
    spilled_bytes: int = 0
    """Bytes of spill files that are there now."""
    paused_seconds: float = 0.0
    """How long the source had to wait."""
    waiting: int = 0
    """Rows that no epoch has taken yet."""
    waiting_bytes: int = 0
    """Memory that they take."""

    def after(self, past: BridgeCounters) -> BridgeCounters:
        """Return these with what an earlier bridge of the same source has counted."""
        return replace(
            self,
            sent=self.sent + past.sent,
            batches=self.batches + past.batches,
            dropped=self.dropped + past.dropped,
            spilled=self.spilled + past.spilled,
            paused_seconds=self.paused_seconds + past.paused_seconds,
        )
