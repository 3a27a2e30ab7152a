"""Small states on disk, without Spark: relations of one row per epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from laminar.model.state import EngineState
from laminar.model.trace import Manifest, Segment, Trace
from laminar.store import EpochLog, ManifestStore, PendingLog, Range, durable_files, parquet
from laminar.store.names import folder_name

SCHEMA = "n BIGINT, __weight BIGINT"
CATALOG: list[dict[str, Any]] = [
    {"kind": "table", "name": "t", "columns": [["n", "BIGINT", True]], "connector": None},
    {"kind": "view", "name": "v", "query": "SELECT SUM(n) AS n FROM t"},
]


def segment(root: Path, relation: str, epoch: int) -> Segment:
    """Write a segment of one row."""
    table = parquet.weighted(pa.table({"n": [epoch]}))
    name = f"data/{folder_name(relation)}/{epoch:012d}-x.parquet"
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(parquet.encode(table))
    return Segment(
        (name,), epoch, epoch, 1, path.stat().st_size, True, (durable_files.checksum(path),)
    )


def build(
    root: Path,
    epochs: int,
    *,
    since: int = 1,
    log: bool = True,
    catalog: list[dict[str, Any]] | None = None,
    state: EngineState | None = None,
) -> list[Manifest]:
    """Commit epochs of the table `t` and of the view `v`, each with the row it was pushed."""
    store, wal, pending = ManifestStore(root), EpochLog(root), PendingLog(root)
    last = store.latest()
    traces = dict(last.traces) if last else {"t": Trace(SCHEMA), "v": Trace(SCHEMA)}
    made = []
    for epoch in range(since, epochs + 1):
        pending.append("t", pa.table({"n": [epoch]}))
        if log:
            wal.begin(epoch, [Range("t", epoch - 1, epoch)])
        traces = {name: each.append(segment(root, name, epoch)) for name, each in traces.items()}
        at = f"2026-01-01T00:00:{epoch:02d}+00:00"
        made.append(
            Manifest(
                epoch, traces, {"t": epoch}, catalog or CATALOG, {}, state or EngineState(), at
            )
        )
        store.commit(made[-1])
    return made


def flip(path: Path, at: int = 10) -> None:
    """Change one byte, in place: every hard link sees it."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 0xFF]))
