"""Days on the clock of a time zone, which are not all equally long.

    t + d = the instant at which the zone's clock shows the time of t, whole days of d later,
            and then what is left of d

That is how Spark adds an interval to an instant.
Where the clock skips that time, it is as much later; where it shows it twice, the one of t's own
offset counts, or else the first. Times and lengths are microseconds, times from 1970.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

DAY = 86_400_000_000

UNEVEN = 2 * DAY
"""No sum of days in a zone differs by more from one of days of 24 hours: the largest jump of a
clock was a day."""

_EPOCH = datetime(1970, 1, 1)
_MICRO = timedelta(microseconds=1)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")


@lru_cache(maxsize=64)
def zone_of(name: str) -> tzinfo | None:
    """Return a zone by the name that Spark has for it; None if Python does not know it."""
    if name.upper() in ("Z", "UTC", "GMT", "UT", "ETC/UTC", "ETC/GMT"):
        return UTC
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        hours, minutes, seconds = (int(each or 0) for each in offset.groups()[1:])
        size = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return timezone(size if offset[1] == "+" else -size)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return None


def days_vary(name: str) -> bool:
    """Whether a zone may have days that are not 24 hours long."""
    return not isinstance(zone_of(name), timezone)


def later(instant: int, lengths: Iterable[int], zone: tzinfo) -> int:
    """Add lengths to an instant, one after the other."""
    for length in lengths:
        days = abs(length) // DAY * (1 if length > 0 else -1)
        instant = _days_later(instant, days, zone) + length - days * DAY
    return instant


def _days_later(instant: int, days: int, zone: tzinfo) -> int:
    if days == 0:
        return instant
    start = _at(instant).astimezone(zone)
    wall = start.replace(tzinfo=None, fold=0) + timedelta(days=days)
    first, second = (wall.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    is_twice = _offset(first) > _offset(second)
    found = second if is_twice and _offset(second) == _offset(start) else first
    return (wall - _EPOCH) // _MICRO - _offset(found)


def _at(instant: int) -> datetime:
    return (_EPOCH + timedelta(microseconds=instant)).replace(tzinfo=UTC)


def _offset(moment: datetime) -> int:
    return (moment.utcoffset() or timedelta()) // _MICRO
