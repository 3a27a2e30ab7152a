"""Sets of keywords, written as text."""

from __future__ import annotations


def keywords(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())
