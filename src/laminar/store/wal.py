"""The log of epochs: which rows an epoch takes is durable before it runs.

One line per record, `<checksum> <json>`, appended and synced with one write. A line that was cut
short by a crash is the last one and says nothing; the epoch had not begun. The last record of an
epoch counts, so that one that failed may be begun again with other ranges; it voids the records of
all epochs behind it, which stood on what it takes the place of.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from laminar.errors.store import StoreUnwritable, UnsupportedFormat
from laminar.model.row_counts import Skipped
from laminar.model.trace import Range
from laminar.store import durable_files, private

WAL = "wal"
"""The folder of the log under the store's root."""

FORMAT_VERSION = 1
"""The newest format of a record that this code writes and reads; every record carries its own."""

_NAME = "epochs.log"
_SLACK = 512
"""So many records that say nothing any more are left in the file before it is written anew."""


@dataclass(frozen=True, slots=True)
class LoggedEpoch:
    """All that an epoch depends on besides the state before it."""

    epoch: int
    ranges: tuple[Range, ...]
    now_ms: int = 0
    """The wall clock that the epoch goes by."""
    said: Mapping[str, int] = field(default_factory=dict)
    """Watermarks that users announced before it."""
    skipped: Mapping[str, Skipped] | None = field(default_factory=dict)
    """Source -> what was let go before its range; None in what an older version wrote."""


class EpochLog:
    """Epochs that began, by number. Only whoever has the writer's turn uses it.

    Args:
        root: the store's root.

    Raises:
        UnsupportedFormat: a newer version wrote it.
    """

    def __init__(self, root: Path, *, read_only: bool = False) -> None:
        self._read_only = read_only
        self._path = root.resolve() / WAL / _NAME
        self._file: IO[bytes] | None = None
        self._records = 0
        self._cut_to: int | None = None  # half a record may stand behind this, and could not go
        self._epochs: dict[int, LoggedEpoch] = {}
        self.damaged: tuple[str, ...] = ()
        """What could not be read, in words; an end that was cut short by a crash is no damage."""
        self._load()

    def begin(
        self,
        epoch: int,
        ranges: Iterable[Range],
        now_ms: int = 0,
        said: Mapping[str, int] | None = None,
        skipped: Mapping[str, Skipped] | None = MappingProxyType({}),
    ) -> LoggedEpoch:
        """Make an epoch's ranges durable; it takes the place of what was logged for it before.

        Raises:
            StoreUnwritable: the disk refuses; the epoch has not begun.
        """
        entry = LoggedEpoch(epoch, tuple(ranges), now_ms, dict(said or {}), skipped)
        self._append(_to_json(entry))
        self._put(entry)
        return entry

    def withdraw(self, epoch: int) -> None:
        """Take back an epoch that failed, and those that began after it."""
        # If it cannot be said, the epoch is tried once more after a restart: no harm. Once one is
        # begun under its number, those behind it say nothing any more.
        if self._void(epoch):
            with contextlib.suppress(StoreUnwritable):
                self._append({"withdrawn": epoch})

    def _put(self, entry: LoggedEpoch) -> None:
        self._void(entry.epoch)
        self._epochs[entry.epoch] = entry

    def _void(self, epoch: int) -> bool:
        """Forget an epoch and those behind it; whether there were any."""
        gone = [each for each in self._epochs if each >= epoch]
        for each in gone:
            del self._epochs[each]
        return bool(gone)

    def open_after(self, epoch: int) -> list[LoggedEpoch]:
        """Return the epochs that began after one, in order and without a gap."""
        found: list[LoggedEpoch] = []
        while (entry := self._epochs.get(epoch + len(found) + 1)) is not None:
            found.append(entry)
        return found

    def last(self) -> int | None:
        """Return the newest epoch that began; None if nothing is known of any."""
        return max(self._epochs, default=None)

    def forget_through(self, epoch: int) -> list[LoggedEpoch]:
        """Forget epochs that nobody will replay any more; return them, oldest first."""
        gone = [self._epochs.pop(each) for each in sorted(self._epochs) if each <= epoch]
        if self._records - len(self._epochs) > _SLACK + len(self._epochs):
            with durable_files.unwritable(self._path):
                self._rewrite()
        return gone

    def mend(self) -> None:
        """Write the log anew without what could not be read."""
        with durable_files.unwritable(self._path):
            self._rewrite()

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _append(self, record: Mapping[str, Any]) -> None:
        """Add a record, whole and synced, or leave the file as it was."""
        with durable_files.unwritable(self._path):
            file = self._opened()
            self._cut(file)
            end = os.fstat(file.fileno()).st_size
            try:
                durable_files.failpoint("wal.before_write")
                _write_all(file, _line(record))
                durable_files.failpoint("wal.after_write")
                os.fdatasync(file.fileno())
                durable_files.failpoint("wal.after_sync")
            except OSError:
                # Half a line must not stay in front of the next one.
                self._cut_to = end
                with contextlib.suppress(OSError):
                    self._cut(file)
                raise
            self._records += 1

    def _cut(self, file: IO[bytes]) -> None:
        """Take away what a write that failed has left."""
        if self._cut_to is not None:
            durable_files.failpoint("wal.before_cut")
            file.truncate(self._cut_to)
            self._cut_to = None

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            is_new = not self._path.exists()
            durable_files.make_dir(self._path.parent)
            self._file = open(self._path, "ab", buffering=0, opener=private.opener)  # noqa: SIM115
            if is_new:
                durable_files.failpoint("wal.after_create")
                durable_files.sync_dir(self._path.parent)
        return self._file

    def _rewrite(self) -> None:
        temp = self._path.with_name(f".{self._path.name}{durable_files.TEMP_SUFFIX}")
        durable_files.failpoint("wal.before_rewrite")
        with open(temp, "wb", opener=private.opener) as file:
            for epoch in sorted(self._epochs):
                file.write(_line(_to_json(self._epochs[epoch])))
            file.flush()
            os.fsync(file.fileno())
        durable_files.failpoint("wal.before_rename")
        if self._file is not None:
            self._file.close()
            self._file = None
        temp.replace(self._path)
        self._cut_to = None
        durable_files.failpoint("wal.after_rename")
        durable_files.sync_dir(self._path.parent)
        durable_files.failpoint("wal.after_rewrite")
        self._records = len(self._epochs)

    def _load(self) -> None:
        try:
            data = durable_files.read(self._path)
        except FileNotFoundError:
            return
        *lines, rest = data.split(b"\n")
        bad = [number for number, line in enumerate(lines, 1) if not self._take(line)]
        if _is_record(rest[:-1]):
            # All of it is there but its end, which a write that was cut short cannot leave.
            self._take(rest[:-1])
            bad.append(len(lines) + 1)
            rest = b""
        self.damaged = tuple(f"{self._path}: line {number} is damaged" for number in bad)
        self._records = len(lines)
        if rest and not self._read_only:  # a writer beside us may be in the middle of a line
            with durable_files.unwritable(self._path):
                durable_files.failpoint("wal.before_truncate")
                os.truncate(self._path, len(data) - len(rest))
                durable_files.failpoint("wal.after_truncate")

    def _take(self, line: bytes) -> bool:
        """Take in a record; say whether it could be understood."""
        if not _is_record(line):
            return False
        record = json.loads(line.partition(b" ")[2])
        if record["format"] != FORMAT_VERSION:
            raise UnsupportedFormat(record["format"], FORMAT_VERSION, "the log")
        if "withdrawn" in record:
            self._void(record["withdrawn"])
        else:
            self._put(_from_json(record))
        return True


def _to_json(entry: LoggedEpoch) -> dict[str, Any]:
    ranges = [[each.table, each.start, each.end] for each in entry.ranges]
    record = {"epoch": entry.epoch, "ranges": ranges, "now_ms": entry.now_ms, "said": entry.said}
    return record if entry.skipped is None else {**record, **skipped_json(entry.skipped)}


def skipped_json(skipped: Mapping[str, Skipped]) -> dict[str, Any]:
    """Return what was let go before ranges, as a record has it."""
    return {"skipped": {name: each.to_json() for name, each in skipped.items()}}


def skipped_of(record: Mapping[str, Any]) -> dict[str, Skipped] | None:
    """Read it back; None if the record was written by a version that did not say so."""
    if "skipped" not in record:
        return None
    return {name: Skipped(**each) for name, each in record["skipped"].items()}


def _from_json(record: Mapping[str, Any]) -> LoggedEpoch:
    ranges: Sequence[Any] = record["ranges"]
    return LoggedEpoch(
        record["epoch"],
        tuple(Range(*each) for each in ranges),
        record["now_ms"],
        record["said"],
        skipped_of(record),
    )


def _is_record(line: bytes) -> bool:
    found, _, body = line.partition(b" ")
    return found == _checksum(body)


def _line(record: Mapping[str, Any]) -> bytes:
    body = json.dumps({"format": FORMAT_VERSION, **record}, separators=(",", ":")).encode("ascii")
    return _checksum(body) + b" " + body + b"\n"


def _write_all(file: IO[bytes], line: bytes) -> None:
    """Write a line to a file without a buffer, which may take a part of it at a time."""
    left = memoryview(line)
    while left:
        left = left[file.write(left) :]


def _checksum(body: bytes) -> bytes:
    return f"{zlib.crc32(body):08x}".encode("ascii")
