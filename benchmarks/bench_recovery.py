"""How long it takes to open a state: every file verified, side by side; then with an engine."""

from __future__ import annotations

import os
import tempfile
import time
import warnings
import zlib
from pathlib import Path

import pyarrow as pa

import laminar
from benchmarks.report import Row, best_ns
from laminar.checkpoint import (
    CheckpointStorage,
    DagCheckpointConfig,
    DagCheckpointMetadata,
    DagRecoveryManager,
)
from laminar.model.state import EngineState
from laminar.model.trace import Manifest, Segment, Trace
from laminar.store import EpochLog, ManifestStore, Range

MEGABYTES = int(os.environ.get("LAMINAR_BENCH_STATE_MB", "1024"))
NODES, SEGMENTS = 16, 8
VIEWS, EPOCHS, ROWS = 16, 8, 200_000


def run() -> list[Row]:
    """Measure opening, going back to a checkpoint's copies, a checkpoint, and a line of the log."""
    with tempfile.TemporaryDirectory(prefix="laminar-bench-") as folder:
        root = Path(folder)
        manifest = _state(root)
        size = sum(trace.bytes for trace in manifest.traces.values()) / 2**20
        opened = _opened(root)
        saved = _saved(root, manifest)
        again = _saved(root, manifest)
        for name in sorted(manifest.files):
            (root / name).unlink()
        healed = _opened(root)
        log = EpochLog(root)
        line = best_ns(lambda: log.begin(9, [Range("t", 0, 1)]), calls=20) / 1e6
        log.close()
    note = f"{size:,.0f} MB in {NODES * SEGMENTS} segments of {NODES} nodes"
    return [
        Row("recovery, all whole", opened, "s", f"{note}; aim: under 5 s"),
        Row("recovery, all files from a checkpoint", healed, "s", note),
        Row("checkpoint, first", saved, "s", f"{note}, linked and verified"),
        Row("checkpoint, nothing new", again, "s", note),
        Row("an epoch's line in the log", line, "ms", "appended and synced"),
        *_with_engine(),
    ]


def _with_engine() -> list[Row]:
    """Open a database to where it answers: whole, with an epoch to replay, from its checkpoint."""
    found = []
    with tempfile.TemporaryDirectory(prefix="laminar-bench-") as folder:
        root = Path(folder) / "state"
        with laminar.connect(root, master="local[2]") as db:
            db.execute("CREATE TABLE facts (k BIGINT, v BIGINT)")
            for number in range(VIEWS):
                query = f"SELECT k % {number + 2} AS k, SUM(v) AS v FROM facts GROUP BY ALL"
                db.execute(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
            for _ in range(EPOCHS):
                db.insert("facts", pa.table({"k": range(ROWS), "v": range(ROWS)}))
                db.step()
            db.checkpoint()
        note = f"{VIEWS} views of {EPOCHS * ROWS:,} rows; aim: under 5 s"
        found.append(Row("opening, all whole", _answered(root), "s", note))
        for path in (root / "manifests").iterdir():
            path.write_bytes(path.read_bytes()[:-9])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(Row("opening, from a checkpoint", _answered(root), "s", note))
    return found


def _answered(root: Path) -> float:
    started = time.perf_counter()
    with laminar.connect(root, master="local[2]") as db:
        db.sql("SELECT SUM(v) FROM v0").rows()
        return time.perf_counter() - started


def _state(root: Path) -> Manifest:
    """Write a state of the wanted size; what is in the segments does not matter here."""
    block = os.urandom(MEGABYTES * 2**20 // (NODES * SEGMENTS))
    checksum = f"crc32:{zlib.crc32(block):08x}"
    traces = {}
    for node in range(NODES):
        held = []
        for at in range(1, SEGMENTS + 1):
            name = f"data/n{node}/{at:012d}.parquet"
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(block)
            held.append(Segment((name,), at, at, 1, len(block), True, (checksum,)))
        traces[f"n{node}"] = Trace("n BIGINT, __weight BIGINT", tuple(held))
    catalog = [{"kind": "table", "name": name, "columns": []} for name in traces]
    manifest = Manifest(
        SEGMENTS, traces, {}, catalog, {}, EngineState(), "2026-01-01T00:00:00+00:00"
    )
    ManifestStore(root).commit(manifest)
    return manifest


def _opened(root: Path) -> float:
    started = time.perf_counter()
    DagRecoveryManager(root).recover()
    return time.perf_counter() - started


def _saved(root: Path, manifest: Manifest) -> float:
    storage = CheckpointStorage(root)
    draft = DagCheckpointMetadata(storage.next_id(), 0.0, NODES, {}, manifest.epoch)
    return storage.save(draft, manifest, DagCheckpointConfig()).duration
