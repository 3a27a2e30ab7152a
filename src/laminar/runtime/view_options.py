"""Options of a view: declared once, checked when given, stored with the view.

A value that is written down here but that running does not heed yet is refused by name, in one
place: `REFUSED`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from laminar.dag.policies import DiamondConsistency, DiamondSchedulePolicy
from laminar.errors import BadViewOption, NotSupported
from laminar.runtime.views import RefreshPolicy

EVERY_EPOCH = "every epoch"


@dataclass(frozen=True, slots=True)
class Option:
    """One option; without words it is free text."""

    name: str
    default: str
    about: str
    words: tuple[str, ...] = ()

    def checked(self, value: str) -> str:
        """Return a value in its one spelling; raise if it does not fit or cannot be done."""
        text = " ".join(value.lower().split())
        if self.words and text not in self.words:
            raise BadViewOption(self.name, value, expected=", ".join(self.words))
        refused = refusal(self.name, text)
        if refused:
            raise NotSupported(f'{self.name} = "{value}"', refused)
        return text


OPTIONS: dict[str, Option] = {
    each.name: each
    for each in (
        Option("refresh_policy", RefreshPolicy.AUTO, "which strategies a view may use",
               tuple(RefreshPolicy)),
        Option("schedule", EVERY_EPOCH, "when a view steps"),
        Option("diamond_consistency", DiamondConsistency.ATOMIC,
               "whether the views of a diamond commit together", tuple(DiamondConsistency)),
        Option("diamond_schedule_policy", DiamondSchedulePolicy.FASTEST,
               "when a group of views with schedules is due", tuple(DiamondSchedulePolicy)),
    )
}  # fmt: skip
"""Every option of a view, by name."""


def _not_atomic(value: str) -> str:
    if value == DiamondConsistency.ATOMIC:
        return ""
    return "every epoch commits all views together, so groups are always atomic"


def _not_every_epoch(value: str) -> str:
    return "" if value == EVERY_EPOCH else f"views step every epoch: write '{EVERY_EPOCH}'"


# Until groups step on schedules of their own. Both schedule policies pass: they mean the same while
# every member steps every epoch.
REFUSED: Mapping[str, Callable[[str], str]] = {
    "diamond_consistency": _not_atomic,
    "schedule": _not_every_epoch,
}
"""Option -> why a value that is known cannot be had, as a hint; nothing if it can."""


def refusal(option: str, value: str) -> str:
    """Return why a value cannot be had; nothing if it can."""
    return REFUSED[option](value) if option in REFUSED else ""


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
