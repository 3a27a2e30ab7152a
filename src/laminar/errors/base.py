"""The one base of every error a user can meet."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar


class LaminarError(Exception):
    """Something went wrong that the user can read about and act on.

    Messages start in lower case and end without punctuation; `detail` says where and what was
    found, `hint` what to do. The code is stable: look it up in docs/errors.md.
    """

    code: ClassVar[str] = "LMR-0001"

    def __init__(self, message: str, *, detail: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint

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
