"""Settings of a database: `SET laminar.x = y`. Declared once, typed, and used where they say."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from laminar.errors import BadSetting, UnknownSetting
from laminar.runtime.catalog.source_options import CALL_TIMEOUT_MS
from laminar.runtime.catalog.view_options import OPTIONS
from laminar.sql.foreign_code import CODE

PREFIX = "laminar."

_NUMBER = re.compile(r"\d+(_\d+)*")
"""What `int` reads, without a sign."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: a whole number from `least` on, or one or several of some words."""

    name: str
    default: str
    about: str
    least: int | None = None
    words: tuple[str, ...] = ()
    several: tuple[str, ...] = ()
    """Words of which several may be given, with commas; `none` and `all` are two more."""

    @property
    def kind(self) -> str:
        """What it takes, in words."""
        if self.words:
            return ", ".join(self.words)
        if self.several:
            return f"none, all, or some of {', '.join(self.several)}"
        return f"a whole number, {self.least} or more"

    def checked(self, value: str) -> str:
        """Return a value in its one spelling; raise if it does not fit."""
        text = value.strip().lower()
        if self.words:
            if text in self.words:
                return text
        elif self.several:
            given = [each.strip() for each in text.split(",")]
            if given in (["none"], ["all"]) or set(given) <= set(self.several):
                return ", ".join(sorted(set(given)))
        elif _NUMBER.fullmatch(text) and int(text) >= (self.least or 0):
            return str(int(text))
        raise BadSetting(f"{PREFIX}{self.name}", value, self.kind)


_ON_OFF = ("on", "off")

_IN_FLIGHT = "2" if (os.cpu_count() or 1) >= 4 else "1"
"""Overlapping needs cores that are idle: on two, one epoch keeps them busy (measured)."""

SETTINGS: dict[str, Setting] = {
    each.name: each
    for each in (
        *(
            Setting(option.name, option.default, f"{option.about}; default for new views",
                    words=option.words)
            for option in OPTIONS.values()
            if option.words
        ),
        Setting("epochs_in_flight", _IN_FLIGHT, "epochs that may overlap when several wait",
                least=1),
        Setting("retained_epochs", "64", "past epochs that AS OF EPOCH can still read", least=1),
        Setting("subscription_retention_epochs", "1000", "epochs a subscription may fall behind"
                " before it has to start again", least=1),
        Setting("compaction", "on", "merge small segments in the background", words=_ON_OFF),
        Setting("compaction_fanout", "8", "segments of one size before they are merged", least=2),
        Setting("max_fan_out", "1024", "views that may read one relation", least=1),
        Setting("future_ms", "3600000", "how far ahead of the wall clock a row of a live source"
                " may be", least=0),
        Setting("idle_timeout_ms", "0", "after how much silence a source no longer holds back"
                " watermarks; 0 waits for ever", least=0),
        Setting("late_rows_kept", "10000", "late rows that are kept for looking at", least=1),
        Setting("aging_rows", "100000", "rows that may leave a view in one epoch because time has"
                " passed", least=1),
        Setting("checkpoint_interval_ms", "30000", "time between checkpoints; 0 takes them only"
                " when asked", least=0),
        Setting("checkpoint_retained", "3", "checkpoints that are kept", least=1),
        Setting("checkpoint_incremental", "on", "keep only segments that the checkpoint before does"
                " not have", words=_ON_OFF),
        Setting("checkpoint_copies", "off", "copy segments into checkpoints instead of linking"
                " them", words=_ON_OFF),
        Setting("checkpoint_barrier", "aligned", "how nodes with several inputs meet a barrier",
                words=("aligned", "unaligned")),
        Setting("checkpoint_timeout_ms", "60000", "after this a checkpoint that a node has not"
                " reported to is given up", least=1),
        Setting("checkpoint_max_concurrent", "2", "checkpoints that may be under way", least=1),
        Setting("retry_backoff_ms", "1000", "how long a view waits that failed twice; the wait then"
                " doubles", least=0),
        Setting("retry_backoff_most_ms", "300000", "the longest wait between two tries of a failing"
                " view", least=0),
        Setting("max_failures", "5", "failures in a row after which a view is suspended", least=1),
        Setting("writer_timeout_ms", "600000", "how long a call waits for another one that writes,"
                " before it fails; 0 does not wait", least=0),
        Setting("call_timeout_ms", str(CALL_TIMEOUT_MS), "how long a call into the connector of a"
                " source may take that has no call_timeout", least=1),
        Setting("sink_wait_ms", "5000", "how long a call that has committed waits for sinks that"
                " keep up; 0 waits for none", least=0),
        Setting("sink_timeout_ms", "60000", "how long a statement waits for a sink that it cannot"
                " do without, such as one that begins", least=0),
        Setting("sink_backoff_ms", "1000", "how long a sink that failed is left alone; the wait"
                " then doubles", least=1),
        Setting("sink_backoff_most_ms", "60000", "the longest wait between two tries of a failing"
                " sink", least=1),
        Setting("collect_limit_rows", "500000", "up to so many rows a delta travels through the"
                " driver instead of a write job", least=0),
        Setting("trusted_functions", "none", "what may run code that is no SQL, for everybody who"
                " can ask a question", several=CODE),
    )
}  # fmt: skip
"""Name without prefix -> setting."""


class Settings:
    """What is set; everything else has its default."""

    names: ClassVar[tuple[str, ...]] = tuple(f"{PREFIX}{name}" for name in SETTINGS)

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        # One that this version does not know any more is left out, as if it had been reset.
        self.given = {name: value for name, value in (given or {}).items() if name in SETTINGS}

    def text(self, name: str) -> str:
        """Return what is set, or the default."""
        return self.given.get(name, SETTINGS[name].default)

    def number(self, name: str) -> int:
        """Return a value that is a whole number."""
        return int(self.text(name))

    def is_on(self, name: str) -> bool:
        """Return a value that is on or off."""
        return self.text(name) == "on"

    def trusts(self, name: str, word: str) -> bool:
        """Whether a setting that may have several words has one of them."""
        given = self.text(name)
        return given == "all" or word in given.split(", ")

    def with_value(self, name: str, value: str) -> Settings:
        """Return the settings after SET."""
        known = find(name)
        return Settings({**self.given, known.name: known.checked(value)})

    def without(self, name: str) -> Settings:
        """Return the settings after RESET."""
        known = find(name)
        return Settings({key: value for key, value in self.given.items() if key != known.name})


def find(name: str) -> Setting:
    """Return a setting by its full name; names ignore case."""
    found = SETTINGS.get(name.lower().removeprefix(PREFIX))
    if found is None:
        raise UnknownSetting(name, Settings.names)
    return found


def wall_clock() -> int:
    """Return milliseconds from 1970."""
    return time.time_ns() // 1_000_000


def steady(clock: Callable[[], int]) -> Callable[[], int]:
    """Return what intervals are measured by, in milliseconds: never set back, as a wall clock is.

    A clock that is given, as tests do, is used as it is.
    """
    return _ticks if clock is wall_clock else clock


def _ticks() -> int:
    return time.monotonic_ns() // 1_000_000


@dataclass(slots=True)
class TimeSettings:
    """Limits of event time; each may be changed while the engine runs."""

    clock: Callable[[], int] = wall_clock
    """The wall clock in milliseconds."""
    future_ms: int = 3_600_000
    """How far ahead of the wall clock a row of a live source may be."""
    late_rows_kept: int = 10_000
    """How many late rows are kept for looking at."""
    idle_timeout_ms: int | None = None
    """After how much silence a source no longer holds back the watermark; None waits forever."""
    aging_rows: int = 100_000
    """How many rows may leave a view in one epoch because time has passed."""
