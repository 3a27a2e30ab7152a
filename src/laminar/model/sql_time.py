"""Times in SQL text, without a word about the zone of the session."""

from __future__ import annotations

_EPOCH = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"


def as_utc(instant: str) -> str:
    """Render an instant as its time in UTC, a TIMESTAMP_NTZ.

    Not by a cast, which goes by the zone of the session: where the clock is set back, two instants
    have one time there.
    """
    seconds = f"CAST(UNIX_MICROS({instant}) AS DECIMAL(20,0)) / 1000000"
    return f"{_EPOCH} + MAKE_DT_INTERVAL(0, 0, 0, CAST({seconds} AS DECIMAL(18,6)))"
