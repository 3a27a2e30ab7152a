"""What a database holds, read from its folder: Spark is not started and nothing is written."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from laminar.cli.output import Printer
from laminar.connectors import SourceSpec, create_source
from laminar.connectors.source import close
from laminar.errors import DatabaseNotFound, LaminarError, SegmentMissing
from laminar.model.trace import WEIGHT, Manifest, Trace
from laminar.runtime.definitions import (
    Definition,
    OperatorDefinition,
    TableDefinition,
    from_json,
)
from laminar.runtime.relations import partial_trace
from laminar.runtime.standing import Standing
from laminar.store import ManifestStore, PendingLog

_TRIES = 3
"""A file may go while it is read: the process that writes has moved on. Then look again."""


@dataclass(frozen=True, slots=True)
class RelationStatus:
    """One table or view."""

    name: str
    kind: str
    state: str
    rows: int | None
    """How many rows it has; None if that is not stored as rows: fused, or accumulators."""
    stored_rows: int
    bytes: int
    segments: int
    waiting_rows: int
    """Rows that were pushed and that no epoch has read yet."""
    behind: bool | None
    """Whether its connector has more; None if that cannot be told."""


@dataclass(frozen=True, slots=True)
class DatabaseStatus:
    """All of it, at the newest epoch."""

    path: str
    epoch: int
    committed_at: str
    age_seconds: float
    oldest_epoch: int
    bytes: int
    watermarks: Mapping[str, int]
    relations: tuple[RelationStatus, ...]

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return dataclasses.asdict(self)


def find_state(state: Path | None) -> Path:
    """Return the folder that was named, or the one database that is near."""
    if state is not None:
        return state
    for folder in (Path(), Path("state")):
        if ManifestStore(folder).epochs():
            return folder
    raise DatabaseNotFound(str(Path.cwd()))


def read_status(root: Path, now: datetime | None = None) -> DatabaseStatus:
    """Read the newest manifest and what waits beside it."""
    for tried in range(1, _TRIES + 1):
        store = ManifestStore(root)
        manifest = store.latest()
        if manifest is None:
            raise DatabaseNotFound(str(root))
        try:
            relations = tuple(_relations(root, manifest))
        except FileNotFoundError as error:
            if tried == _TRIES:
                raise SegmentMissing(str(error.filename)) from None
            continue
        moment = now or datetime.now(UTC)
        committed = datetime.fromisoformat(manifest.committed_at)
        return DatabaseStatus(
            str(root),
            manifest.epoch,
            manifest.committed_at,
            max(0.0, round((moment - committed).total_seconds(), 3)),
            store.epochs()[0],
            sum(trace.bytes for trace in manifest.traces.values()),
            dict(manifest.watermarks),
            relations,
        )
    raise AssertionError("unreachable")


def _relations(root: Path, manifest: Manifest) -> list[RelationStatus]:
    committed = {name: end for name, end in manifest.offsets.items() if isinstance(end, int)}
    pending = PendingLog(root, committed)
    return [
        _relation(root, each, manifest, pending, _state(each.name, manifest))
        for each in from_json(manifest.catalog)
    ]


def _state(name: str, manifest: Manifest) -> str:
    """Return what a manifest tells of a view; why it is behind, only the running engine knows."""
    if name in manifest.state.get("paused", ()):
        return "paused"
    standing = Standing.from_json(manifest.state)
    failure = standing.failures.get(name)
    if failure is not None:
        return "suspended" if failure.is_suspended else "failing"
    if name in standing.gated:
        return "gated"
    return f"at epoch {standing.behind[name]}" if name in standing.behind else "running"


def _relation(
    root: Path, definition: Definition, manifest: Manifest, pending: PendingLog, state: str
) -> RelationStatus:
    name = definition.name
    # A view's hidden parts and its accumulators count as its own.
    own = {
        key: trace
        for key, trace in manifest.traces.items()
        if key in (name, partial_trace(name)) or key.startswith(f"{name}#")
    }
    waiting, behind = 0, None
    if isinstance(definition, TableDefinition):
        if definition.connector is None:
            start = manifest.offsets.get(name) or 0
            waiting = sum(batch.rows for batch in pending.after(name, start))
            behind = waiting > 0
        else:
            behind = _behind(definition, manifest.offsets.get(name))
    is_fused = name in manifest.state.get("fused", ())
    return RelationStatus(
        name,
        _kind(definition),
        state,
        None if is_fused else _rows(root, definition, own),
        sum(trace.rows for trace in own.values()),
        sum(trace.bytes for trace in own.values()),
        sum(len(trace.segments) for trace in own.values()),
        waiting,
        behind,
    )


def _kind(definition: Definition) -> str:
    if isinstance(definition, TableDefinition):
        return f"source ({definition.connector or 'pushed'})" if definition.is_source else "table"
    return "operator" if isinstance(definition, OperatorDefinition) else "materialized view"


def _rows(root: Path, definition: Definition, own: Mapping[str, Trace]) -> int | None:
    """Return Σ of the weights of a relation's own trace: exactly how many rows it has."""
    trace = own.get(definition.name)
    if trace is None:
        # A view without a trace has accumulators, or nothing has arrived yet.
        return None if own else 0
    return sum(_weights(root / file) for file in trace.files)


def _weights(path: Path) -> int:
    total = 0
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(columns=[WEIGHT]):
            total += pc.sum(batch.column(0)).as_py() or 0
    return total


def _behind(definition: TableDefinition, offset: Any) -> bool | None:
    """Ask the connector whether there is more; None if it is not known here, or cannot tell."""
    try:
        spec = SourceSpec(definition.name, definition.schema, definition.options)
        source = create_source(str(definition.connector), spec)
    except LaminarError:
        return None
    try:
        return source.latest_offset(offset) is not None
    except LaminarError:
        return None
    finally:
        close(source)


def show_status(found: DatabaseStatus, printer: Printer) -> None:
    """Print it for people."""
    printer.line(
        f"{found.path}: epoch {found.epoch}, committed {_ago(found.age_seconds)} ago,"
        f" {size(found.bytes)}; epochs {found.oldest_epoch} to {found.epoch} can be read"
    )
    for name, time in found.watermarks.items():
        printer.line(f"watermark of {name}: {time}")
    printer.rows(
        ("name", "kind", "state", "rows", "size", "segments", "lag"),
        [
            (
                each.name,
                each.kind,
                each.state,
                "-" if each.rows is None else each.rows,
                size(each.bytes),
                each.segments,
                _lag(each),
            )
            for each in found.relations
        ],
    )


def _lag(each: RelationStatus) -> str:
    if each.waiting_rows:
        return f"{each.waiting_rows:,} rows wait"
    if each.behind:
        return "there is more"
    if each.behind is None:
        return "" if not each.kind.startswith("source") else "not known"
    return "none"


def size(count: int) -> str:
    """Return a number of bytes for people."""
    amount, unit = float(count), "B"
    for bigger in ("KB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, bigger
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"


def _ago(seconds: float) -> str:
    for length, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return f"{seconds:.0f} seconds"
