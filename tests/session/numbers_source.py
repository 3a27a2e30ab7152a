"""A connector for tests: rows 0, 1, 2, ... read through Arrow, a few per poll."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

import laminar

START = datetime(2024, 1, 1, tzinfo=UTC)


class NumbersSource:
    """Row n has the key n % 3, and n seconds after midnight as its time."""

    append_only = True

    def __init__(self, total: int, per_poll: int) -> None:
        self.total = total
        self.per_poll = per_poll
        self.broken = ""
        self.read_to = 0
        self.heard = 0

    def latest_offset(self, start: Any) -> Any:
        if self.broken:
            raise laminar.SourceReadFailed("numbers", self.broken)
        end = min((start or 0) + self.per_poll, self.total)
        return end if end > (start or 0) else None

    def read_arrow(self, start: Any, end: Any) -> pa.Table:
        numbers = range(start or 0, end)
        self.read_to = max(self.read_to, end)
        return pa.table(
            {
                "n": pa.array(numbers, pa.int64()),
                "k": pa.array([n % 3 for n in numbers], pa.int64()),
                "note": pa.array([f"note {n}" for n in numbers]),
                "ts": pa.array(
                    [START + timedelta(seconds=n) for n in numbers], pa.timestamp("us", "UTC")
                ),
            }
        )

    def acknowledge(self, end: Any) -> None:
        self.heard = end

    def read(self, *_: Any) -> Any:
        raise AssertionError("Arrow is enough")


MADE: dict[str, NumbersSource] = {}
"""Name -> the source that was built last, for tests that turn its screws."""


def make(spec: laminar.SourceSpec) -> NumbersSource:
    """Build one from `total` and `per_poll`."""
    MADE[spec.name] = NumbersSource(
        int(spec.options.get("total", "0")), int(spec.options.get("per_poll", "10"))
    )
    return MADE[spec.name]


laminar.register_source("numbers", make)

COLUMNS = "n BIGINT, k BIGINT, note STRING, ts TIMESTAMP"


def declared(name: str, *, watermark: bool = False, **options: object) -> str:
    """Return the statement that creates one."""
    given = ", ".join(f"{key} = '{value}'" for key, value in options.items())
    clause = ", WATERMARK FOR ts AS ts - INTERVAL '1' SECOND" if watermark else ""
    return f"CREATE SOURCE {name} ({COLUMNS}{clause}) WITH (connector = 'numbers', {given})"
