"""Decides by a seed which thread goes on, wherever threads do something durable.

Every thread that comes to a failpoint stands still there. One of those that stand is let go at a
time, drawn by the seed, once nobody else has come for a moment: a thread that waits for a lock, or
for Spark, cannot be seen, so it is not waited for.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from laminar.store import durable_files

_MOMENT = 0.002
_AT_MOST = 60.0


class Interleaver:
    """Lets threads pass failpoints one at a time, in an order of its own."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._changed = threading.Condition()
        self._standing: list[tuple[str, int]] = []
        """Threads, by name: who comes first must not matter."""
        self._is_over = False
        self.passed = 0
        """How often a thread was let go."""
        self.choices = 0
        """How often there was more than one to choose from."""

    @contextmanager
    def deciding(self) -> Iterator[None]:
        """Decide inside; when it is over everybody goes on."""
        decider = threading.Thread(target=self._decide, name="interleaver", daemon=True)
        decider.start()
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(durable_files, "failpoint", self._stand)
                yield
        finally:
            with self._changed:
                self._is_over = True
                self._standing.clear()
                self._changed.notify_all()
            decider.join(_AT_MOST)

    def _stand(self, _point: str) -> None:
        me = (threading.current_thread().name, threading.get_ident())
        with self._changed:
            if self._is_over:
                return
            self._standing.append(me)
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: me not in self._standing, _AT_MOST)

    def _decide(self) -> None:
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._standing or self._is_over)
                if self._is_over:
                    return
                while self._changed.wait(_MOMENT):
                    pass  # somebody else has come
                self.passed += 1
                self.choices += len(self._standing) > 1
                if self._standing:
                    self._standing.sort()
                    self._standing.pop(self._chance.randrange(len(self._standing)))
                self._changed.notify_all()
