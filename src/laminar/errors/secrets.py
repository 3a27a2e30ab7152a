"""Names of options whose values only their owner should know."""

from __future__ import annotations

import re

HIDDEN = "***"

_NAME = r"(?:password|secret|token|credential|(?:api|access|private).?key)"
_SECRET = re.compile(_NAME, re.IGNORECASE)
_GIVEN = re.compile(
    rf"""([\w.\-]*{_NAME}[\w.\-]*['"`]?\s*=\s*)('(?:[^']|'')*'?|"[^"]*"?|[^\s,)]+)""",
    re.IGNORECASE,
)
_OPTIONS = re.compile(r"\bWITH\s*\(", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Whether an option of this name holds a secret."""
    return _SECRET.search(name) is not None


def without_secrets(text: str, start: int, end: int) -> str:
    """Return a part of a script, which need not be valid, without the values of secret options.

    Options stand behind WITH; before it `token = 'x'` is a condition like any other. Where they
    end is not asked: in a text that may be broken it is better to hide too much.
    """
    found = _OPTIONS.search(text, 0, end)
    if found is None:
        return text[start:end]
    plain = max(start, found.end())
    return text[start:plain] + _GIVEN.sub(rf"\1'{HIDDEN}'", text[plain:end])
