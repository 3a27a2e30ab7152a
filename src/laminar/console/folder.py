"""A database's folder as the console sees it: read again when asked, but not for every request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from laminar.console.history import EpochSummary, History
from laminar.console.stored_dag import Graph
from laminar.errors import ConnectorError
from laminar.model.trace import Manifest
from laminar.runtime.introspection.status import DatabaseStatus, StatusReader
from laminar.store.cursors import CursorStore

FRESH_SECONDS = 0.5
"""Requests within so short a time get the same answer."""

PATIENCE_SECONDS = 10.0
"""How long a connector's answer counts, whether it has more."""


@dataclass(frozen=True)
class FolderState:
    """Everything about one moment: all that is shown together comes from one manifest."""

    manifest: Manifest
    status: DatabaseStatus
    cursors: Mapping[str, int | None]
    """Sink -> the last epoch it has taken."""
    epochs: tuple[EpochSummary, ...]
    """The epochs that are kept, oldest first."""
    damaged: tuple[str, ...]
    """Manifests that are kept and cannot be read."""
    read_at: datetime

    @cached_property
    def graph(self) -> Graph:
        """The DAG of all definitions."""
        return Graph.of(self.manifest)


@dataclass(slots=True)
class Folder:
    """States of a folder, for any number of threads; one of them at a time reads it.

    Reading may mean asking connectors, which take their time: whoever comes meanwhile gets the last
    snapshot, and waits only if there is none.
    """

    root: Path
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    _reader: StatusReader = field(init=False)
    _history: History = field(init=False)
    _lock: threading.Lock = field(init=False)
    _last: tuple[float, FolderState] | None = None
    _reading: Future[FolderState] | None = None
    """What the thread that reads now will find."""
    _seen: tuple[int, int] = (0, 0)
    """The folder that was read last, and the newest epoch that was in it."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._reader = StatusReader(self.root, PATIENCE_SECONDS, self.clock)
        self._history = History(self.root)

    def snapshot(self) -> FolderState:
        """Return how things are, or were a moment ago.

        Raises:
            DatabaseNotFound: there is no database any more, or not yet.
            StoreError: something in it is damaged.
            ConnectorError: nothing was ever read, because a source does not answer.
        """
        with self._lock:
            last, others = self._last, self._reading
            if last is not None and (others or self.clock() - last[0] < FRESH_SECONDS):
                return last[1]
            if others is None:
                mine = self._reading = Future[FolderState]()
        return self._read_for_all(mine) if others is None else self._wait_for(others)

    def _read_for_all(self, found: Future[FolderState]) -> FolderState:
        last: tuple[float, FolderState] | None = None
        try:
            found.set_result(self._read())
            last = (self.clock(), found.result())
        except BaseException as error:
            found.set_exception(error)
        with self._lock:
            # Kept only if it was read to the end: an error is told to everybody who asks.
            self._last, self._reading = last, None
        return found.result()

    def _wait_for(self, others: Future[FolderState]) -> FolderState:
        try:
            return others.result(PATIENCE_SECONDS)
        except TimeoutError:
            asked = self._reader.asking or "source"
            reason = f"it has not answered for {PATIENCE_SECONDS:g} s"
            raise ConnectorError(asked, reason) from None

    def _read(self) -> FolderState:
        now = self.now()
        manifest, status = self._reader.read(now)
        place, epoch = self._seen
        self._seen = (self.root.stat().st_ino, manifest.epoch)
        if self._seen[0] != place or manifest.epoch < epoch:
            # Another database is here now: what is known of the old one's files is of no use.
            self._forget()
            manifest, status = self._reader.read(now)
        epochs, damaged = self._history.read(manifest)
        store = CursorStore(self.root)
        cursors: dict[str, int | None] = {}
        for sink in manifest.state.sinks:
            found = store.get(sink["name"])
            cursors[sink["name"]] = None if found is None else found.epoch
        return FolderState(manifest, status, cursors, epochs, damaged, now)
