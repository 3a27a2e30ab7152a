"""What a database holds, read from its folder: Spark is not started and nothing is written."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from laminar.checkpoint.storage import CheckpointStorage
from laminar.connectors.source import close
from laminar.errors import DatabaseNotFound, SegmentMissing
from laminar.model.trace import WEIGHT, Manifest, Segment, Trace
from laminar.model.trace_name import own_traces
from laminar.runtime.catalog.definitions import (
    Definition,
    LateDefinition,
    OperatorDefinition,
    TableDefinition,
    from_json,
)
from laminar.runtime.catalog.redaction import without_rows
from laminar.runtime.catalog.source_options import CALL_TIMEOUT_MS
from laminar.runtime.ingest.connector_building import Building
from laminar.runtime.ingest.connector_thread import ConnectorThread, call_seconds
from laminar.runtime.ingest.source_health import SourceHealth
from laminar.runtime.output.sink_state import SinkMode, stored_status
from laminar.runtime.scheduling.epoch_plan import Skip
from laminar.runtime.scheduling.view_progress import ViewProgress
from laminar.store import ManifestStore, PendingLog
from laminar.store.cursors import CursorStore
from laminar.store.source_notes import SourceNotes

ASKING_SECONDS = 5.0
"""So long a connector may take to say whether it has more."""

_TRIES = 3
"""A file may go while it is read: the process that writes has moved on. Then look again."""


@dataclass(frozen=True, slots=True)
class RelationStatus:
    """One table or view."""

    name: str
    kind: str
    state: str
    """`running`; a view may also be `paused`, `held`, `scheduled`, `failing` or `suspended`, and a
    source `gated`, `failing` or `away`, as its writer knew last."""
    state_reason: str | None
    """What the matter is, if the database has said so; without values of rows."""
    epoch: int
    """The epoch its rows are of."""
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
class StoredSink:
    """One sink, as the process that writes has noted it."""

    name: str
    relation: str
    connector: str
    state: str
    """`running`, `behind` (it has not taken what there is, and nothing is known to be wrong),
    `retrying`, `away`, `suspended` or `paused`."""
    state_reason: str | None
    epoch: int | None
    """The last epoch it has taken."""
    lag_epochs: int
    attempts: int
    """Failures in a row."""
    next_try_ms: int | None


@dataclass(frozen=True, slots=True)
class KeptCheckpoint:
    """A complete checkpoint."""

    checkpoint_id: int
    epoch: int
    created_at: str
    bytes: int


@dataclass(frozen=True, slots=True)
class DatabaseStatus:
    """A database at its newest epoch, told from its files alone."""

    path: str
    epoch: int
    committed_at: str
    age_seconds: float
    oldest_epoch: int
    bytes: int
    watermarks: Mapping[str, int]
    late_rows: Mapping[str, int]
    """View or table -> rows that were too late, or too far in the future, for it."""
    checkpoints: tuple[KeptCheckpoint, ...]
    """Oldest first."""
    relations: tuple[RelationStatus, ...]
    sinks: tuple[StoredSink, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return plain values, as `laminar status --json` prints them."""
        return dataclasses.asdict(self)


def read_status(root: Path, now: datetime | None = None) -> DatabaseStatus:
    """Read the newest manifest and what waits beside it."""
    return StatusReader(root).read(now)[1]


@dataclass(slots=True)
class StatusReader:
    """Reads a database again and again; what cannot have changed is not read twice.

    One thread at a time.
    """

    root: Path
    patience: float = 0.0
    """For so many seconds a connector's answer counts: asking may mean asking a server."""
    clock: Callable[[], float] = time.monotonic
    asking: str | None = None
    """The source whose connector is being asked, for those who wait for that."""
    _weights: dict[str, int] = field(default_factory=dict)
    _answers: dict[str, tuple[float, bool | None]] = field(default_factory=dict)
    _checkpoints: dict[int, KeptCheckpoint] = field(default_factory=dict)

    def read(self, now: datetime | None = None) -> tuple[Manifest, DatabaseStatus]:
        """Return the newest epoch, and what it and the files beside it say.

        Raises:
            DatabaseNotFound: there is no epoch.
            ManifestCorrupt: the newest one is damaged.
            SegmentMissing: a file that it names is not there.
        """
        for tried in range(1, _TRIES + 1):
            store = ManifestStore(self.root)
            try:
                manifest = store.latest()
                if manifest is None:
                    raise DatabaseNotFound(str(self.root))
                found = self._status(manifest, store.epochs()[0], now or datetime.now(UTC))
            except FileNotFoundError as error:
                if tried == _TRIES:
                    raise SegmentMissing(str(error.filename)) from None
                continue
            return manifest, found
        raise AssertionError("unreachable")

    def _status(self, manifest: Manifest, oldest: int, now: datetime) -> DatabaseStatus:
        committed = datetime.fromisoformat(manifest.committed_at)
        return DatabaseStatus(
            str(self.root),
            manifest.epoch,
            manifest.committed_at,
            max(0.0, round((now - committed).total_seconds(), 3)),
            oldest,
            sum(trace.bytes for trace in manifest.traces.values()),
            dict(manifest.watermarks),
            dict(manifest.state.clocks.late),
            tuple(self._complete()),
            tuple(self._relations(manifest)),
            tuple(self._sinks(manifest)),
        )

    def _sinks(self, manifest: Manifest) -> Iterator[StoredSink]:
        cursors, progress = CursorStore(self.root), ViewProgress.from_state(manifest.state)
        for each in manifest.state.sinks:
            reach = progress.cursor(each["relation"], manifest.epoch)
            cursor = cursors.get(each["name"])
            found = stored_status(cursor, each.get("from_epoch", 0), reach)
            is_behind = found.state == SinkMode.RUNNING and found.lag_epochs > 0
            reason = without_rows(found.reason, "sinks")
            yield StoredSink(
                each["name"],
                each["relation"],
                each["connector"],
                "behind" if is_behind else found.state,
                "it has not taken the newest epoch yet" if is_behind else reason,
                found.epoch,
                found.lag_epochs,
                found.attempts,
                found.next_try_ms,
            )

    def _complete(self) -> Iterator[KeptCheckpoint]:
        storage = CheckpointStorage(self.root)
        ids = storage.ids()
        if any(each not in self._checkpoints for each in ids):
            self._checkpoints = {
                each.checkpoint_id: KeptCheckpoint(
                    each.checkpoint_id, each.epoch, each.created_at, each.bytes
                )
                for each in storage.complete()
            }
        yield from (self._checkpoints[each] for each in ids if each in self._checkpoints)

    def _relations(self, manifest: Manifest) -> Iterator[RelationStatus]:
        offsets = manifest.offsets.items()
        pending = PendingLog(self.root, {name: at for name, at in offsets if isinstance(at, int)})
        definitions = from_json(manifest.catalog)
        kept = {file for trace in manifest.traces.values() for file in trace.files}
        self._weights = {file: each for file, each in self._weights.items() if file in kept}
        notes = SourceNotes(self.root).read()
        for each in definitions:
            yield self._relation(each, manifest, pending, notes)

    def _relation(
        self,
        definition: Definition,
        manifest: Manifest,
        pending: PendingLog,
        notes: Mapping[str, Mapping[str, Any]],
    ) -> RelationStatus:
        name = definition.name
        # A view's hidden parts and its accumulators count as its own.
        own = {key: manifest.traces[key] for key in own_traces(name, manifest.traces)}
        waiting, behind = 0, None
        if isinstance(definition, TableDefinition):
            if definition.connector is None:
                start = manifest.offsets.get(name) or 0
                waiting = sum(batch.rows for batch in pending.after(name, start))
                behind = waiting > 0
            else:
                behind = self._behind(definition, manifest)
        is_fused = name in manifest.state.fused
        state, reason = state_of(name, manifest)
        if isinstance(definition, TableDefinition) and definition.connector and name in notes:
            noted = SourceHealth(**notes[name])
            state, reason = noted.state, without_rows(noted.reason, "sources")
        return RelationStatus(
            name,
            kind_of(definition),
            state,
            reason,
            ViewProgress.from_state(manifest.state).cursor(name, manifest.epoch),
            None if is_fused else self._rows(name, own),
            sum(trace.rows for trace in own.values()),
            sum(trace.bytes for trace in own.values()),
            sum(len(trace.segments) for trace in own.values()),
            waiting,
            behind,
        )

    def _rows(self, name: str, own: Mapping[str, Trace]) -> int | None:
        """Return Σ of the weights of a relation's own trace: exactly how many rows it has."""
        if name not in own:
            # A view without a trace has accumulators, or nothing has arrived yet.
            return None if own else 0
        return sum(map(self._weight, own[name].segments))

    def _weight(self, segment: Segment) -> int:
        if segment.units:
            return segment.rows
        for file in segment.files:
            if file not in self._weights:
                self._weights[file] = _weights(self.root / file)
        return sum(self._weights[file] for file in segment.files)

    def _behind(self, definition: TableDefinition, manifest: Manifest) -> bool | None:
        asked, answer = self._answers.get(definition.name, (None, None))
        now = self.clock()
        if asked is None or now - asked >= self.patience:
            self.asking = definition.name
            given = manifest.state.settings
            seconds = call_seconds(definition, int(given.get("call_timeout_ms", CALL_TIMEOUT_MS)))
            offset = manifest.offsets.get(definition.name)
            answer = _has_more(definition, offset, min(seconds, ASKING_SECONDS))
            self.asking = None
            self._answers[definition.name] = (now, answer)
        return answer


def kind_of(definition: Definition) -> str:
    """Return what a relation is, in a word or two."""
    match definition:
        case TableDefinition(is_source=True, connector=connector):
            return f"source ({connector or 'pushed'})"
        case TableDefinition():
            return "table"
        case OperatorDefinition():
            return "operator"
        case LateDefinition():
            return "late rows"
    return "materialized view"


def state_of(name: str, manifest: Manifest) -> tuple[str, str | None]:
    """Return whether a relation goes on with the epochs, and if not, what the matter is.

    Why a view is behind is known as of the newest epoch that went without it.
    """
    progress = ViewProgress.from_state(manifest.state)
    if name in manifest.state.paused:
        return "paused", None
    failure = progress.failures.get(name)
    if failure is not None:
        return "suspended" if failure.is_suspended else "failing", without_rows(failure.reason)
    if name in progress.gated:
        return "gated", "no view may see its rows yet"
    if name not in progress.behind:
        return "running", None
    report = manifest.state.report
    said = {each["name"]: each["reason"] for each in report.get("held", ())}.get(name)
    if said is not None and said.startswith(Skip.NOT_DUE):
        return "scheduled", said
    for other in progress.failures.values():  # what it waits for may have failed at a row
        said = said and said.replace(other.reason, without_rows(other.reason) or "")
    return "held", said


def _weights(path: Path) -> int:
    total = 0
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(columns=[WEIGHT]):
            total += pc.sum(batch.column(0)).as_py() or 0
    return total


def _has_more(definition: TableDefinition, offset: Any, seconds: float) -> bool | None:
    """Ask the connector whether there is more; None if it is not known here, or cannot tell."""
    building = Building(definition)
    try:
        source = building.result(seconds)
    except Exception:
        building.abandon()
        return None
    thread = ConnectorThread(definition.name, seconds)
    try:
        return thread.call("latest_offset", partial(source.latest_offset, offset)) is not None
    except Exception:
        return None
    finally:
        with suppress(Exception):
            thread.end(partial(close, source))
