"""Days on the clock of a zone, by examples that anybody can count."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from laminar.model.local_days import DAY, days_vary, later, zone_of

HOUR = DAY // 24


def micros(text: str) -> int:
    moment = datetime.fromisoformat(text)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("zone", "start", "length", "end"),
    [
        ("UTC", "2026-03-08T12:00", -DAY, "2026-03-07T12:00"),
        ("America/New_York", "2026-03-08T12:00-04:00", -DAY, "2026-03-07T12:00-05:00"),
        ("America/New_York", "2026-03-08T12:00-04:00", -23 * HOUR, "2026-03-07T12:00-05:00"),
        ("America/New_York", "2026-03-08T12:00-04:00", -25 * HOUR, "2026-03-07T11:00-05:00"),
        # That time is skipped, so it is an hour later.
        ("America/New_York", "2026-03-09T02:30-04:00", -DAY, "2026-03-08T03:30-04:00"),
        # That time comes twice: the one with the offset of the start, or the first.
        ("America/New_York", "2026-11-02T01:30-05:00", -DAY, "2026-11-01T01:30-05:00"),
        ("America/New_York", "2026-10-31T01:30-04:00", DAY, "2026-11-01T01:30-04:00"),
        ("Australia/Lord_Howe", "2026-04-06T00:00+10:30", -DAY, "2026-04-05T00:00+11:00"),
        ("Pacific/Apia", "2011-12-29T12:00-10:00", DAY, "2011-12-31T12:00+14:00"),
        ("+05:30", "2026-03-08T12:00", 36 * HOUR, "2026-03-10T00:00"),
    ],
)
def test_a_length_is_added_as_spark_does(zone: str, start: str, length: int, end: str) -> None:
    known = zone_of(zone)
    assert known is not None
    assert later(micros(start), [length], known) == micros(end)


@pytest.mark.parametrize("name", ["UTC", "Z", "+02:00", "GMT-3", "UTC+05:30", "Etc/UTC"])
def test_an_offset_has_days_of_one_length(name: str) -> None:
    assert not days_vary(name)


@pytest.mark.parametrize("name", ["Europe/Amsterdam", "Asia/Kolkata", "Mars/Olympus"])
def test_a_region_may_have_others(name: str) -> None:
    assert days_vary(name)
