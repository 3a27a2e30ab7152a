"""Closing several things, of which any may fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def close_all(ends: Iterable[Callable[[], object]]) -> None:
    """Call each, whatever comes of the others; raise what went wrong first."""
    failed: list[Exception] = []
    for end in ends:
        try:
            end()
        except Exception as error:
            failed.append(error)
    if failed:
        raise failed[0]
