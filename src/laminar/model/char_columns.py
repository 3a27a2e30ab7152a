"""Columns of CHAR(n): text of n characters, filled up with blanks, that is compared as such.

Spark stores them as STRING and notes the type that was declared in the metadata of a column; the
note goes with the column through queries, as long as it is a column and no expression. Comparisons
heed it: see `plan/char_padding.py`. A type that has CHAR(n) or VARCHAR(n) inside is noted as well.
"""

from __future__ import annotations

import re
from typing import TypeAlias

Chars: TypeAlias = tuple[tuple[str, str], ...]
"""Column -> the type that was declared, `char(3)` or `array<char(3)>`, for some of a relation."""

_CHAR = re.compile(r"char\((\d+)\)")
_TEXT = re.compile(r"(char|varchar)\((\d+)\)")


def as_declared(noted: str) -> str:
    """Return the type of a column of which a definition notes a type, or n of CHAR(n)."""
    return f"char({noted})" if noted.isdigit() else noted


def char_length(kind: str) -> int | None:
    """Return n of CHAR(n); None of any other type."""
    found = _CHAR.fullmatch(kind)
    return int(found[1]) if found is not None else None


def text_length(kind: str) -> tuple[str, int] | None:
    """Return which of the two it is, and n, of CHAR(n) and VARCHAR(n)."""
    found = _TEXT.fullmatch(kind)
    return (found[1], int(found[2])) if found is not None else None


def has_lengths(kind: str) -> bool:
    """Say whether a type is, or has inside, a text of a length."""
    return _TEXT.search(kind) is not None
