"""What the clock made of an epoch: rows that came too late, and what was shown because of time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from laminar.model.trace import WEIGHT

LATE_ROWS = "laminar_system.late_rows"
"""The trace of kept rows; no relation of the user's can have this name."""

LATE_DDL = (
    "epoch BIGINT, relation STRING, reason STRING, event_time TIMESTAMP, `row` STRING, "
    f"{WEIGHT} BIGINT"
)

LATE_SCHEMA = pa.schema(
    [
        ("epoch", pa.int64()),
        ("relation", pa.string()),
        ("reason", pa.string()),
        ("event_time", pa.timestamp("us", tz="UTC")),
        ("row", pa.string()),
        (WEIGHT, pa.int64()),
    ]
)

Cutoff: TypeAlias = tuple[str, int]
"""A column of time, and the bound before which rows are of no use any more."""


@dataclass(frozen=True, slots=True)
class LateBatch:
    """What was late for one relation in one epoch."""

    relation: str
    count: int
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class TimedResults:
    """What relations that follow the clock did in an epoch."""

    emptied: frozenset[str]
    """Traces of which everything was shown."""
    shown: frozenset[str]
    """Views whose turn it was."""
    aged_to: Mapping[str, int]
    """Relation whose rows come and go -> the time that they are those of."""

    def only(self, stays: Callable[[str], bool]) -> TimedResults:
        """Return the results of some traces alone."""
        return TimedResults(
            frozenset(filter(stays, self.emptied)),
            frozenset(filter(stays, self.shown)),
            {trace: time for trace, time in self.aged_to.items() if stays(trace)},
        )
