"""Turns: one thread at a time does something, and everybody knows who it is.

A turn is no lock. It lasts as long as an epoch, so whoever waits for one waits in a queue, knows
for whom, and gives up after a while.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from laminar.errors import DatabaseClosed, WriterBusy, WriteWithinEpoch

_INSIDE: ContextVar[tuple[tuple[Path, str], ...]] = ContextVar("laminar_inside", default=())
"""The epochs that the running code is part of: of which database, and as which node."""


@contextmanager
def inside(root: Path, node: str) -> Iterator[None]:
    """Note that what runs now is a user's code which an epoch of a database waits for.

    Law: under this mark nobody gets a turn of that database, not even the thread that has it.

    Args:
        root: the database, as its segment store knows it: resolved once.
        node: what the code belongs to.
    """
    before = _INSIDE.set((*_INSIDE.get(), (root, node)))
    try:
        yield
    finally:
        _INSIDE.reset(before)


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a turn."""

    what: str
    """What it is for, in words."""
    since: float
    """By the turn's clock, in seconds."""
    thread: str


class WriterTurn:
    """The turn of one database; whoever has it may take it again.

    Law: it is given in the order in which it is asked for. A call that is refused, or has waited to
    the end, has changed nothing.

    Args:
        root: the database.
        clock: seconds, never going back.
    """

    def __init__(self, root: Path, clock: Callable[[], float] = monotonic) -> None:
        self._root = root.resolve()
        self._clock = clock
        self.timeout_ms = 600_000
        """So long a call waits; 0 does not wait."""
        self._changed = threading.Condition(threading.Lock())
        self._owner: int | None = None
        self._held: list[Holder] = []
        self._queue: deque[object] = deque()
        self._is_closed = False

    @contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        """Have the turn as long as the context lasts.

        Raises:
            WriterBusy: somebody else had it until the patience was over.
            WriteWithinEpoch: an epoch waits for the caller, who would wait for the epoch.
            DatabaseClosed: there are no turns any more.
        """
        self.refuse_inside(what)
        with self._changed:
            if not self.is_mine:
                self._wait()
            self._enter(what)
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def if_free(self, what: str) -> Iterator[bool]:
        """Have the turn unless that means waiting; say whether."""
        with self._changed:
            is_free = self._owner is None and not self._queue and not self._is_closed
            found = (self.is_mine or is_free) and self._node() is None
            if found:
                self._enter(what)
        try:
            yield found
        finally:
            if found:
                self._leave()

    def doing(self, what: str) -> None:
        """Say more precisely what the turn is for; only who has it may."""
        self._held[-1] = self._holder(what)

    @property
    def patience(self) -> float:
        """So many seconds a call waits; never more than a thread can."""
        return min(self.timeout_ms, int(threading.TIMEOUT_MAX) * 1000) / 1000

    @property
    def is_mine(self) -> bool:
        """Whether the caller has it."""
        return self._owner == threading.get_ident()

    @property
    def holder(self) -> Holder | None:
        """Who has it; the innermost purpose, if it was taken more than once."""
        held = tuple(self._held)
        return held[-1] if held else None

    @property
    def is_inside(self) -> bool:
        """Whether an epoch waits for the caller, who therefore must not wait for one."""
        return self._node() is not None

    def inside(self, node: str) -> AbstractContextManager[None]:
        """Note that what runs now is a user's code which an epoch may wait for; see `inside`."""
        return inside(self._root, node)

    def refuse_inside(self, what: str) -> None:
        """Raise if an epoch waits for the caller."""
        node = self._node()
        if node is not None:
            raise WriteWithinEpoch(what, node)

    def close(self) -> None:
        """Let nobody have it from now on, also of those who wait; only who has it may."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def busy(self) -> WriterBusy:
        """Return the error that says who has it."""
        held = self.holder or self._holder("somebody")
        return WriterBusy(held.what, self._clock() - held.since, held.thread)

    def _node(self) -> str | None:
        return next((node for root, node in _INSIDE.get() if root == self._root), None)

    def _wait(self) -> None:
        """Wait at the end of the queue; called with the condition held."""
        place = object()
        until = self._clock() + self.patience
        self._queue.append(place)
        try:
            while self._owner is not None or self._queue[0] is not place or self._is_closed:
                if self._is_closed:
                    raise DatabaseClosed(str(self._root))
                left = until - self._clock()
                if left <= 0:
                    raise self.busy()
                self._changed.wait(left)
        finally:
            self._queue.remove(place)
            self._changed.notify_all()  # the next in the queue may have looked too early

    def _enter(self, what: str) -> None:
        self._owner = threading.get_ident()
        self._held.append(self._holder(what))

    def _leave(self) -> None:
        with self._changed:
            self._held.pop()
            if not self._held:
                self._owner = None
                self._changed.notify_all()

    def _holder(self, what: str) -> Holder:
        return Holder(what, self._clock(), threading.current_thread().name)
