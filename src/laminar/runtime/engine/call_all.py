"""Calling several things, of which any may fail: closing, opening again, handing on."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def call_all(calls: Iterable[Callable[[], object]]) -> None:
    """Call each, whatever comes of the others; raise what went wrong first."""
    failed: list[Exception] = []
    for each in calls:
        try:
            each()
        except Exception as error:
            failed.append(error)
    if failed:
        raise failed[0]
