"""Rows of epochs that a checkpoint overtook: kept with it, and run again without their sources.

Law: what an epoch makes is a function of the state before it, of its ranges, clock and announced
watermarks, and of the rows in those ranges. So these are all that has to be kept of an epoch in
flight; every delta between two nodes follows from them.

In a checkpoint an epoch in flight is an entry of its description, and its files lie in the folder
of the checkpoint. Put back at epoch `base`, `<root>/in_flight/<base>/<epoch>.json` says what waits
for an epoch in the folder beside it, and goes when that is committed. The newest base that is
committed counts: so a restore that was cut short leaves what waited before it.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from laminar.checkpoint.verify import fault
from laminar.errors.store import SegmentCorrupt, UnsupportedFormat
from laminar.model.row_counts import RowCounts
from laminar.model.trace import Segment
from laminar.store import LoggedEpoch, Range, durable_files, parquet
from laminar.store.durable_files import Unsealed, seal, unseal
from laminar.store.links import bring_durably
from laminar.store.names import folder_name
from laminar.store.segments import DATA
from laminar.store.wal import skipped_json, skipped_of

IN_FLIGHT = "in_flight"
"""The folder under the store's root, and in a checkpoint."""

FORMAT_VERSION = 1
"""The newest format this code writes and reads."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """What an epoch took from a connector, as a delta of its table."""

    range: Range
    segment: Segment | None
    rows: int
    """As many as the source gave; a delta of keyed rows may have more or fewer."""
    largest: Mapping[str, int] = field(default_factory=dict)
    """Part of the source -> its largest event time."""
    ahead: pa.Table | None = None
    """Rows too far in the future, which stay out of the table."""
    counts: RowCounts | None = None
    """What became of its rows; None in what an older version kept."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files of the delta, relative to the store's root."""
        return () if self.segment is None else self.segment.files


@dataclass(frozen=True, slots=True)
class Overtaken:
    """An epoch in flight: all that decides what it makes."""

    logged: LoggedEpoch
    delivered: tuple[Delivered, ...] = ()
    """What connectors gave; pushed rows are kept as the files they are in."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files of all deltas, relative to the store's root."""
        return tuple(name for each in self.delivered for name in each.files)

    def kept(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Return its entry in the description of a checkpoint, and files to write beside it.

        Those hold the rows that are too far in the future; deltas are in files already.
        """
        beside: dict[str, bytes] = {}
        entries = {}
        for each in self.delivered:
            ahead = None
            if each.ahead is not None:
                name = (
                    f"{IN_FLIGHT}/{self.logged.epoch:012d}-{folder_name(each.range.table)}.parquet"
                )
                beside[name] = parquet.encode(each.ahead)
                ahead = {"file": name, "checksum": durable_files.checksum_of(beside[name])}
            entries[each.range.table] = {
                "segment": each.segment and each.segment.to_json(),
                "rows": each.rows,
                "largest": dict(each.largest),
                "ahead": ahead,
                "counts": each.counts and each.counts.to_json(),
            }
        entry = {
            "ranges": [[each.table, each.start, each.end] for each in self.logged.ranges],
            "now_ms": self.logged.now_ms,
            "said": dict(self.logged.said),
            "delivered": entries,
        }
        if self.logged.skipped is not None:
            entry |= skipped_json(self.logged.skipped)
        return entry, beside


def logged(epoch: int, data: Mapping[str, Any]) -> LoggedEpoch:
    """Return an epoch in flight as it is logged, under a number that may be another one."""
    ranges = tuple(Range(*each) for each in data["ranges"])
    return LoggedEpoch(epoch, ranges, data["now_ms"], data["said"], skipped_of(data))


class InFlight:
    """What waits for epochs that are logged and not run yet; one writer.

    Args:
        root: the store's root.
        epoch: the newest that is committed.
    """

    def __init__(self, root: Path, epoch: int) -> None:
        self._root = root.resolve()
        self._top = self._root / IN_FLIGHT
        base = max((each for each in _numbers(self._top) if each <= epoch), default=epoch)
        self._folder = self._top / f"{base:012d}"
        self._epochs = set(_numbers(self._folder, ".json"))

    def holds(self, epoch: int) -> bool:
        """Whether rows wait for an epoch."""
        return epoch in self._epochs

    def take(self, taken: Range, epoch: int) -> Delivered | None:
        """Return what waits for a range of an epoch, as a new segment of its table.

        None if nothing does: then the source is asked.

        Raises:
            SegmentCorrupt: it is not what was written.
        """
        held = self.waiting(epoch) if epoch in self._epochs else ()
        found = next((each for each in held if each.range == taken), None)
        if found is None or found.segment is None:
            return found
        names = []
        for at, name in enumerate(found.segment.files):
            fresh = f"{epoch:012d}-{uuid.uuid4().hex[:12]}-{at}.parquet"
            path = self._root / DATA / folder_name(taken.table) / fresh
            with durable_files.unwritable(path):
                bring_durably(self._root / name, path)
            names.append(path.relative_to(self._root).as_posix())
        segment = replace(found.segment, files=tuple(names), lo=epoch, hi=epoch)
        return replace(found, segment=segment)

    def waiting(self, epoch: int) -> tuple[Delivered, ...]:
        """Return all that waits for an epoch, verified; files are where they wait.

        Raises:
            SegmentCorrupt: it is not what was written.
            UnsupportedFormat: another version wrote it.
        """
        entry = self._read(epoch)
        ranges = {each[0]: Range(*each) for each in entry["ranges"]}
        return tuple(
            self._delivered(epoch, ranges[table], each)
            for table, each in entry["delivered"].items()
        )

    def forget_through(self, epoch: int) -> None:
        """Let go of what waited for epochs that are committed."""
        for each in [each for each in self._epochs if each <= epoch]:
            self._forget(each)

    def keep_only(self, epochs: Collection[int]) -> None:
        """Let go of all that waits for other epochs than these, such as the rest of a crash."""
        for each in self._epochs - set(epochs):
            self._forget(each)
        for base in _numbers(self._top):
            if self._top / f"{base:012d}" != self._folder or not self._epochs:
                durable_files.remove_tree(self._top / f"{base:012d}", point=IN_FLIGHT)

    def _forget(self, epoch: int) -> None:
        # The note first: files without one are debris.
        durable_files.remove_quietly(self._note(epoch), point=IN_FLIGHT)
        durable_files.remove_tree(self._of(epoch), point=IN_FLIGHT)
        self._epochs.discard(epoch)

    def _delivered(self, epoch: int, taken: Range, data: Mapping[str, Any]) -> Delivered:
        top = self._of(epoch)
        for name, expected in _checksums(data).items():
            said = fault(top / name, expected)
            if said is not None:
                raise SegmentCorrupt(str(top / name), said)
        segment = data["segment"] and Segment.from_json(data["segment"])
        if segment is not None:
            prefix = top.relative_to(self._root).as_posix()
            segment = replace(segment, files=tuple(f"{prefix}/{name}" for name in segment.files))
        ahead = None if data["ahead"] is None else parquet.decode(top / data["ahead"]["file"])
        counts = RowCounts(**data["counts"]) if data.get("counts") else None
        return Delivered(taken, segment, data["rows"], data["largest"], ahead, counts)

    def _read(self, epoch: int) -> Any:
        path = self._note(epoch)
        try:
            found = unseal(path.read_bytes())
        except (OSError, Unsealed) as error:
            raise SegmentCorrupt(str(path), str(error)) from error
        if found["format"] != FORMAT_VERSION:
            raise UnsupportedFormat(found["format"], FORMAT_VERSION, "rows in flight")
        return found

    def _note(self, epoch: int) -> Path:
        return self._folder / f"{epoch:012d}.json"

    def _of(self, epoch: int) -> Path:
        return self._folder / f"{epoch:012d}"


def put_back(
    root: Path,
    base: int,
    kept: Path,
    entries: Mapping[int, Mapping[str, Any]],
    *,
    copies: bool = False,
) -> None:
    """Let rows of a checkpoint wait for the epochs after one; durable on return.

    Args:
        root: the store's root.
        base: the epoch that the checkpoint will be.
        kept: the folder of the checkpoint.
        entries: epoch, as it will be numbered -> its entry in the description.
        copies: whether the checkpoint shares no file with what is live.
    """
    folder = root.resolve() / IN_FLIGHT / f"{base:012d}"
    durable_files.remove_tree(folder, point=IN_FLIGHT)  # the rest of an attempt that was cut short
    for epoch, entry in entries.items():
        for name in checksums(entry):
            path = folder / f"{epoch:012d}" / name
            bring_durably(kept / name, path, copies=copies)
        if entry["delivered"]:
            record = {"format": FORMAT_VERSION, "epoch": epoch, **entry}
            durable_files.write_atomic(folder / f"{epoch:012d}.json", seal(record), point=IN_FLIGHT)


def _numbers(folder: Path, suffix: str = "") -> list[int]:
    paths = durable_files.listed(folder)
    return [int(p.stem) for p in paths if p.suffix == suffix and p.stem.isdecimal()]


def checksums(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return file -> its checksum, of an epoch in flight."""
    return {
        name: checksum
        for each in entry["delivered"].values()
        for name, checksum in _checksums(each).items()
    }


def _checksums(delivered: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    if delivered["segment"]:
        segment = delivered["segment"]
        found |= dict(zip(segment["files"], segment["checksums"], strict=True))
    if delivered["ahead"]:
        found[delivered["ahead"]["file"]] = delivered["ahead"]["checksum"]
    return found
