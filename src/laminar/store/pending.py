"""Rows pushed from Python, kept until no replay of the epoch that read them is possible."""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from laminar.errors.database import DatabaseClosed, WriterBusy
from laminar.errors.store import SegmentCorrupt, SegmentMissing, UnsupportedFormat
from laminar.store import durable_files, parquet
from laminar.store.names import folder_name

PENDING = "pending"
"""The folder of all pending rows under the store's root."""

FORMAT_VERSION = 2
"""The newest format, the one that is written; the first is read, too.

The name of a file says its number, its format, the number of the batch before it, how many rows it
has and the checksum of its bytes: `000000000007-v2-6-3-0a1b2c3d.parquet`. So the file is plain
Parquet, which Spark reads as it is. In the first format, `000000000007.parquet`, only pages have
checksums.
"""

_NAME = re.compile(r"(\d{12})(?:-v(\d+)-(.*))?\.parquet")
_ABOUT = re.compile(r"(\d+)-(\d+)-([0-9a-f]{8})")


@dataclass(frozen=True, slots=True)
class PendingBatch:
    """Rows that were pushed together."""

    seq: int
    path: Path
    rows: int
    checksum: str | None
    """Of all bytes of the file; None in the first format."""
    before: int = 0
    """The number of the batch that waited before it; 0 if none did, or none is known."""

    def read(self) -> pa.Table:
        """Return the rows.

        Raises:
            SegmentMissing: the file is not there.
            SegmentCorrupt: it does not hold what was written.
        """
        return parquet.decode(self.path, self.checksum)


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
        self._verified: set[PendingBatch] = set()
        self._gate = threading.Condition(threading.Lock())
        self._pushing = 0
        self._is_held = self._is_closed = False
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
            checksum = durable_files.checksum_of(body)
            before = queue[-1].seq if queue else 0
            about = f"v{FORMAT_VERSION}-{before}-{data.num_rows}-{checksum.removeprefix('crc32:')}"
            path = self._folder(table) / f"{seq:012d}-{about}.parquet"
            durable_files.write_atomic(path, body, point="pending")
            batch = PendingBatch(seq, path, data.num_rows, checksum, before)
            queue.append(batch)
            self._verified.add(batch)
            self._last[table] = seq
            return seq

    @contextmanager
    def held(self, patience: float) -> Iterator[None]:
        """Let nobody begin to push until this is over: what is there is about to be replaced.

        Raises:
            WriterBusy: somebody is pushing for longer than the patience lasts, in seconds.
        """
        with self._gate:
            if not self._gate.wait_for(lambda: not self._pushing and not self._is_held, patience):
                raise WriterBusy("pushing rows", patience)
            self._is_held = True
        try:
            yield
        finally:
            with self._gate:
                self._is_held = False
                self._gate.notify_all()

    @contextmanager
    def pushing(self, patience: float) -> Iterator[None]:
        """Push within this, and with no lock: it waits as long as all is `held`.

        Raises:
            WriterBusy: that is longer than the patience lasts, in seconds; nothing was pushed.
            DatabaseClosed: the folder is not ours any more.
        """
        with self._gate:
            if not self._gate.wait_for(lambda: not self._is_held, patience):
                raise WriterBusy("a restore", patience)
            if self._is_closed:
                raise DatabaseClosed(str(self._root.parent))
            self._pushing += 1
        try:
            yield
        finally:
            with self._gate:
                self._pushing -= 1
                self._gate.notify_all()

    def close(self, patience: float) -> None:
        """Let nobody push from now on, after those who do: others may write to the folder then.

        Raises:
            WriterBusy: somebody is pushing for longer than the patience lasts, in seconds.
        """
        with self.held(patience):
            self._is_closed = True

    def after(self, table: str, seq: int) -> list[PendingBatch]:
        """Return the batches after a sequence number, in order."""
        with self._lock(table):
            return [batch for batch in self._queue(table) if batch.seq > seq]

    def between(self, table: str, start: int, end: int) -> list[PendingBatch]:
        """Return the batches after one number up to another, in order.

        Raises:
            SegmentMissing: one of them is not there.
        """
        found = [batch for batch in self.after(table, start) if batch.seq <= end]
        at = start
        for batch in found:
            if batch.before > at:
                raise SegmentMissing(str(self._folder(table) / f"{batch.before:012d}-...parquet"))
            at = batch.seq
        if at != end:
            raise SegmentMissing(str(self._folder(table) / f"{end:012d}-...parquet"))
        return found

    def verify(self, batches: Iterable[PendingBatch]) -> None:
        """Check batches that somebody else is about to read; each is looked at once.

        Raises:
            SegmentMissing: a file is not there.
            SegmentCorrupt: it does not hold what was written.
        """
        for each in batches:
            if each not in self._verified:
                each.read()
                self._verified.add(each)

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
                    durable_files.remove(batch.path, point="pending")
            self._keep(queue, lambda batch: not first <= batch.seq <= last)

    def drop_through(self, table: str, seq: int) -> None:
        """Forget the batches up to a number, once nobody will read them again."""
        with self._lock(table):
            queue = self._queue(table)
            for batch in queue:
                if batch.seq <= seq:
                    # One that stays behind is harmless: readers ask for what comes after it.
                    durable_files.remove_quietly(batch.path, point="pending")
            self._keep(queue, lambda batch: batch.seq > seq)

    def reload(self, committed: Mapping[str, int]) -> None:
        """Look again at what is there, after it was changed from outside."""
        self._committed = dict(committed)
        for table in tuple(self._queues):
            self._forget(table)

    def keep_only(self, tables: Collection[str]) -> None:
        """Forget what waits for tables that are no longer there."""
        kept = {folder_name(table) for table in tables}
        for folder in durable_files.listed(self._root):
            if folder.name not in kept:
                for path in durable_files.listed(folder):
                    durable_files.remove_quietly(path, point="pending")
        for table in [known for known in tuple(self._queues) if known not in tables]:
            self._forget(table)

    def _keep(self, queue: list[PendingBatch], stays: Callable[[PendingBatch], bool]) -> None:
        self._verified.difference_update(batch for batch in queue if not stays(batch))
        queue[:] = [batch for batch in queue if stays(batch)]

    def _forget(self, table: str) -> None:
        """Read a table's queue from disk the next time; who is at it now is not disturbed."""
        with self._lock(table):
            self._verified.difference_update(self._queues.pop(table, ()))
            self._last.pop(table, None)

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
        found = (described(path) for path in durable_files.listed(self._folder(table)))
        return sorted((each for each in found if each), key=lambda each: each.seq)

    def _folder(self, table: str) -> Path:
        return self._root / folder_name(table)


def described(path: Path) -> PendingBatch | None:
    """Return what a file's name says of it; None if it is no batch.

    Raises:
        UnsupportedFormat: another version wrote it.
        SegmentCorrupt: its name makes no sense.
    """
    found = _NAME.fullmatch(path.name)
    if found is None:
        return None
    number, version, rest = found.groups()
    if version is None:
        return PendingBatch(int(number), path, parquet.count(path), None)
    if int(version) != FORMAT_VERSION:
        raise UnsupportedFormat(int(version), FORMAT_VERSION, "pushed rows")
    about = _ABOUT.fullmatch(rest)
    if about is None:
        raise SegmentCorrupt(str(path), "its name is not that of pushed rows")
    return PendingBatch(int(number), path, int(about[2]), f"crc32:{about[3]}", int(about[1]))
