"""Waiting for what other threads do and no event tells."""

from __future__ import annotations

from collections.abc import Callable
from time import sleep


def until(is_so: Callable[[], object]) -> None:
    """Return when something is so, after a minute at most."""
    for _ in range(60_000):
        if is_so():
            return
        sleep(0.001)
    raise AssertionError("it never came")
