"""Rows that did not fit into memory: one checksummed Arrow file per batch, durable when written.

A file is there with all its bytes or not at all. It is removed when its rows are released, that
is, after the epoch that took them is committed; until then a restart finds it again.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from laminar.bridge.messages import RowBatch, Step, size_of
from laminar.errors import SpillCorrupt, UnsupportedFormat
from laminar.store import durable_files

SPILL = "spill"
"""The folder of all spill files under the store's root."""

FORMAT_VERSION = 2
"""The newest format, the one that is written. Rows in the first one are read from their source."""

_MAGIC = re.compile(rb"LMRSPILL(\d+)\n")
_HEAD = struct.Struct(">II")  # how long the header is, and its checksum
_NAME = re.compile(r"\d{12}\.spill")
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True)
class SpillFile:
    """A batch on disk: its range, and the ranges that were in memory before it."""

    path: Path
    size: int
    rows: int
    event_time: int | None
    note: Any
    step: Step
    before: tuple[Step, ...]


class SpillLog:
    """The spill files of one source, in order.

    Args:
        folder: theirs alone; created when the first batch is spilled.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.found: list[SpillFile] = []
        """What an earlier process has left, oldest first."""
        self._written = 0  # by the producer alone, or by nobody yet
        self._removed = 0  # by the consumer alone
        self._next = 1
        self._open()

    def _open(self) -> None:
        for path in durable_files.listed(self._folder):
            if path.name.endswith(durable_files.TEMP_SUFFIX):
                durable_files.remove_quietly(path, point="spill")
            elif _NAME.fullmatch(path.name):
                self._next = int(path.stem) + 1
                if _version(path) == 1:
                    durable_files.remove_quietly(
                        path, point="spill"
                    )  # its header cannot be checked
                else:
                    self.found.append(_described(path))
        self._written = sum(each.size for each in self.found)

    @property
    def bytes(self) -> int:
        """How many the files have that are there now."""
        return self._written - self._removed

    def append(
        self, batch: RowBatch, before: Sequence[Step] = (), limit: int | None = None
    ) -> SpillFile | None:
        """Write a batch; on return it survives a crash.

        Args:
            batch: what to write.
            before: ranges in memory that come before it.
            limit: bytes that all files may have; None is returned if they would have more.

        Raises:
            StoreUnwritable: the disk refuses; nothing was written.
        """
        data = _encoded(batch, before)
        if limit is not None and self.bytes + len(data) > limit:
            return None
        path = self._folder / f"{self._next:012d}.spill"
        durable_files.write_atomic(path, data, point="spill")
        self._next += 1
        self._written += len(data)
        return SpillFile(
            path,
            len(data),
            batch.num_rows,
            batch.event_time,
            batch.note,
            Step(batch.after, batch.start, batch.end),
            tuple(before),
        )

    def read(self, file: SpillFile) -> RowBatch:
        """Return a batch as it was sent.

        Raises:
            SpillCorrupt: the file is not what was written.
        """
        header, body = _opened(file.path)
        if zlib.crc32(body) != header["crc32"]:
            raise SpillCorrupt(str(file.path), "its checksum differs from what was written")
        with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
            rows = reader.read_all()
        step = file.step
        return RowBatch(
            rows,
            file.rows,
            size_of(rows),
            file.event_time,
            step.start,
            step.end,
            step.after,
            note=file.note,
            place=file,
        )

    def remove(self, file: SpillFile) -> None:
        """Forget a batch whose epoch is committed."""
        durable_files.remove_quietly(file.path, point="spill")
        self._removed += file.size

    def clear(self) -> None:
        """Forget what an earlier process has left."""
        for file in self.found:
            self.remove(file)
        self.found = []

    def way_from(self, position: Any) -> list[Step | SpillFile]:
        """Return how to get from a committed position to the newest spilled row.

        Ranges that were only in memory are to be read from the source again, exactly as they were.
        Files that do not follow the position are removed: their rows are committed, or the source
        is to be read again.
        """
        way: list[Step | SpillFile] = []
        for file in self.found:
            way += [step for step in file.before if step not in way]
            way.append(file)
        begins = [each.step.after if isinstance(each, SpillFile) else each.after for each in way]
        at = begins.index(position) if position in begins else len(way)
        for each in way[:at]:
            if isinstance(each, SpillFile):
                self.remove(each)
        self.found = [each for each in way[at:] if isinstance(each, SpillFile)]
        return way[at:]


def _encoded(batch: RowBatch, before: Sequence[Step]) -> bytes:
    rows: Any = batch.rows
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_OPTIONS) as writer:
        writer.write(rows)
    body = sink.getvalue()
    header = json.dumps(
        {
            "rows": batch.num_rows,
            "crc32": zlib.crc32(body),
            "size": body.size,
            "event_time": batch.event_time,
            "note": batch.note,
            "step": [batch.after, batch.start, batch.end],
            "before": [[each.after, each.start, each.end] for each in before],
        }
    ).encode()
    magic = b"LMRSPILL%d\n" % FORMAT_VERSION
    return b"".join((magic, _HEAD.pack(len(header), zlib.crc32(header)), header, body))


def _described(path: Path) -> SpillFile:
    header, body = _opened(path)
    if len(body) != header["size"]:
        raise SpillCorrupt(str(path), f"it has {len(body)} bytes of rows, not {header['size']}")
    return SpillFile(
        path,
        path.stat().st_size,
        header["rows"],
        header["event_time"],
        header["note"],
        Step(*header["step"]),
        tuple(Step(*each) for each in header["before"]),
    )


def _version(path: Path) -> int:
    with path.open("rb") as file:
        found = _MAGIC.match(file.read(32))
    if found is None:
        raise SpillCorrupt(str(path), "it does not begin like a spill file")
    return int(found[1])


def _opened(path: Path) -> tuple[dict[str, Any], memoryview]:
    try:
        version = _version(path)
        data = memoryview(path.read_bytes())
        if version != FORMAT_VERSION:
            raise UnsupportedFormat(version, FORMAT_VERSION, "spilled rows")
        at = len(b"LMRSPILL%d\n" % version)
        size, checksum = _HEAD.unpack(data[at : at + _HEAD.size])
        header = bytes(data[at + _HEAD.size : at + _HEAD.size + size])
        if zlib.crc32(header) != checksum:
            raise SpillCorrupt(str(path), "its header is not what was written")
        return json.loads(header), data[at + _HEAD.size + size :]
    except (OSError, ValueError, struct.error) as error:
        raise SpillCorrupt(str(path), str(error)) from error
