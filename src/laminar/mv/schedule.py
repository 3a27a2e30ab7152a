"""When a view steps: with every epoch, every so often, at times of the calendar.

A schedule is a pure function of the wall clock. A view is due when the time that follows its last
step has come; however late that is noticed, it is due once, and one step takes all that came since.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import islice, pairwise
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

EVERY_EPOCH = "every epoch"
CALCULATED = "calculated"

_UNITS_MS = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_WORDS = {
    "ms": ("ms", "millisecond", "milliseconds"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "m": ("m", "min", "mins", "minute", "minutes"),
    "h": ("h", "hour", "hours"),
    "d": ("d", "day", "days"),
    "w": ("w", "week", "weeks"),
}
_UNIT = {word: unit for unit, words in _WORDS.items() for word in words}
_PART = re.compile(r"\s*(\d+)\s*([a-z]+)")
_NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
_SAMPLE = datetime(2024, 1, 1, tzinfo=UTC)
"""Gaps of a calendar are measured from here; a leap year, so that February 29 comes soon."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """One schedule.

    `gap_ms` is the shortest time between two turns, by which the tightest of several is found;
    that of a view that steps with every epoch is 0. None is `calculated`: it depends on readers.
    """

    text: str
    gap_ms: int | None
    cron: str = ""
    zone: str = "UTC"

    @property
    def is_every_epoch(self) -> bool:
        """Whether a view is always due."""
        return self.gap_ms == 0

    @property
    def is_calculated(self) -> bool:
        """Whether the views that read this one decide."""
        return self.gap_ms is None

    def next_after(self, last_ms: int) -> int:
        """Return when the view is due that last stepped then; both in milliseconds from 1970."""
        if self.cron:
            last = datetime.fromtimestamp(last_ms / 1000, ZoneInfo(self.zone))
            return int(next(CronSim(self.cron, last)).timestamp() * 1000)
        return last_ms + (self.gap_ms or 0)

    def is_due(self, last_ms: int, now_ms: int) -> bool:
        """Return whether a turn has come since the last step."""
        return self.is_every_epoch or self.next_after(last_ms) <= now_ms


@cache
def parse_schedule(text: str) -> Schedule:
    """Read a schedule.

    Raises:
        ValueError: it is none; the message says why.
    """
    plain = " ".join(text.split())
    if plain.lower() == EVERY_EPOCH:
        return Schedule(EVERY_EPOCH, 0)
    if plain.lower() == CALCULATED:
        return Schedule(CALCULATED, None)
    named = plain.split(" ")[0].lower()
    if named in _NAMED:
        plain = " ".join([_NAMED[named], *plain.split(" ")[1:]])
    found = _duration(plain.lower())
    if found is not None:
        return found
    if len(plain.split(" ")) in (5, 6):
        return _calendar(plain)
    raise ValueError("it is no duration, and no cron expression of five fields")


def _duration(text: str) -> Schedule | None:
    total, at = 0, 0
    for part in _PART.finditer(text):
        unit = _UNIT.get(part[2])
        if part.start() != at or unit is None:
            return None
        total += int(part[1]) * _UNITS_MS[unit]
        at = part.end()
    if at != len(text) or not at:
        return None
    if not total:
        raise ValueError(f"a duration is longer than nothing; write '{EVERY_EPOCH}'")
    return Schedule(text, total)


def _calendar(text: str) -> Schedule:
    fields = text.split(" ")
    zone = _zone(fields[5]) if len(fields) == 6 else "UTC"
    cron = " ".join(fields[:5]).upper()
    try:
        turns = CronSim(cron, _SAMPLE.astimezone(ZoneInfo(zone)))
        times = list(islice(turns, 64))
    except CronSimError as wrong:
        raise ValueError(f'"{cron}" is no cron expression: {str(wrong).lower()}') from wrong
    if len(times) < 2:
        raise ValueError(f'"{cron}" never comes')
    gap = min(later.timestamp() - earlier.timestamp() for earlier, later in pairwise(times))
    spelled = cron if zone == "UTC" else f"{cron} {zone}"
    return Schedule(spelled, max(1, int(gap * 1000)), cron, zone)


def _zone(name: str) -> str:
    known = _zones().get(name.lower())
    if known is None:
        raise ValueError(f'"{name}" is no time zone')
    return known


@cache
def _zones() -> Mapping[str, str]:
    return {name.lower(): name for name in available_timezones()}


def effective(
    given: Mapping[str, Schedule],
    order: Iterable[str],
    readers: Callable[[str], Iterable[str]],
) -> dict[str, Schedule]:
    """Return the schedule that counts for every view.

    A calculated one is the tightest of those that read it; one that nobody reads steps with every
    epoch.

    Args:
        given: view -> its own schedule.
        order: the views, each after what it reads.
        readers: the views that read one directly.
    """
    found: dict[str, Schedule] = {}
    for view in reversed(list(order)):
        own = given[view]
        if own.is_calculated:
            others = [found[each] for each in readers(view)]
            own = min(others, key=_gap, default=parse_schedule(EVERY_EPOCH))
        found[view] = own
    return found


def _gap(schedule: Schedule) -> int:
    return schedule.gap_ms or 0
