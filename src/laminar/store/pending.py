"""Rows pushed from Python, kept until no replay of the epoch that read them is possible."""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]

from laminar.store import files, parquet
from laminar.store.names import folder_name

PENDING = "pending"
"""The folder of all pending rows under the store's root."""

_NAME = re.compile(r"\d{12}\.parquet")


@dataclass(frozen=True, slots=True)
class PendingBatch:
    """Rows that were pushed together."""

    seq: int
    path: Path
    rows: int


class PendingLog:
    """A durable queue per table. A batch is in it if and only if its file has its final name.

    Args:
        root: the store's root.
        committed: table -> the last sequence number that an epoch has consumed. Numbers go on
            after it even when no file is left, so that none is ever given out twice.
    """

    def __init__(self, root: Path, committed: Mapping[str, int] | None = None) -> None:
        self._root = root.resolve() / PENDING
        self._committed = dict(committed or {})
        self._queues: dict[str, list[PendingBatch]] = {}
        self._last: dict[str, int] = {}
        self._guard = threading.Lock()
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def append(self, table: str, data: pa.Table) -> int:
        """Keep rows; on return they survive a crash. Returns their sequence number.

        Raises:
            StoreUnwritable: the disk refuses; nothing was kept.
        """
        body = parquet.encode(data)
        # Written under the lock: were number 5 there before 4, a reader would step over 4.
        with self._lock(table):
            queue = self._queue(table)
            seq = self._last[table] + 1
            path = self._folder(table) / f"{seq:012d}.parquet"
            files.write_atomic(path, body, point="pending")
            queue.append(PendingBatch(seq, path, data.num_rows))
            self._last[table] = seq
            return seq

    def after(self, table: str, seq: int) -> list[PendingBatch]:
        """Return the batches after a sequence number, in order."""
        with self._lock(table):
            return [batch for batch in self._queue(table) if batch.seq > seq]

    def newest(self, table: str) -> int:
        """Return the number of the last batch that was pushed; 0 if none was."""
        with self._lock(table):
            self._queue(table)
            return self._last[table]

    def remove_between(self, table: str, first: int, last: int) -> None:
        """Remove the batches from one number to another; what comes later stays."""
        with self._lock(table):
            queue = self._queue(table)
            for batch in queue:
                if first <= batch.seq <= last:
                    with files.unwritable(batch.path):
                        batch.path.unlink(missing_ok=True)
            queue[:] = [batch for batch in queue if not first <= batch.seq <= last]

    def drop_through(self, table: str, seq: int) -> None:
        """Forget the batches up to a number, once nobody will read them again."""
        with self._lock(table):
            queue = self._queue(table)
            for batch in queue:
                if batch.seq <= seq:
                    # One that stays behind is harmless: readers ask for what comes after it.
                    files.remove_quietly(batch.path)
            queue[:] = [batch for batch in queue if batch.seq > seq]

    def reload(self, committed: Mapping[str, int]) -> None:
        """Look again at what is there, after it was changed from outside."""
        with self._guard:
            self._committed = dict(committed)
            self._queues.clear()
            self._last.clear()

    def keep_only(self, tables: Collection[str]) -> None:
        """Forget what waits for tables that are no longer there."""
        if not self._root.is_dir():
            return
        kept = {folder_name(table) for table in tables}
        with self._guard:
            for folder in self._root.iterdir():
                if folder.name not in kept:
                    for path in folder.iterdir():
                        files.remove_quietly(path)
            for table in [known for known in self._queues if known not in tables]:
                del self._queues[table], self._last[table]

    def _lock(self, table: str) -> threading.Lock:
        with self._guard:
            return self._locks[table]

    def _queue(self, table: str) -> list[PendingBatch]:
        """Return a table's queue, read from disk the first time."""
        if table not in self._queues:
            batches = self._load(table)
            newest = batches[-1].seq if batches else 0
            self._last[table] = max(newest, self._committed.get(table, 0))
            self._queues[table] = batches
        return self._queues[table]

    def _load(self, table: str) -> list[PendingBatch]:
        folder = self._folder(table)
        if not folder.is_dir():
            return []
        found = sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
        return [PendingBatch(int(path.stem), path, parquet.count(path)) for path in found]

    def _folder(self, table: str) -> Path:
        return self._root / folder_name(table)
