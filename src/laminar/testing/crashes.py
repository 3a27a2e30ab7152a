"""A process that ends in the middle of a step, as a test sees it."""

from __future__ import annotations

from collections.abc import Callable


class Crash(BaseException):
    """Not an Exception: nothing that tidies up after errors may run."""


def crash_at(point: str) -> Callable[[str], None]:
    """Return what to put in the place of `durable_files.failpoint`."""

    def reach(at: str) -> None:
        if at == point:
            raise Crash(point)

    return reach
