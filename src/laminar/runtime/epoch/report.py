"""What an epoch did, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class ViewReport:
    """What an epoch did to one view."""

    name: str
    rows_out: int
    duration_ms: float
    strategy: str
    from_epoch: int = 0
    """The epoch it was at before."""
    to_epoch: int = 0
    """The epoch it is at now; more than one further, if it had stayed behind."""


@dataclass(frozen=True, slots=True)
class HeldReport:
    """A view that an epoch went without."""

    name: str
    cursor: int
    """The epoch it stays at."""
    reason: str
    is_failure: bool = False
    """Whether it was tried, and failed itself."""


@dataclass(frozen=True, slots=True)
class EpochReport:
    """What a committed epoch took in, and what became of the views."""

    epoch: int
    rows_in: int
    duration_ms: float
    views: Mapping[str, ViewReport] = field(default_factory=dict)
    late_rows: Mapping[str, int] = field(default_factory=dict)
    held: Mapping[str, HeldReport] = field(default_factory=dict)
    """Views that stay behind, and why."""

    def to_json(self, started_at: datetime) -> dict[str, Any]:
        """Return plain values for the manifest, by which the history of refreshes is told."""
        return {
            "rows_in": self.rows_in,
            "duration_ms": round(self.duration_ms, 3),
            "started_at": started_at.isoformat(),
            "views": [asdict(each) for each in self.views.values()],
            "held": [asdict(each) for each in self.held.values()],
        }
