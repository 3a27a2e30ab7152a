"""When a view is due: durations, calendars, and the schedules that follow from others."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from laminar.mv.schedule import effective, parse_schedule


def ms(*when: int, zone: str = "UTC") -> int:
    return int(datetime(*when, tzinfo=ZoneInfo(zone)).timestamp() * 1000)  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("text", "spelled", "gap"),
    [
        ("Every  Epoch", "every epoch", 0),
        ("CALCULATED", "calculated", None),
        ("90s", "90s", 90_000),
        ("1h30m", "1h30m", 5_400_000),
        ("90 Minutes", "90 minutes", 5_400_000),
        ("1 day 2h", "1 day 2h", 93_600_000),
        ("250ms", "250ms", 250),
        ("2w", "2w", 1_209_600_000),
        ("*/5 * * * *", "*/5 * * * *", 300_000),
        ("0 9 * * mon-fri europe/berlin", "0 9 * * MON-FRI Europe/Berlin", 86_400_000),
        ("@hourly", "0 * * * *", 3_600_000),
        ("@daily Asia/Tokyo", "0 0 * * * Asia/Tokyo", 86_400_000),
    ],
)
def test_schedules(text: str, spelled: str, gap: int | None) -> None:
    found = parse_schedule(text)
    assert (found.text, found.gap_ms) == (spelled, gap)
    assert parse_schedule(spelled) == found


@pytest.mark.parametrize(
    "text",
    ["", "often", "0s", "5", "1h 30", "5x", "-5m", "1.5h", "61 * * * *", "* * * *", "0 0 31 2 *",
     "0 0 * * * Mars/Olympus", "* * * * * * *"],
)  # fmt: skip
def test_what_is_no_schedule(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_schedule(text)


def test_a_duration_counts_from_the_last_step() -> None:
    every = parse_schedule("90s")
    assert not every.is_due(1000, 90_999)
    assert every.is_due(1000, 91_000)
    assert every.is_due(1000, 10**9)  # late: due once
    assert parse_schedule("every epoch").is_due(5, 5)


def test_a_calendar_keeps_the_time_of_its_zone() -> None:
    nine = parse_schedule("0 9 * * * Europe/Berlin")
    winter = nine.next_after(ms(2026, 3, 28, 12, 0, zone="Europe/Berlin"))
    assert datetime.fromtimestamp(winter / 1000, UTC) == datetime(2026, 3, 29, 7, 0, tzinfo=UTC)
    before = nine.next_after(ms(2026, 3, 27, 12, 0, zone="Europe/Berlin"))
    assert datetime.fromtimestamp(before / 1000, UTC) == datetime(2026, 3, 28, 8, 0, tzinfo=UTC)
    assert not nine.is_due(ms(2026, 1, 1, 8, 0), ms(2026, 1, 2, 7, 59))
    assert nine.is_due(ms(2026, 1, 1, 8, 0), ms(2026, 1, 2, 8, 0))


def test_a_calculated_schedule_is_the_tightest_of_its_readers() -> None:
    given = {
        "base": parse_schedule("calculated"),
        "middle": parse_schedule("calculated"),
        "slow": parse_schedule("1h"),
        "often": parse_schedule("*/5 * * * *"),
        "alone": parse_schedule("calculated"),
    }
    readers = {"base": ["middle", "slow"], "middle": ["often", "slow"]}
    found = effective(given, list(given), lambda name: readers.get(name, []))
    assert found["base"] == found["middle"] == given["often"]
    assert found["slow"] == given["slow"]
    assert found["alone"].is_every_epoch
