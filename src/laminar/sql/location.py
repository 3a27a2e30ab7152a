"""Where something stands in a text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a text: line and column count from 1, the offset from 0."""

    line: int
    column: int
    offset: int

    @classmethod
    def of(cls, text: str, offset: int) -> Location:
        """Return the place of an offset; a column is one character, also where that is a tab."""
        start = text.rfind("\n", 0, offset) + 1
        return cls(text.count("\n", 0, offset) + 1, offset - start + 1, offset)

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"
