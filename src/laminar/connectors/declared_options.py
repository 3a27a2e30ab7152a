"""What a connector says of its options before it is built: names, types, defaults, secrets.

Law: of a connector that declares its options, an unknown name, a missing one, or a value of another
type is refused before any of its own code runs. What only it can know, it refuses itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum

from laminar.connectors.options import Options
from laminar.errors.connectors import MissingOption, UnknownOption


class OptionType(StrEnum):
    """What an option takes; the value is how it is shown."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    DURATION = "duration"
    PATH = "path"
    """Of this machine; a relative one is stored absolute."""
    CHOICE = "choice"


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a connector, as it is checked, shown and documented."""

    name: str
    """A part in angle brackets stands for any text: `fields.<column>.kind`."""
    about: str
    type: OptionType = OptionType.TEXT
    default: str = ""
    """As it is shown; empty if nothing stands in for one that is not given."""
    choices: tuple[str, ...] = ()
    at_least: int | None = None
    is_required: bool = False
    is_secret: bool = False
    """Never shown."""
    is_alterable: bool = False
    """Of a source: neither what offsets mean nor what rows are between two of them depends on it,
    so ALTER SOURCE may set it."""

    @property
    def takes(self) -> str:
        """What it takes, in a word or in all of its words."""
        return " | ".join(self.choices) if self.choices else self.type.value

    def fits(self, name: str) -> bool:
        """Whether a name that was given is that of this option."""
        if "<" not in self.name:
            return name.lower() == self.name
        parts = re.split(r"<[^>]+>", self.name)
        return re.fullmatch(".+".join(map(re.escape, parts)), name.lower()) is not None

    def meant_by(self, given: str) -> str:
        """Return its name with what stands for any text filled in from a name that is near it."""
        own, theirs = self.name.split("."), given.split(".")
        if len(own) != len(theirs):
            return self.name
        pairs = zip(own, theirs, strict=True)
        return ".".join(other if part.startswith("<") else part for part, other in pairs)


def require_fit(connector: str, given: Mapping[str, str], declared: Sequence[Option]) -> None:
    """Refuse options that are not among those declared, or do not have their types.

    Raises:
        UnknownOption: there is none of that name.
        MissingOption: it is required.
        BadOption: its value does not do.
    """
    values = Options(connector, given)
    for name in given:
        found = next((each for each in declared if each.fits(name)), None)
        if found is None:
            raise UnknownOption(connector, name, [each.meant_by(name) for each in declared])
        _CHECKS.get(found.type, _any)(values, name, found)
    for each in declared:
        if each.is_required and not any(each.fits(name) for name in given):
            raise MissingOption(connector, each.name, each.about, given)


def names(declared: Iterable[Option], wanted: Callable[[Option], bool]) -> frozenset[str]:
    """Return the names of some options."""
    return frozenset(each.name for each in declared if wanted(each))


def _any(_values: Options, _name: str, _option: Option) -> None:
    """A text may be anything."""


def _integer(values: Options, name: str, option: Option) -> None:
    values.integer(name, 0, at_least=option.at_least)


def _number(values: Options, name: str, _option: Option) -> None:
    values.decimal(name, Decimal(0))


def _boolean(values: Options, name: str, _option: Option) -> None:
    values.boolean(name, default=False)


def _duration(values: Options, name: str, _option: Option) -> None:
    values.duration(name, timedelta(0))


def _choice(values: Options, name: str, option: Option) -> None:
    values.choice(name, option.choices)


_CHECKS: dict[OptionType, Callable[[Options, str, Option], None]] = {
    OptionType.INTEGER: _integer,
    OptionType.NUMBER: _number,
    OptionType.BOOLEAN: _boolean,
    OptionType.DURATION: _duration,
    OptionType.CHOICE: _choice,
}
