"""State folders as a writer would leave them, made by hand: no Spark, no sleeping."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from laminar.checkpoint.config import DagCheckpointConfig
from laminar.checkpoint.metadata import DagCheckpointMetadata
from laminar.checkpoint.storage import CheckpointStorage
from laminar.model.event_time import END_OF_TIME
from laminar.model.state import EngineState
from laminar.model.trace import WEIGHT, Manifest, Segment, Trace
from laminar.runtime.catalog.definitions import (
    Definition,
    LateDefinition,
    TableDefinition,
    ViewDefinition,
    to_json,
)
from laminar.store import ManifestStore, PendingLog, parquet
from laminar.store.cursors import CursorStore

START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)

TRADES = (("id", "BIGINT", True), ("symbol", "STRING", True), ("ts", "TIMESTAMP", True))

VIEWS = {
    "normalized": "SELECT id, UPPER(symbol) AS symbol, ts FROM Trades",
    "vwap": "SELECT symbol, COUNT(*) AS n FROM normalized GROUP BY symbol",
    "anomalies": "SELECT * FROM normalized WHERE id > 10",
    "joined": "SELECT v.symbol, v.n FROM vwap v JOIN anomalies a ON v.symbol = a.symbol",
}

SOURCE = (
    "CREATE SOURCE trades (id BIGINT, symbol STRING, ts TIMESTAMP)"
    " WITH (connector = 'datagen', rows_total = '10', 'sasl.password' = 'hunter2')"
)


def definitions() -> dict[str, Definition]:
    options = {"rows_total": "10", "sasl.password": "hunter2"}
    found: dict[str, Definition] = {
        "trades": TableDefinition(
            "trades", TRADES, True, "datagen", options, SOURCE, event_time="ts"
        ),
        "fees": TableDefinition("fees", (("symbol", "STRING", True), ("fee", "DOUBLE", True))),
    }
    for name, query in VIEWS.items():
        sql = f"CREATE MATERIALIZED VIEW {name} AS {query}"
        found[name] = ViewDefinition(name, query, sql=sql)
    found["too_late"] = LateDefinition("too_late", "vwap")
    return found


SINK = {
    "name": "out",
    "relation": "joined",
    "connector": "files",
    "options": {"path": "out", "token": "hunter3"},
    "from_epoch": 0,
    "promise": "at least once",
    "sql": "CREATE SINK out FROM joined WITH (connector = 'files', token = 'hunter3')",
}


def outline() -> dict[str, Any]:
    """What a writer with Spark says of the views."""
    reads = {
        "normalized": ["trades"],
        "vwap": ["normalized"],
        "anomalies": ["normalized"],
        "joined": ["vwap", "anomalies"],
        "too_late": ["normalized", "vwap"],
    }
    return {
        name: {"columns": [["symbol", "string"], ["n", "bigint"]], "reads": reads[name],
               "strategy": "incremental"}
        for name in reads
    }  # fmt: skip


def segment(root: Path, name: str, epoch: int, weights: list[int]) -> Segment:
    data = pa.table({"n": pa.array(range(len(weights)), pa.int64()), WEIGHT: weights})
    path = root / "data" / f"{name}-{epoch}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(parquet.encode(data))
    size = path.stat().st_size
    file = str(path.relative_to(root))
    return Segment((file,), epoch, epoch, len(weights), size, min(weights) > 0, ("crc32:0",))


def report(epoch: int, rows_in: int) -> dict[str, Any]:
    views = [("normalized", 5), ("vwap", 2), ("anomalies", 1)]
    return {
        "rows_in": rows_in,
        "duration_ms": 100.0 + epoch,
        "started_at": (START + timedelta(seconds=epoch)).isoformat(),
        "views": [
            {"name": name, "rows_out": rows, "duration_ms": 10.5, "strategy": "incremental"}
            for name, rows in views
        ],
    }


def commit(root: Path, epoch: int, **changes: Any) -> None:
    """Commit an epoch as it follows from its number; `changes` are fields or parts of its state."""
    deltas = tuple(segment(root, "trades", each, [1, 1, 1]) for each in range(1, epoch + 1))
    traces = {
        "trades": Trace("id BIGINT", deltas),
        "anomalies": Trace("id BIGINT", (segment(root, "anomalies", epoch, [2, -1]),)),
        "vwap!partial": Trace("n BIGINT", (segment(root, "vwap", epoch, [1, 1]),)),
    }
    state: dict[str, Any] = {
        "fused": ["normalized"],
        "views": outline(),
        "paused": ["anomalies"],
        "held": {"anomalies": 1, "joined": 1},
        "sinks": [SINK],
        "counts": {"trades": {"read": 3 * epoch, "stored": 3 * epoch}},
        "clocks": {"late": {"vwap": 4 * epoch}},
        "report": report(epoch, 3 * epoch) if epoch else None,
    }
    given: dict[str, Any] = {
        "offsets": {"trades": 3 * epoch},
        "watermarks": {"trades": int(START.timestamp() * 1e6), "vwap": END_OF_TIME},
        "revision": 0,
    }
    given |= {key: changes.pop(key) for key in list(changes) if key in given}
    ManifestStore(root).commit(
        Manifest(
            epoch,
            traces,
            catalog=to_json(definitions()),
            state=EngineState.from_json({**state, **changes}),
            committed_at=(START + timedelta(seconds=epoch)).isoformat(),
            **given,
        )
    )


def make_state(root: Path, epochs: int = 3) -> Path:
    """Make a database with a fan-out, a diamond, a paused view, late rows, a sink."""
    for epoch in range(1, epochs + 1):
        commit(root, epoch)
    PendingLog(root).append("fees", pa.table({"symbol": ["a", "b"], "fee": [0.1, 0.2]}))
    CursorStore(root).advance("out", 1)
    keep_checkpoint(root)
    return root


def keep_checkpoint(root: Path) -> None:
    empty = Manifest(2, {}, {}, [], {}, EngineState(), "")
    made = DagCheckpointMetadata(1, 0.1, 0, {}, 2, created_at=START.isoformat())
    CheckpointStorage(root).save(made, empty, DagCheckpointConfig())
