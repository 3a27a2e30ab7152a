"""Options of a view: declared once, checked when given, stored with the view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from laminar.dag.diamond import DiamondConsistency, DiamondSchedulePolicy
from laminar.errors import BadViewOption
from laminar.mv.schedule import EVERY_EPOCH, parse_schedule
from laminar.runtime.catalog.compile_view import RefreshPolicy

_SCHEDULES = "every epoch, calculated, a duration such as 90s or 1h30m, or five fields of cron"


def _schedule(value: str) -> str:
    try:
        return parse_schedule(value).text
    except ValueError as wrong:
        raise BadViewOption("schedule", value, expected=f"{_SCHEDULES} ({wrong})") from wrong


@dataclass(frozen=True, slots=True)
class Option:
    """One option: one of some words, or a text that is read in its own way."""

    name: str
    default: str
    about: str
    words: tuple[str, ...] = ()
    read: Callable[[str], str] | None = None

    def checked(self, value: str) -> str:
        """Return a value in its one spelling; raise if it does not fit."""
        if self.read is not None:
            return self.read(value)
        text = " ".join(value.lower().split())
        if text not in self.words:
            raise BadViewOption(self.name, value, expected=", ".join(self.words))
        return text


OPTIONS: dict[str, Option] = {
    each.name: each
    for each in (
        Option("refresh_policy", RefreshPolicy.AUTO, "which strategies a view may use",
               tuple(RefreshPolicy)),
        Option("schedule", EVERY_EPOCH, "when a view steps", read=_schedule),
        Option("diamond_consistency", DiamondConsistency.ATOMIC,
               "whether the views of a diamond commit together", tuple(DiamondConsistency)),
        Option("diamond_schedule_policy", DiamondSchedulePolicy.FASTEST,
               "when a group of views with schedules is due", tuple(DiamondSchedulePolicy)),
    )
}  # fmt: skip
"""Every option of a view, by name."""


def resolve(given: Mapping[str, str], defaults: Callable[[str], str]) -> dict[str, str]:
    """Return the value of every option: as given, or else its default."""
    chosen = checked(given)
    return {
        name: chosen.get(name) or (defaults(name) if option.words else option.default)
        for name, option in OPTIONS.items()
    }


def checked(given: Mapping[str, str]) -> dict[str, str]:
    """Return given options by name, each in its one spelling; names ignore case."""
    found: dict[str, str] = {}
    for name, value in given.items():
        option = OPTIONS.get(name.lower())
        if option is None:
            raise BadViewOption(name, known=tuple(OPTIONS))
        found[option.name] = option.checked(value)
    return found
