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


def micros_of(time: str) -> str:
    """Render how many microseconds a time is from 1970, as a DECIMAL.

    Of a time without a zone it is what its clock shows, counted as if that were UTC. Of the two
    cases Spark knows, when it plans, which one it is.
    """
    seconds = f"CAST(CAST({time} AS TIMESTAMP_NTZ) - {_EPOCH} AS INTERVAL SECOND)"
    shown = f"CAST({seconds} AS DECIMAL(20,6)) * 1000000"
    instant = f"UNIX_MICROS(CAST({time} AS TIMESTAMP))"
    is_shown = f"TYPEOF({time}) = 'timestamp_ntz'"
    return f"CAST(IF({is_shown}, {shown}, {instant}) AS DECIMAL(20,0))"
