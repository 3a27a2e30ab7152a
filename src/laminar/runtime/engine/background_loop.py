"""Epoch after epoch, in the background: a batch is taken as soon as its policy closes it."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from laminar.errors import LoopFailed, OperatorError, SparkLost, WriterBusy
from laminar.runtime.ingest.connector_bridge import LOOP

_log = logging.getLogger("laminar.loop")

ATTEMPTS = 5
"""So often an epoch may fail in a row before the loop stops."""

_FIRST_PAUSE = 0.1  # seconds before an epoch is tried again; twice as long each time
_LONGEST_PAUSE = 5.0
_LEAST_PATIENCE = 10.0
"""Seconds that `stop` waits however short the patience of other calls: epochs do end."""


class Ways(Protocol):
    """The bridges, as the loop sees them."""

    running: bool

    @property
    def signals(self) -> int:
        """A number that differs once something has happened."""
        ...

    def pump(self) -> None:
        """Let sources be polled."""
        ...

    @property
    def is_awaited(self) -> bool:
        """Whether epochs may be waiting for the caller, who therefore must not wait for one."""
        ...

    def wake(self) -> None:
        """Say that something has happened: every wait ends."""
        ...

    def wait(self, seen: int, at_most: float = ...) -> None:
        """Wait until `signals` is not `seen` any more, for so many seconds at the most."""
        ...

    def errors(self) -> dict[str, Exception]:
        """Return which sources fail, and why."""
        ...


@dataclass(frozen=True, slots=True)
class LoopStatus:
    """How the loop in the background is doing."""

    running: bool = False
    epochs: int = 0
    failures: int = 0
    error: str | None = None
    """What went wrong last and was not reported by a call yet."""


class BackgroundLoop:
    """Steps until it is stopped.

    An error is kept and reported once: by `stop`, by the next call, and meanwhile in the metrics.
    A source that cannot be read is tried again while the others go on. An epoch that fails is
    tried again, later each time; after five in a row the loop stops, and nothing is lost.

    Args:
        ways: the bridges.
        step: takes what is ready, and returns how many epochs that made.
        epoch: the last committed epoch.
        patience: for how many seconds `stop` waits for an epoch to end.
    """

    def __init__(
        self,
        ways: Ways,
        step: Callable[[], int],
        epoch: Callable[[], int],
        patience: Callable[[], float] = lambda: 600.0,
    ) -> None:
        self._ways = ways
        self._step = step
        self._epoch = epoch
        self._patience = patience
        self._guard = threading.Lock()  # that there is one loop, however many start it
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._kept: deque[Exception] = deque(maxlen=1)  # put in by the loop, taken out by anybody
        self._seen: Exception | None = None
        self._told = ""
        self._epochs = self._failures = 0

    @property
    def status(self) -> LoopStatus:
        """How it is doing."""
        kept = next(map(str, tuple(self._kept)), None)
        return LoopStatus(self._ways.running, self._epochs, self._failures, kept)

    def start(self) -> None:
        """Begin; nothing happens if it runs already."""
        with self._guard:
            if self._ways.running:
                return
            # Its own, for a loop that a listener has stopped may still be at its last epoch.
            self._stopping = threading.Event()
            self._seen, self._told = None, ""
            self._ways.running = True
            about = (self._stopping,)
            self._thread = threading.Thread(target=self._run, args=about, name=LOOP, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End after the epoch that runs, and raise what went wrong and was not reported yet."""
        self.halt()
        self.report()

    def halt(self) -> None:
        """End after the epoch that runs; who is called by it, or waited for, does not wait.

        Raises:
            WriterBusy: that epoch, or what is told of it, takes too long; it ends after it.
        """
        with self._guard:
            thread, stopping = self._thread, self._stopping
            stopping.set()
        self._ways.wake()
        try:
            if thread is not None and not self._ways.is_awaited:
                self._join(thread)
        finally:
            self._ended(stopping)

    def _join(self, thread: threading.Thread) -> None:
        patience = max(self._patience(), _LEAST_PATIENCE)
        thread.join(patience)
        if thread.is_alive():
            raise WriterBusy("the last epoch of the background loop", patience, LOOP)

    def _ended(self, stopping: threading.Event) -> None:
        """Let nobody wait for epochs of a loop any more, also if it still waits for one of them."""
        with self._guard:
            if self._stopping is stopping:
                self._ways.running = False

    def report(self) -> None:
        """Raise what went wrong since the last report."""
        try:
            kept = self._kept.pop()
        except IndexError:
            return
        raise kept

    def keep(self, error: Exception) -> None:
        """Remember an error until somebody asks; the same one is told once."""
        self._failures += 1
        if self._told == str(error):
            return
        self._told = str(error)
        self._kept.append(error)
        _log.warning("the background loop met an error", extra={"error": str(error)})

    def _run(self, stopping: threading.Event) -> None:
        """Run epochs until it should stop; however this ends, nobody waits for it any more."""
        try:
            self._step_until(stopping)
        except BaseException as error:
            # Such as SystemExit of a listener: it ends this thread, and nobody would hear of it.
            lost = LoopFailed(repr(error), 1)
            lost.__cause__ = error
            self._kept.append(lost)
        finally:
            self._ended(stopping)

    def _step_until(self, stopping: threading.Event) -> None:
        failed = 0
        while not stopping.is_set():
            seen, before = self._ways.signals, self._epoch()
            try:
                self._ways.pump()
                done = self._step()
            except Exception as error:
                # A view that fails stays behind and is tried again in its own time; all others go
                # on, so that is no failure of the loop.
                is_view = isinstance(error, OperatorError) or self._epoch() > before
                failed = 0 if is_view else failed + 1
                if isinstance(error, SparkLost) and error.is_restarted:
                    self._failures += 1  # the next try has another one: nobody has to do anything
                else:
                    self.keep(error)
                if failed >= ATTEMPTS:
                    lost = LoopFailed(str(error), failed)
                    lost.__cause__ = error
                    self._kept.append(lost)
                    break
                if failed:
                    stopping.wait(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (failed - 1)))
                continue
            self._note_sources()
            if done:
                failed = 0
                self._epochs += done
            else:
                self._ways.wait(seen)

    def _note_sources(self) -> None:
        failing = self._ways.errors()
        if not failing and self._seen is not None:
            self._seen, self._told = None, ""  # mended; the next time it is news again
        for error in failing.values():
            if error is not self._seen:
                self._seen = error
                self.keep(error)
