"""A database's folder as the console sees it: read again when asked, but not for every request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from laminar.console.graph import Graph
from laminar.console.history import EpochSummary, History
from laminar.model.trace import Manifest
from laminar.runtime.introspection.status import DatabaseStatus, StatusReader
from laminar.store.cursors import CursorStore

FRESH_SECONDS = 0.5
"""Requests within so short a time get the same answer."""

PATIENCE_SECONDS = 10.0
"""How long a connector's answer counts, whether it has more."""


@dataclass(frozen=True)
class Snapshot:
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
    """Snapshots of a folder, for any number of threads."""

    root: Path
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    _reader: StatusReader = field(init=False)
    _history: History = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _last: tuple[float, Snapshot] | None = None
    _seen: tuple[int, int] = (0, 0)
    """The folder that was read last, and the newest epoch that was in it."""

    def __post_init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._reader = StatusReader(self.root, PATIENCE_SECONDS, self.clock)
        self._history = History(self.root)

    def snapshot(self) -> Snapshot:
        """Return how things are, or were a moment ago.

        Raises:
            DatabaseNotFound: there is no database any more, or not yet.
            StoreError: something in it is damaged.
        """
        with self._lock:
            if self._last is None or self.clock() - self._last[0] >= FRESH_SECONDS:
                # Kept only if it was read to the end: an error is told to everybody who asks.
                self._last = None
                found = self._read()
                self._last = (self.clock(), found)
            return self._last[1]

    def _read(self) -> Snapshot:
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
        return Snapshot(manifest, status, cursors, epochs, damaged, now)
