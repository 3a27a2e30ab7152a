"""Options as users write them: texts by name, read as types, none of them ignored."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path

from laminar.connectors.lookups import resolved
from laminar.errors.connectors import BadOption, MissingOption, UnknownOption

_YES_NO = {"true": True, "false": False}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)$")
_UNITS = {
    "us": 1e-6,
    "microsecond": 1e-6,
    "ms": 1e-3,
    "millisecond": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
}


class Options(Mapping[str, str]):
    """The options of one source, which remember what was asked for.

    Law: after a source is built, every given name has been asked for, or `refuse_leftovers`
    raises. Reading through the mapping counts as asking, so it holds for any factory. What is read
    has the place of `${env:NAME}` and `${file:/path}` taken by what they name; nothing keeps that.
    """

    __slots__ = ("_asked", "_given", "connector")

    def __init__(self, connector: str, given: Mapping[str, str]) -> None:
        self.connector = connector
        self._given = dict(given)
        # A dict for its order: the names are shown to the user as the connector asks for them.
        self._asked: dict[str, None] = {}

    @classmethod
    def of(cls, connector: str, given: Mapping[str, str]) -> Options:
        """Return `given` itself if it already remembers."""
        return given if isinstance(given, cls) else cls(connector, given)

    def __getitem__(self, name: str) -> str:
        self._asked.setdefault(name)
        return resolved(self.connector, name, self._given[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    def __contains__(self, name: object) -> bool:
        # Looking whether an option is there is not yet using it, but it makes the name known.
        if isinstance(name, str) and name not in self._given:
            self._asked.setdefault(name)
        return name in self._given

    def refuse_leftovers(self) -> None:
        """Raise if an option was given that nobody asked for."""
        for name in self._given:
            if name not in self._asked:
                raise UnknownOption(self.connector, name, self._asked)

    def bad(self, name: str, expected: str) -> BadOption:
        """Return the error for a value that does not do."""
        return BadOption(self.connector, name, self._given.get(name), expected)

    def text(self, name: str, default: str) -> str:
        """Read an option as it stands."""
        return self.get(name, default)

    def required(self, name: str, expected: str = "") -> str:
        """Read an option, or raise MissingOption with what was expected."""
        value = self.get(name)
        if value is None:
            raise MissingOption(self.connector, name, expected, self._given)
        return value

    def integer(self, name: str, default: int, *, at_least: int | None = None) -> int:
        """Read a whole number; 1_000_000 is one."""
        value = self.get(name)
        if value is None:
            return default
        expected = "a whole number" + ("" if at_least is None else f", {at_least} or more")
        try:
            number = int(value.replace("_", ""))
        except ValueError:
            raise self.bad(name, expected) from None
        if at_least is not None and number < at_least:
            raise self.bad(name, expected)
        return number

    def limit(self, name: str) -> int | None:
        """Read how many at most, 1 or more; None, unlimited, if it is not given."""
        return self.integer(name, 1, at_least=1) if name in self else None

    def decimal(self, name: str, default: Decimal | str | int) -> Decimal:
        """Read a number exactly as it is written."""
        value = self.get(name)
        try:
            number = Decimal(default if value is None else value)
        except InvalidOperation:
            number = Decimal("NaN")
        if not number.is_finite():
            raise self.bad(name, "a number")
        return number

    def boolean(self, name: str, *, default: bool) -> bool:
        """Read true or false."""
        value = self.get(name)
        if value is None:
            return default
        if value.lower() not in _YES_NO:
            raise self.bad(name, "true or false")
        return _YES_NO[value.lower()]

    def choice(self, name: str, among: Sequence[str], default: str | None = None) -> str:
        """Read one of a few words, whatever its case."""
        expected = f"one of: {', '.join(among)}"
        value = self.required(name, expected) if default is None else self.get(name, default)
        if value.lower() not in among:
            raise self.bad(name, expected)
        return value.lower()

    def duration(self, name: str, default: timedelta) -> timedelta:
        """Read a span such as `250 ms`, `5s` or `10 minutes`."""
        value = self.get(name)
        if value is None:
            return default
        found = _DURATION.match(value.strip().lower())
        unit = None
        if found is not None:
            word = found.group(2)
            unit = _UNITS.get(word, _UNITS.get(word.removesuffix("s")))
        if found is None or unit is None:
            raise self.bad(name, "a duration such as 250 ms, 5s or 10 minutes")
        return timedelta(seconds=float(found.group(1)) * unit)

    def path(self, name: str) -> Path:
        """Read the path of a file or folder that exists on this machine."""
        value = self.required(name, "the path of a file or folder")
        scheme, colon, rest = value.partition("://")
        if colon and scheme != "file":
            raise self.bad(name, "a path of this machine or of a mounted file system")
        path = Path(rest if colon else value).expanduser().absolute()
        if not path.exists():
            raise self.bad(name, "the path of a file or folder that exists")
        return path
