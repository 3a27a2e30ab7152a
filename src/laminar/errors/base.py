"""The one base of every error a user can meet."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable
from typing import ClassVar, Self

from laminar.errors.secrets import told, without_secrets


class LaminarError(Exception):
    """Something went wrong that the user can read about and act on.

    Messages start in lower case and end without punctuation; `detail` says where and what was
    found, `hint` what to do. The code is stable: look it up in docs/errors.md. Where the error is
    about a place in a text, `place` is its line and column (both from 1) and the detail shows it
    underlined.
    """

    code: ClassVar[str] = "LMR-0001"

    def __init__(self, message: str, *, detail: str = "", hint: str = "") -> None:
        message, detail, hint = told(message), told(detail), told(hint)
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint
        self.place: tuple[int, int] | None = None
        self.span: tuple[int, int] | None = None
        """Offset and length in the text that the error was last pointed into."""
        self._fact = detail
        self._excerpt = ""

    def at(self, text: str, offset: int, length: int = 1) -> Self:
        """Point at a place of a text, underlined in the detail. Returns the error, to raise it."""
        self.span = (offset, length)
        start = text.rfind("\n", 0, offset) + 1
        end = text.find("\n", offset)
        end = len(text) if end < 0 else end
        line = without_secrets(text, start, end).rstrip("\r")
        before = without_secrets(text, start, offset)
        under = line[len(before) :][: max(length, 1)]
        margin = "".join(map(_blank, before))
        self._excerpt = f"    {line}\n    {margin}{'^' * max(1, sum(map(_cells, under)))}"
        return self._placed(text.count("\n", 0, offset) + 1, offset - start + 1)

    def anywhere(self) -> Self:
        """Forget the place: it was one in a text of ours. Returns the error, to raise it."""
        self.span = self.place = None
        self.detail = self._fact
        return self

    def within(self, line: int, column: int) -> Self:
        """Move the place: the text it points into starts there in a longer one."""
        if self.place is None:
            return self
        own_line, own_column = self.place
        return self._placed(own_line + line - 1, own_column + (column - 1 if own_line == 1 else 0))

    def _placed(self, line: int, column: int) -> Self:
        self.place = (line, column)
        place = f"line {line}, column {column}\n{self._excerpt}"
        self.detail = f"{self._fact}\n  {place}" if self._fact else place
        return self

    def __str__(self) -> str:
        lines = [f"{self.code}: {self.message}"]
        if self.detail:
            lines.append(f"  detail: {self.detail}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions are copied by calling the class with the message, which does not work here:
        # subclasses are built from the things they are about.
        return _revive, (type(self), self.args, dict(self.__dict__))


def _blank(char: str) -> str:
    """Return the room that a character takes; only the terminal knows how wide a tab is."""
    return char if char == "\t" else " " * _cells(char)


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _revive(
    cls: type[LaminarError], args: tuple[object, ...], state: dict[str, object]
) -> LaminarError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(state)
    return error


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that a typing mistake most likely meant."""
    folded = {candidate.casefold(): candidate for candidate in known}
    found = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint that suggests the nearest known name, or an empty one."""
    suggestion = nearest(name, known)
    return f'did you mean "{suggestion}"?' if suggestion else ""
