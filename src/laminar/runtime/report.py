"""What an epoch did, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ViewReport:
    """One view's part of an epoch."""

    name: str
    rows_out: int
    duration_ms: float
    strategy: str


@dataclass(frozen=True, slots=True)
class EpochReport:
    """A committed epoch."""

    epoch: int
    rows_in: int
    duration_ms: float
    views: Mapping[str, ViewReport] = field(default_factory=dict)
