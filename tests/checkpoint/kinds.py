"""Every kind of file that a state directory may hold: where it is, and how it is read."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from laminar.bridge.messages import RowBatch
from laminar.bridge.spill import SpillLog
from laminar.checkpoint import CheckpointStorage, DagCheckpointConfig, DagCheckpointMetadata
from laminar.checkpoint.in_flight import Delivered, InFlight, Overtaken, put_back
from laminar.checkpoint.restore import load
from laminar.errors import LaminarError, SegmentCorrupt
from laminar.model.trace import Manifest
from laminar.store import (
    EpochLog,
    ManifestStore,
    PendingLog,
    Range,
    SegmentStore,
    StateLock,
)
from laminar.store.cursors import SUBSCRIPTIONS, CursorStore
from laminar.store.durable_files import seal, unseal
from laminar.store.lock import owner

from .stored import build, segment

TAKEN = Range("s", 2, 3)
READ = 2
"""The newest epoch."""


class LogDamaged(LaminarError):
    """What recovery reports of the log, as an error."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of durable file."""

    name: str
    pattern: str
    """Of its paths, relative to the root."""
    read: Callable[[Path], Any]
    """Returns what it says, or raises."""
    other: Callable[[Path, int], None] | None = None
    """Makes it one of another format; None if another kind says which format it is of."""
    is_advice: bool = False
    """What it says is for messages alone: None if it cannot be told."""

    def path(self, root: Path) -> Path:
        """Return where the first one is."""
        names = (p.relative_to(root).as_posix() for p in sorted(root.rglob("*")) if p.is_file())
        return root / next(name for name in names if re.fullmatch(self.pattern, name))


def state(root: Path) -> None:
    """Write a state directory with a file of every kind."""
    manifest = build(root, READ)[-1]
    PendingLog(root).append("t", pa.table({"n": [3]}))
    taken = segment(root, "s", 3)
    log = EpochLog(root)
    entry = log.begin(3, [TAKEN, Range("t", 2, 3)])
    log.close()
    flying = Overtaken(entry, (Delivered(TAKEN, taken, 1, {}, pa.table({"n": [9]})),))
    pushed = [PendingLog(root).after("t", 2)[0].path.relative_to(root).as_posix()]
    storage = CheckpointStorage(root)
    draft = DagCheckpointMetadata(1, 0.0, 2, manifest.offsets, manifest.epoch)
    made = storage.save(draft, manifest, DagCheckpointConfig(copies=True), pushed, [flying])
    put_back(root, READ, storage.own_folder(made), made.in_flight_by_epoch())
    (root / taken.files[0]).unlink()
    CursorStore(root).advance("k", 2, {"a": "b"})
    CursorStore(root, SUBSCRIPTIONS).advance("me", 1)
    SpillLog(root / "spill" / "s").append(RowBatch(pa.table({"n": [1, 2]}), 2, 16, start=0, end=2))
    StateLock(root).release()


def _sealed(key: str) -> Callable[[Path, int], None]:
    def change(path: Path, version: int) -> None:
        path.write_bytes(seal({**unseal(path.read_bytes()), key: version}))

    return change


def _in_log(path: Path, version: int) -> None:
    line = path.read_bytes().splitlines()[-1].partition(b" ")[2]
    body = json.dumps({**json.loads(line), "format": version}).encode()
    path.write_bytes(f"{zlib.crc32(body):08x} ".encode() + body + b"\n")


def _in_name(path: Path, version: int) -> None:
    path.rename(path.with_name(path.name.replace("-v2-", f"-v{version}-")))


def _in_magic(path: Path, version: int) -> None:
    path.write_bytes(path.read_bytes().replace(b"LMRSPILL2", b"LMRSPILL%d" % version, 1))


def _log(root: Path) -> Any:
    log = EpochLog(root, read_only=True)
    if log.damaged:
        raise LogDamaged("; ".join(log.damaged))
    return log.open_after(0)


def _segments(root: Path) -> None:
    stored = SegmentStore(root)
    newest: Manifest | None = ManifestStore(root).latest()
    assert newest is not None
    for trace in newest.traces.values():
        for each in trace.segments:
            stored.verify(each)


def _spilled(root: Path) -> Any:
    log = SpillLog(root / "spill" / "s")
    tables: list[Any] = [log.read(each).rows for each in log.found]
    return [(rows.to_pydict(), each.step) for rows, each in zip(tables, log.found, strict=True)]


def _checkpoint(root: Path) -> Any:
    return load(CheckpointStorage(root), 1)


def _kept_segments(root: Path) -> None:
    storage = CheckpointStorage(root)
    found = storage.faults(storage.read(1), storage.manifest(1))
    for each, reason in found.items():
        raise SegmentCorrupt(each.name, reason)


def _in_flight(root: Path) -> Any:
    return InFlight(root, READ).waiting(3)


def _pending(root: Path) -> Any:
    return [each.read() for each in PendingLog(root).between("t", 0, 3)]


DATA = r"data/.*\.parquet"
KINDS = [
    Kind(
        "manifest",
        r"manifests/0+2\.json",
        lambda root: ManifestStore(root).latest(),
        _sealed("format_version"),
    ),
    Kind("segment", DATA, _segments),
    Kind("log", r"wal/epochs\.log", _log, _in_log),
    Kind("pushed rows", r"pending/.*/0+3-.*\.parquet", _pending, _in_name),
    Kind("cursor", r"cursors/.*", lambda root: list(CursorStore(root).all()), _sealed("format")),
    Kind(
        "subscription",
        r"subscriptions/.*",
        lambda root: CursorStore(root, SUBSCRIPTIONS).get("me"),
        _sealed("format"),
    ),
    Kind("checkpoint", r"checkpoints/0+1/metadata\.json", _checkpoint, _sealed("format_version")),
    Kind(
        "checkpoint's manifest",
        r"checkpoints/0+1/manifest\.json",
        _checkpoint,
        _sealed("format_version"),
    ),
    Kind("checkpoint's segment", rf"checkpoints/copies/{DATA}", _kept_segments),
    Kind("checkpoint's pushed rows", r"checkpoints/0+1/pending/.*", _checkpoint),
    Kind("checkpoint's rows in flight", rf"checkpoints/0+1/{DATA}", _checkpoint),
    Kind("checkpoint's future rows", r"checkpoints/0+1/in_flight/.*", _checkpoint),
    Kind("note of rows in flight", r"in_flight/0+2/0+3\.json", _in_flight, _sealed("format")),
    Kind("rows in flight", rf"in_flight/0+2/0+3/{DATA}", _in_flight),
    Kind("future rows in flight", r"in_flight/0+2/0+3/in_flight/.*", _in_flight),
    Kind("spilled rows", r"spill/.*\.spill", _spilled, _in_magic),
    Kind("lock", r"lock", owner, _sealed("format"), is_advice=True),
]
