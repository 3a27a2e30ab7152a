"""The thread of one sink: works when there is something to do, and ends when it is told to.

What it runs is a user's code, which may never come back. So the thread is a daemon, nobody waits
for it without a bound, and whoever closes the database may leave it behind.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class SinkRunner:
    """Calls `work` again and again: when it is woken, and when the time is over that it asked for.

    Args:
        name: the sink.
        work: does what there is to do, raises nothing, and returns the seconds after which to look
            again; None to be woken.
        end: called on the same thread when it is told to stop, after what it is doing.
    """

    def __init__(
        self, name: str, work: Callable[[], float | None], end: Callable[[], object]
    ) -> None:
        self._work = work
        self._end = end
        self._changed = threading.Condition(threading.Lock())
        self.signals = 0
        """A number that differs once something has happened."""
        self.is_stopping = False
        self.is_over = False
        """Whether it has ended, and calls nobody any more."""
        self.then: Callable[[], object] = lambda: None
        """Called when it has ended."""
        self._thread = threading.Thread(target=self._run, name=f"laminar sink {name}", daemon=True)

    @property
    def is_mine(self) -> bool:
        """Whether the caller is called by it."""
        return threading.current_thread() is self._thread

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def wake(self) -> None:
        """Say that something has happened: every wait ends."""
        with self._changed:
            self.signals += 1
            self._changed.notify_all()

    def wait(self, seen: int, at_most: float | None) -> None:
        """Wait until `signals` is not `seen` any more, for so many seconds at the most."""
        longest = threading.TIMEOUT_MAX if at_most is None else min(at_most, threading.TIMEOUT_MAX)
        with self._changed:
            if self.signals == seen:
                self._changed.wait(longest)

    def stop(self) -> None:
        """Let it end, after what it is doing."""
        self.is_stopping = True
        self.wake()

    def join(self, at_most: float) -> bool:
        """Wait for its end, so many seconds at most; say whether it has ended.

        Who is called by it does not wait: it ends behind him.
        """
        if not self.is_mine and self._thread.ident is not None:
            self._thread.join(max(0.0, at_most))
        return self.is_over

    def _run(self) -> None:
        try:
            while not self.is_stopping:
                seen = self.signals
                pause = self._work()
                if not self.is_stopping:
                    self.wait(seen, pause)
        finally:
            try:
                self._end()
            finally:
                self.is_over = True
                self.wake()
                self.then()
