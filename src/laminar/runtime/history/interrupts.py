"""Ctrl-C and commits: an interruption comes before a commit or behind it, never inside.

Between the moment at which a manifest has its name and the one at which memory says the same, an
exception would make us take back what is committed.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """Holds Ctrl-C back; only the main thread hears of it, so others have nothing to do here."""

    def __init__(self) -> None:
        self._depth = 0
        self._is_held = self._has_come = False

    @contextmanager
    def until_done(self) -> Iterator[None]:
        """Let what a commit inside holds back come when all that follows from it is done."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._is_held and not self._depth:
                self._let_go()

    def hold(self) -> None:
        """Let nothing come from now on, if this is within `until_done`."""
        handler = signal.getsignal(signal.SIGINT)
        is_ours = threading.current_thread() is threading.main_thread() and self._depth
        if is_ours and not self._is_held and callable(handler):
            self._before = handler
            self._is_held, self._has_come = True, False
            signal.signal(signal.SIGINT, self._note)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._has_come = True

    def _let_go(self) -> None:
        self._is_held = False
        signal.signal(signal.SIGINT, self._before)
        if self._has_come:
            signal.raise_signal(signal.SIGINT)


INTERRUPTS = Interrupts()
"""Those of this process."""
